"""Gates inside the provider's own operators: before the n-th change that they make to a dataset.

A hook that Airflow calls just before `execute` puts them there, in the task's own process. They
hold on local disk only, and between the commits of pylance, which writes from Rust.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator

from tests.airflow.gates import FOLDER_KEY, Gate
from tests.changes import before_each_change

STOPS_KEY = "stops"
FOLDERS_KEY = "below"


def stops(folder: str, **changes: int) -> dict[str, Any]:
    """The part of a run's conf that stops tasks before a change of theirs, counted from 1."""
    return {FOLDERS_KEY: folder, STOPS_KEY: changes}


def with_stops(dag: DAG) -> None:
    """Let runs of a DAG stop within its tasks; the gates are named `<task>@<change>`."""
    for task in dag.tasks:
        if isinstance(task, BaseOperator):
            task._pre_execute_hook = _stop_inside  # what the argument `pre_execute` sets


def _stop_inside(context: Any) -> None:
    conf = context["dag_run"].conf or {}
    task_id = context["task"].task_id
    number = conf.get(STOPS_KEY, {}).get(task_id)
    if number is None:
        return
    gate = Gate(Path(conf[FOLDER_KEY]), f"{task_id}@{number}")
    left = itertools.count(number - 1, -1)

    def act() -> None:
        if next(left) == 0:
            gate.pass_through()

    before_each_change(conf[FOLDERS_KEY], act)
