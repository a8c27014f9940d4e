"""A publisher that is stopped at any of its writes, and goes on after somebody else was there.

Whatever the other did, the target reads whole, has the rows once or not at all, and the late one
ends with a result or one typed error. Every scene meets every rival on both stores in a nightly
run: `HYPOTHESIS_PROFILE=nightly`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_lancerefs.refstore import LanceRefsError, RefStore
from airflow_provider_lancerefs.refstore.dataset import Dataset
from tests.refstore.crashing.everywhere import MOST_POINTS, Outcome, in_short
from tests.refstore.crashing.orders import Ending, Moment
from tests.refstore.crashing.worlds import LocalWorld, S3World, World
from tests.refstore.publishing.calls import NO_TIME, publish
from tests.refstore.publishing.scenes import SCENES, Scene, check_whole, head, place, repair
from tests.services.seaweed import BUCKET, S3Server

pytestmark = pytest.mark.slow

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
Rival = Callable[[Dataset, Scene], object]


def deletes(dataset: Dataset, scene: Scene) -> None:
    RefStore(dataset).delete_branch(scene.branch, missing_ok=True)


def sweeps(dataset: Dataset, scene: Scene) -> None:
    """Everything that is nobody's goes, at once, and then the branch."""
    store = RefStore(replace(dataset, grace=NO_TIME))
    store.check(repair=True, orphan_age=NO_TIME)
    store.expire_branches("*", NO_TIME)


def publishes(dataset: Dataset, scene: Scene) -> None:
    """And compacts, so that it is no number of a fragment that tells the two apart."""
    publish(dataset, scene.branch)
    place(dataset, scene.target).open().optimize.compact_files()


def cleans(dataset: Dataset, scene: Scene) -> None:
    """Pylance removes old versions of the target, and every file that none of the others names."""
    place(dataset, scene.target).open().cleanup_old_versions(
        older_than=timedelta(0), delete_unverified=True
    )


RIVALS: Mapping[str, Rival] = {
    "deletes": deletes,
    "sweeps": sweeps,
    "publishes": publishes,
    "cleans up": cleans,
}
PUBLISHED = [name for name, scene in SCENES.items() if scene.publishes]
ALL = [(name, rival) for name in PUBLISHED for rival in RIVALS]
ON_DISK = [
    *(("files in the root", rival) for rival in RIVALS),
    *(("files to be copied", rival) for rival in RIVALS),
    ("changes on both sides", "publishes"),
    ("a branch of a branch", "sweeps"),
]
ON_S3 = [("files in the root", "publishes"), ("files to be copied", "sweeps")]


@pytest.mark.parametrize(("name", "rival"), ALL if NIGHTLY else ON_DISK)
def test_on_disk_a_late_publisher_does_no_harm(
    tmp_path: Path, record_property: Callable[[str, object], None], name: str, rival: str
) -> None:
    """Stopped after any write of its storage, and any commit."""
    world = LocalWorld(tmp_path, Moment.AFTER_WRITE)
    outcome = pause_everywhere(world, SCENES[name], RIVALS[rival])
    record_property("pause_points", outcome.points)
    assert outcome.points >= 3
    assert not outcome.failures, "\n".join(["", *outcome.failures])


@pytest.mark.s3
@pytest.mark.parametrize(("name", "rival"), ALL if NIGHTLY else ON_S3)
def test_on_s3_a_late_publisher_does_no_harm(
    s3: S3Server, record_property: Callable[[str, object], None], name: str, rival: str
) -> None:
    """Stopped after any write that the server did, pylance's own included."""
    outcome = pause_everywhere(S3World(s3, BUCKET), SCENES[name], RIVALS[rival])
    record_property("pause_points", outcome.points)
    assert outcome.points >= 3
    assert not outcome.failures, "\n".join(["", *outcome.failures])


def test_a_commit_without_a_fence_is_found(tmp_path: Path) -> None:
    """The harness sees rows that are there twice, where nothing keeps twins apart."""
    planted = replace(SCENES["files in the root"], call="planted twin")
    world = LocalWorld(tmp_path, Moment.AFTER_WRITE)
    failures = pause_everywhere(world, planted, publishes).failures
    assert any("AssertionError" in one for one in failures)


def pause_everywhere(world: World, scene: Scene, rival: Rival) -> Outcome:
    """Stop the scene's call at its first write, its second and so on, until there are no more."""
    scene.prepare(world.dataset)
    known, before, outcome = head(world.dataset, scene), world.save(), Outcome()
    for number in range(1, MOST_POINTS):
        world.restore(before)
        try:
            stopped = _pause(world, scene, rival, number, known)
        except Exception as error:  # whatever it is, the next write is tried as well
            stopped = True
            outcome.failures.append(f"stopped at {number}: {in_short(error)}")
        if not stopped:
            return outcome
        outcome.points += 1
    raise RuntimeError(f"{scene.call!r} does not come to an end.")


def _pause(world: World, scene: Scene, rival: Rival, number: int, known: int) -> bool:
    dataset = world.dataset
    with world.pausing(scene.call, number) as paused:
        if not paused.stopped:
            return False
        with contextlib.suppress(LanceRefsError):
            rival(dataset, scene)
        meanwhile = check_whole(dataset, scene, known)
        ending = paused.go_on()
    _check_late(dataset, scene, known, meanwhile, ending)
    return True


def _check_late(
    dataset: Dataset, scene: Scene, known: int, meanwhile: list[int], ending: Ending
) -> None:
    """Nobody is told of rows that are not there, and none are taken back; nothing lies about."""
    rows = check_whole(dataset, scene, known)
    if ending.version is not None or meanwhile == scene.after:
        assert rows == scene.after
    there = place(dataset, scene.target)
    if ending.version is not None:
        assert there.values(ending.version) == scene.after
    repair(dataset)
    assert check_whole(dataset, scene, known) == rows
    cleans(dataset, scene)
    assert check_whole(dataset, scene, known) == rows
