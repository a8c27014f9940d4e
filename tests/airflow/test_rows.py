"""The state table: whatever befalls a run, main holds whole runs alone, and no trace is left."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_provider_lancerefs.assets import asset_uri
from tests.airflow.api import Run
from tests.airflow.gates import Gates
from tests.airflow.marks import REAL_AIRFLOW
from tests.airflow.processes import kill_worker
from tests.airflow.releases import RELEASE, since
from tests.airflow.row import Row
from tests.airflow.stops import END

pytestmark = REAL_AIRFLOW

START = datetime(2026, 1, 1, tzinfo=UTC)  # of `row_daily`


@pytest.fixture(params=["row", pytest.param("s3_row", marks=pytest.mark.s3)])
def anywhere(request: pytest.FixtureRequest) -> Row:
    """A dataset once on local disk and once on S3: only the connection differs."""
    chosen: Row = request.getfixturevalue(request.param)
    return chosen


def test_all_good(anywhere: Row) -> None:
    """A run is published as a whole, once."""
    with anywhere.watched() as seen:
        anywhere.trigger().ends("success")
    assert seen.runs == {1: 1}


def test_work_fails(anywhere: Row) -> None:
    """Nothing is published, and the run is failed."""
    with anywhere.watched() as seen:
        run = anywhere.trigger(failing={"write_0": 9})
        run.ends("failed")
        assert run.states()["publish_branch"] == "upstream_failed"
    assert seen.runs == {}


def test_work_fails_and_its_retry_succeeds(row: Row) -> None:
    """What the first try wrote and what the second did are published together, once."""
    with row.watched() as seen:
        run = row.trigger(failing={"write_0": 1})
        run.ends("success")
        assert run.numbers()["write_0"] == 2
    assert seen.runs == {1: 1}


def test_worker_killed_while_writing(anywhere: Row) -> None:
    """A worker dies between two commits, unheard; the retry completes what it began."""
    with anywhere.watched() as seen:
        run = anywhere.trigger(hold=("write_0",))
        kill_worker(run.at(anywhere.gates["write_0"]))
        anywhere.gates["write_0"].open()
        run.ends("success")
        assert run.numbers()["write_0"] == 2
    assert seen.runs == {1: 1}


@pytest.mark.parametrize("state", ["failed", "success"])
def test_marked_while_writing(row: Row, state: str) -> None:
    """The teardown discards the branch; what was not published is no success, whoever says so."""
    with row.watched() as seen:
        run = row.trigger(hold=("write_0",))
        run.at(row.gates["write_0"])
        run.mark(state)
        run.ends("failed")
        assert row.place.store().branch_names() == []
    assert seen.runs == {}


def test_the_run_is_cleared(row: Row) -> None:
    """A second life of the run finds what the first published, and adds nothing to it."""
    with row.watched() as seen:
        run = row.trigger()
        run.ends("success")
        run.clear()
        run.ends("success")
        assert set(run.numbers().values()) == {2}
    assert seen.runs == {1: 1}


def test_a_failed_run_is_cleared(row: Row) -> None:
    """Everything runs again, on a new branch, and is published."""
    with row.watched() as seen:
        run = row.trigger(failing={"write_0": 2})
        run.ends("failed")
        run.clear()
        run.ends("success")
    assert seen.runs == {1: 1}


@pytest.mark.parametrize("downstream", [False, True], ids=["alone", "downstream"])
def test_one_of_two_writers_is_cleared(row: Row, downstream: bool) -> None:
    """Its new branch lacks the other's rows: it is never published, and the run says so."""
    with row.watched(writers=2) as seen:
        run = row.trigger("row_of_two", failing={"write_0": 2})
        run.ends("failed")
        assert "write_1" not in run.clear("write_0", downstream=downstream)
        run.ends("failed")
        has_new_branch = downstream or RELEASE >= (3, 3)  # else its setup is not cleared with it
        assert run.states()["write_0"] == ("success" if has_new_branch else "failed")
    assert seen.runs == {}


def test_one_of_two_writers_is_cleared_after_the_publish(row: Row) -> None:
    """What was published stays as it was."""
    with row.watched(writers=2) as seen:
        run = row.trigger("row_of_two")
        run.ends("success")
        run.clear("write_0", downstream=True)
        run.wait()
    assert seen.runs == {1: 1}


def test_what_failed_is_cleared(row: Row) -> None:
    """Its branch is gone, and no setup runs again: the task says so, and nothing is published."""
    with row.watched() as seen:
        run = row.trigger(failing={"write_0": 2})
        run.ends("failed")
        assert "create_branch" not in run.clear(only_failed=True)
        run.ends("failed")
    assert seen.runs == {}


def test_dagrun_timeout(row: Row) -> None:
    """No teardown runs, so that the branch is left to the sweep."""
    with row.watched() as seen:
        run = row.trigger("row_with_timeout", hold=("write_0",))
        run.ends("failed")
        assert run.states()["discard_branch"] == "skipped"
        assert len(row.place.store().branch_names()) == 1
    assert seen.runs == {}


