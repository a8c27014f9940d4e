"""Killed at any write of a publish or a discard, the target has all of its rows or none of them,
the call can be made again, and one repair leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_lancerefs.refstore import RefStore
from airflow_provider_lancerefs.refstore.dataset import Dataset
from tests.refstore.crashing.calls import CALLS
from tests.refstore.crashing.everywhere import Outcome, crash_everywhere
from tests.refstore.crashing.orders import Moment
from tests.refstore.crashing.worlds import LocalWorld, S3World, World
from tests.refstore.publishing.scenes import SCENES, Scene, check_whole, head, place, repair
from tests.services.seaweed import BUCKET, S3Server

pytestmark = pytest.mark.slow

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
ON_S3 = ["files to be copied", "an index", "a discard"]


@pytest.mark.parametrize("name", list(SCENES))
def test_on_disk_a_publish_survives_a_kill(
    tmp_path: Path, record_property: Callable[[str, object], None], name: str
) -> None:
    """After any write of the storage, and any commit."""
    outcome = crash(LocalWorld(tmp_path, Moment.AFTER_WRITE), SCENES[name])
    record_property("kill_points", outcome.points)
    assert outcome.points >= 3
    assert not outcome.failures, "\n".join(["", *outcome.failures])


@pytest.mark.s3
@pytest.mark.parametrize("name", ON_S3)
def test_on_s3_a_publish_survives_a_kill(
    s3: S3Server, record_property: Callable[[str, object], None], name: str
) -> None:
    """After any write that the server did, pylance's own included, and before its reply.

    That a repair may come first is shown on disk, and here in a nightly run.
    """
    outcome = crash(S3World(s3, BUCKET), SCENES[name], repair_first=NIGHTLY)
    record_property("kill_points", outcome.points)
    assert outcome.points >= 3
    assert not outcome.failures, "\n".join(["", *outcome.failures])


def test_a_publish_that_is_noted_before_it_is_done_is_found(tmp_path: Path) -> None:
    """The harness sees rows that everybody is told of, and that are not there."""
    planted = replace(SCENES["files in the root"], call="planted publish")
    failures = crash(LocalWorld(tmp_path, Moment.AFTER_WRITE), planted).failures
    assert any("killed at 2, retried: AssertionError" in one for one in failures)


def crash(world: World, scene: Scene, *, repair_first: bool = True) -> Outcome:
    """Kill the scene's call everywhere; make it again at once, and then after a repair."""
    scene.prepare(world.dataset)
    known = head(world.dataset, scene)

    def retried(dataset: Dataset) -> None:
        check_whole(dataset, scene, known)
        again(dataset)
        repair(dataset)
        ends(dataset)

    def repaired(dataset: Dataset) -> None:
        repair(dataset)
        check_whole(dataset, scene, known)
        again(dataset)
        repair(dataset)
        ends(dataset)

    def again(dataset: Dataset) -> None:
        """What the call was made for is so, and a third call changes nothing."""
        CALLS[scene.call](dataset)
        version = head(dataset, scene)
        CALLS[scene.call](dataset)
        assert head(dataset, scene) == version
        assert check_whole(dataset, scene, known) == scene.after
        if scene.call == "publish and index":
            assert place(dataset).open().stats.index_stats("n_idx")["num_unindexed_rows"] == 0

    def ends(dataset: Dataset) -> None:
        """The branch can go, and takes nothing along that is needed."""
        RefStore(dataset).delete_branch(scene.branch, missing_ok=True)
        repair(dataset)
        assert check_whole(dataset, scene, known) == scene.after

    return crash_everywhere(world, scene.call, [retried, repaired] if repair_first else [retried])
