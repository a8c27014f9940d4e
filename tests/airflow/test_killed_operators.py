"""Workers that are killed -9 inside the provider's operators, before one change after another."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from tests.airflow.api import Run
from tests.airflow.marks import REAL_AIRFLOW
from tests.airflow.observing import Observer
from tests.airflow.processes import kill_task
from tests.airflow.row import Row
from tests.airflow.stops import END

pytestmark = REAL_AIRFLOW

MakeRow = Callable[[], Row]


@pytest.mark.parametrize(
    ("task", "changes"),
    [
        ("create_branch", (1, 3, END)),
        ("publish_branch", (1, 3, 6, END)),
        ("discard_branch", (1, 4, 12, END)),
    ],
)
def test_in_a_good_run(rows: MakeRow, task: str, changes: Sequence[int | str]) -> None:
    """The next try finishes what the dead one began, and the run is published once."""
    with killed(rows, task, changes) as victims:
        for run, seen in victims:
            run.ends("success")
            assert run.numbers()[task] == 2
            seen.look()
            assert seen.runs == {1: 1}


def test_in_the_teardown_of_a_bad_run(rows: MakeRow) -> None:
    """The next try discards what is left, and still fails the run."""
    with killed(rows, "discard_branch", (1, 4), failing={"write_0": 9}) as victims:
        for run, seen in victims:
            run.ends("failed")
            assert run.numbers()["discard_branch"] >= 2
            seen.look()
            assert seen.runs == {}


@contextlib.contextmanager
def killed(
    rows: MakeRow,
    task: str,
    changes: Sequence[int | str],
    failing: Mapping[str, int] | None = None,
) -> Iterator[list[tuple[Run, Observer]]]:
    """Runs beside each other, one for each change before which its task is killed."""
    with contextlib.ExitStack() as stack:
        made = [(rows(), change) for change in changes]
        seen = [stack.enter_context(row.watched()) for row, _ in made]
        runs = [row.trigger(stop={task: change}, failing=failing) for row, change in made]
        for run, (row, change) in zip(runs, made, strict=True):
            gate = row.gates[f"{task}@{change}"]
            kill_task(run.at(gate))
            gate.open()
        yield list(zip(runs, seen, strict=True))
