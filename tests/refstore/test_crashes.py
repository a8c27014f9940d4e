"""Killed at any write of any call, a dataset loses nothing and lets the call be made again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from airflow_provider_lancerefs.refstore import Branch, RefStore, Tag, cloning, layout, versions
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.storage import open_storage
from tests.refstore.crashing.calls import CALLS, elsewhere
from tests.refstore.crashing.everywhere import Outcome, crash_everywhere
from tests.refstore.crashing.orders import Moment
from tests.refstore.crashing.scenarios import (
    CLONE,
    CREATE_FROM_MAIN,
    DELETE,
    HALF_WAY,
    ON_DISK,
    ON_S3,
    RELOCATE,
    Scenario,
    place,
    seed,
    tag_rows,
    tree,
)
from tests.refstore.crashing.worlds import LocalWorld, S3World, World
from tests.refstore.publishing.calls import NO_TIME
from tests.services.seaweed import BUCKET, S3Server

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "moment"),
    [
        *((name, Moment.AFTER_WRITE) for name in ON_DISK),
        *((name, Moment.BEFORE_CHANGE) for name in HALF_WAY),
    ],
)
def test_on_disk_every_call_survives_a_kill(
    tmp_path: Path, record_property: Callable[[str, object], None], name: str, moment: Moment
) -> None:
    """Killed at any write, or half-way through one, nothing acknowledged is lost, the call can be
    made again, a repair mends what is left, and every name is free to be used.
    """
    outcome = crash(LocalWorld(tmp_path, moment), ON_DISK[name])
    record_property("kill_points", outcome.points)
    assert outcome.points
    assert not outcome.failures, "\n".join(["", *outcome.failures])


@pytest.mark.s3
@pytest.mark.parametrize("name", ON_S3)
def test_on_s3_every_call_survives_a_kill(
    s3: S3Server, record_property: Callable[[str, object], None], name: str
) -> None:
    """Killed at any write of ours or pylance's, before its reply came: the same holds."""
    outcome = crash(S3World(s3, BUCKET), ON_S3[name])
    record_property("kill_points", outcome.points)
    assert outcome.points
    assert not outcome.failures, "\n".join(["", *outcome.failures])


def test_a_clone_before_its_ref_is_found(tmp_path: Path) -> None:
    """The harness sees what pylance's order of a create leaves: a name that cannot be taken."""
    planted = replace(CREATE_FROM_MAIN, call="planted create")
    failures = crash(LocalWorld(tmp_path, Moment.BEFORE_CHANGE), planted).failures
    assert any("retried: StorageError: pylance could not clone" in one for one in failures)


@pytest.mark.s3
def test_a_clone_before_its_ref_is_found_on_s3(s3: S3Server) -> None:
    """There the harness sees it too, at a write that only the server knows of."""
    planted = replace(CREATE_FROM_MAIN, call="planted create")
    failures = crash(S3World(s3, BUCKET), planted).failures
    assert any("retried: StorageError: pylance could not clone" in one for one in failures)


@pytest.mark.parametrize("moment", Moment)
def test_a_ref_removed_before_its_files_is_found(tmp_path: Path, moment: Moment) -> None:
    """The harness sees what a delete without states leaves: files that no ref speaks of."""
    planted = replace(DELETE, call="planted delete")
    failures = crash(LocalWorld(tmp_path, moment), planted).failures
    assert any("retried: AssertionError" in one for one in failures)


def crash(world: World, scenario: Scenario) -> Outcome:
    """Kill the scenario's call everywhere; make it again at once, or after a repair."""
    seed(world.dataset)
    scenario.prepare(world.dataset)
    known = Acknowledged.of(world.dataset, scenario)

    def retried(dataset: Dataset) -> None:
        known.check(dataset)
        scenario.halfway(dataset)
        CALLS[scenario.call](dataset)
        scenario.done(dataset)
        repair(dataset)
        live_again(dataset, scenario)
        known.check(dataset)

    def repaired(dataset: Dataset) -> None:
        repair(dataset)
        CALLS[scenario.call](dataset)
        scenario.done(dataset)
        live_again(dataset, scenario)
        known.check(dataset)

    return crash_everywhere(world, scenario.call, [retried, repaired])


@dataclass(frozen=True)
class Acknowledged:
    """What nobody may lose: refs, and the rows of every version, as pylance reads them."""

    refs: dict[str, Branch | Tag]
    tags: dict[str, list[int]]
    rows: dict[str, dict[int, list[int]]]

    @staticmethod
    def of(dataset: Dataset, scenario: Scenario) -> Acknowledged:
        store, table = RefStore(dataset), place(dataset)
        branches = [one for one in store.branch_names() if one not in scenario.branches]
        tags = [one for one in store.tag_names() if one not in scenario.tags]
        tables = {"main": table, **{name: table.branch(name) for name in branches}}
        return Acknowledged(
            {
                **{name: store.branch(name) for name in branches if name not in scenario.changed},
                **{name: store.tag(name) for name in tags if name not in scenario.changed},
            },
            {name: tag_rows(dataset, name) for name in tags},
            {
                name: {one["version"]: [] for one in table.open().versions()}
                for name, table in tables.items()
            },
        )._with_rows(dataset)

    def check(self, dataset: Dataset) -> None:
        store = RefStore(dataset)
        there = {one.name: one for one in [*store.branches(), *store.tags()]}
        assert {name: there.get(name) for name in self.refs} == self.refs
        assert self._with_rows(dataset).rows == self.rows
        assert {name: tag_rows(dataset, name) for name in self.tags} == self.tags
        listed = place(dataset).open()
        assert {*self.tags} <= {*listed.tags.list()}
        assert {*self.rows} - {"main"} <= {*listed.branches.list()}

    def _with_rows(self, dataset: Dataset) -> Acknowledged:
        table = place(dataset)
        read = {
            name: {
                version: (table if name == "main" else table.branch(name)).values(version)
                for version in known
            }
            for name, known in self.rows.items()
        }
        return replace(self, rows=read)


def repair(dataset: Dataset) -> None:
    """One repair mends everything, here and where a copy stands: a second look finds nothing."""
    copy = replace(dataset, storage=open_storage(elsewhere(dataset), dataset.storage_options))
    stands_there = versions.find_head(copy.storage, "main") is not None
    for one in [dataset, copy] if stands_there else [dataset]:
        strict = RefStore(replace(one, grace=NO_TIME))
        findings = strict.check(repair=True, orphan_age=NO_TIME).findings
        assert [found.code for found in findings if not found.repaired] == []
        assert [found.code for found in strict.check(orphan_age=NO_TIME).findings] == []
        names = strict.branch_names()
        assert [path for path in tree(one) if layout.owner(path, names) is None] == []


def live_again(dataset: Dataset, scenario: Scenario) -> None:
    """No name is bricked: each can be deleted, created from another source, and deleted again."""
    store, table = RefStore(dataset), place(dataset)
    for name in scenario.branches:
        store.delete_branch(name, missing_ok=True)
        store.create_branch(name, "main@1")
        assert table.branch(name).values() == [1, 2]
        store.delete_branch(name)
    for name in scenario.tags:
        store.delete_tag(name, missing_ok=True)
        store.create_tag(name, "main@2")
        assert tag_rows(dataset, name) == [1, 2, 3]
    if scenario in (CLONE, RELOCATE):
        store.delete_tag(cloning.pin_name(elsewhere(dataset)), force=True)
        there = open_storage(elsewhere(dataset), dataset.storage_options)
        there.delete_many(there.list(""))
        CALLS[scenario.call](dataset)
        scenario.done(dataset)
    repair(dataset)
