"""Gates in the provider's own operators: before the n-th change that they make, or at their end.

Hooks that Airflow calls around `execute` put them there, in the task's own process. Those before a
change hold on local disk only, and between the commits of pylance, which writes from Rust.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator

from tests.airflow.gates import FOLDER_KEY, Gate
from tests.changes import before_each_change

STOPS_KEY = "stops"
FOLDERS_KEY = "below"
END = "end"  # all is done, and Airflow does not know it yet


def stops(folder: str, **changes: int | str) -> dict[str, Any]:
    """The part of a run's conf that stops tasks: before a change, counted from 1, or at END."""
    return {FOLDERS_KEY: folder, STOPS_KEY: changes}


def with_stops(dag: DAG) -> None:
    """Let runs of a DAG stop within its tasks; the gates are named `<task>@<change>`."""
    for task in dag.tasks:
        if isinstance(task, BaseOperator):
            task._pre_execute_hook = partial(_stop_inside, task._pre_execute_hook)
            task._post_execute_hook = partial(_stop_at_end, task._post_execute_hook)


def _stop_inside(own: Callable[..., None] | None, context: Any) -> None:
    if own is not None:
        own(context)
    gate, number = _gate_of(context)
    if gate is None or number == END:
        return
    left = itertools.count(number - 1, -1)

    def act() -> None:
        if next(left) == 0:
            gate.pass_through()

    before_each_change(context["dag_run"].conf[FOLDERS_KEY], act)


def _stop_at_end(own: Callable[..., None] | None, context: Any, result: Any = None) -> None:
    if own is not None:
        own(context, result)
    gate, number = _gate_of(context)
    if gate is not None and number == END:
        gate.pass_through()


def _gate_of(context: Any) -> tuple[Gate | None, Any]:
    conf, task_id = context["dag_run"].conf or {}, context["task"].task_id
    number = conf.get(STOPS_KEY, {}).get(task_id)
    gate = Gate(Path(conf[FOLDER_KEY]), f"{task_id}@{number}") if number else None
    return gate, number