def test_setup_fails_after_creating(row: Row) -> None:
    """No teardown runs, so that the branch is left to the sweep."""
    with row.watched() as seen:
        run = row.trigger(stop={"create_branch": END})
        run.at(row.gates[f"create_branch@{END}"])
        run.mark_task("create_branch", "failed")
        run.ends("failed")
        assert run.states()["discard_branch"] == "upstream_failed"
        assert len(row.place.store().branch_names()) == 1
    assert seen.runs == {}


def test_mapped_work(row: Row) -> None:
    """What every index of a mapped task wrote is published together."""
    with row.watched(writers=3) as seen:
        row.trigger("row_mapped").ends("success")
    assert seen.runs == {1: 1}


def test_one_index_of_mapped_work_fails(row: Row) -> None:
    """What the others wrote is not published."""
    with row.watched(writers=3) as seen:
        run = row.trigger("row_mapped", failing={"write_1": 9})
        run.ends("failed")
        states = run.states()
        assert [states[f"write[{index}]"] for index in range(3)] == ["success", "failed", "success"]
    assert seen.runs == {}


@dataclass
class Group:
    """The datasets of a mapped task group's indices, each watched."""

    rows: list[Row]

    def trigger(self, **of_run: Any) -> Run:
        datasets = [row.dataset for row in self.rows]
        return self.rows[0].trigger("row_mapped_group", datasets=datasets, **of_run)

    @property
    def gates(self) -> Gates:
        return self.rows[0].gates

    @contextlib.contextmanager
    def publishes(self, *indices: int) -> Iterator[None]:
        """Expect that in the end the rows of these indices are there, once, and no others."""
        with contextlib.ExitStack() as stack:
            seen = [stack.enter_context(row.watched()) for row in self.rows]
            yield
        assert [dict(one.runs) for one in seen] == [
            {index + 1: 1} if index in indices else {} for index in range(len(self.rows))
        ]


@pytest.fixture
def group(rows: Callable[[], Row]) -> Group:
    """Three of them."""
    return Group([rows() for _ in range(3)])


def test_mapped_group(group: Group) -> None:
    """Each index publishes to its own dataset, whose asset's event says so."""
    with group.publishes(0, 1, 2):
        run = group.trigger()
        run.ends("success")
    events = group.rows[0].airflow.api.asset_events(run)
    assert sorted((one["uri"], one["extra"]["version"]) for one in events) == sorted(
        (asset_uri(row.dataset), row.place.open().version) for row in group.rows
    )


def test_one_index_of_a_mapped_group_fails(group: Group) -> None:
    """Its dataset gets nothing, those of the others get theirs, and the run is failed."""
    with group.publishes(0, 2):
        run = group.trigger(failing={"write_1": 9})
        run.ends("failed")
        states = run.states()
        ends = [states[f"each.publish_branch[{index}]"] for index in range(3)]
        assert ends == ["success", "upstream_failed", "success"]
        assert [row.place.store().branch_names() for row in group.rows] == [[], [], []]


def test_indices_of_a_mapped_group_are_tried_again(group: Group) -> None:
    """One is retried, one's worker is killed: all is published once, and nobody waits for both."""
    with group.publishes(0, 1, 2):
        run = group.trigger(failing={"write_0": 1}, hold=("write_1",))
        pid = run.at(group.gates["write_1"])
        run.wait_for(("each.discard_branch", 2), "success")
        kill_worker(pid)
        group.gates["write_1"].open()
        run.ends("success")
        numbers = run.numbers()
        assert [numbers[f"each.write[{index}]"] for index in range(3)] == [2, 2, 1]


@since(3, 3, what="clearing of one index with its setup and no other")
def test_one_index_of_a_mapped_group_is_cleared(group: Group) -> None:
    """Its setup runs again with it, so that it is published; the others stay published."""
    with group.publishes(0, 1, 2):
        run = group.trigger(failing={"write_1": 2})
        run.ends("failed")
        run.clear(("each.write", 1), downstream=True)
        run.ends("success")


def test_indices_of_a_mapped_group_on_one_dataset(row: Row) -> None:
    """Each has a branch of its own, and all are published, beside each other."""
    with row.watched() as seen:
        run = row.trigger("row_mapped_group", datasets=[row.dataset] * 3)
        run.ends("success")
    assert seen.runs == {1: 1, 2: 1, 3: 1}


def test_two_runs_at_once(row: Row, gates: Gates) -> None:
    """Two runs write beside each other, and both are published as wholes."""
    with row.watched() as seen:
        first = row.trigger(number=1, hold=("write_0",))
        second = row.trigger(number=2, hold=("write_0",), gates=gates)
        first.at(row.gates["write_0"])
        second.at(gates["write_0"])
        row.gates["write_0"].open()
        gates["write_0"].open()
        first.ends("success")
        second.ends("success")
    assert seen.runs == {1: 1, 2: 1}


def test_a_backfill_of_ten_runs(row: Row) -> None:
    """Ten runs at once, each on a branch of its own, are all published."""
    if row.airflow.on_sqlite:
        pytest.skip("Airflow makes no backfill on an sqlite that is in use")
    api = row.airflow.api
    with row.watched() as seen:
        api.pause("row_daily", False)
        runs = api.backfill("row_daily", START, START + timedelta(days=9), row.conf(None))
        assert len(runs) == 10
        for run in runs:
            run.ends("success")
    assert seen.runs == dict.fromkeys(range(1, 11), 1)
