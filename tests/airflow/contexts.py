"""A task instance outside of Airflow, for operators whose work is on real stores.

It stands in for Airflow's own to save the half minute that a real run takes; a real one drives the
end-to-end tests. What an operator asks of Airflow is kept as Airflow would keep it:
XComs go through JSON, templates are rendered by the operator itself, and asset events are put into
Airflow's own accessors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from airflow.sdk import DAG
from airflow.sdk.bases.operator import BaseOperator
from airflow.sdk.execution_time.context import OutletEventAccessors

DATE = datetime(2026, 1, 2, tzinfo=UTC)


@dataclass
class Run:
    """One DAG run: what its tasks pushed, their states, and which other runs are not over."""

    dag_id: str = "a_dag"
    run_id: str = "manual__2026-01-02T00:00:00+00:00"
    xcoms: dict[tuple[str, int, str], str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    unfinished: set[tuple[str, str]] = field(default_factory=set)
    events: OutletEventAccessors = field(default_factory=OutletEventAccessors)

    @cached_property
    def dag(self) -> DAG:
        """Where the tasks are, for those that look at what is upstream of them."""
        return DAG(self.dag_id)

    def execute(self, task: BaseOperator, map_index: int = -1, **context: Any) -> Any:
        """Render the task's templates, execute it, and push what it returns."""
        instance = Instance(self, task.task_id, map_index)
        full = {
            "ti": instance,
            "task": task,
            "logical_date": DATE,
            "outlet_events": self.events,
            **context,
        }
        task.render_template_fields(full)  # type: ignore[arg-type]
        result = task.execute(full)  # type: ignore[arg-type]
        instance.xcom_push("return_value", result)
        self.states[_key(task.task_id, map_index)] = "success"
        return instance.xcom_pull(task.task_id, map_indexes=map_index)


@dataclass
class Instance:
    """What operators know of their task instance."""

    run: Run
    task_id: str
    map_index: int = -1
    try_number: int = 1
    stats_tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def dag_id(self) -> str:
        return self.run.dag_id

    @property
    def run_id(self) -> str:
        return self.run.run_id

    def xcom_push(self, key: str, value: Any) -> None:
        self.run.xcoms[self.task_id, self.map_index, key] = json.dumps(value)

    def xcom_pull(self, task_ids: str, key: str = "return_value", map_indexes: int = -1) -> Any:
        found = self.run.xcoms.get((task_ids, map_indexes, key))
        return None if found is None else json.loads(found)

    def get_task_states(
        self, dag_id: str, task_ids: Sequence[str], run_ids: Sequence[str]
    ) -> Mapping[str, Mapping[str, str]]:
        assert (dag_id, [*run_ids]) == (self.dag_id, [self.run_id])
        states = {
            key: state
            for key, state in self.run.states.items()
            for task_id in task_ids
            if key == task_id or key.removeprefix(f"{task_id}_").isdigit()
        }
        return {self.run_id: states} if states else {}

    def get_dr_count(self, dag_id: str, run_ids: Sequence[str], states: Sequence[str]) -> int:
        assert {*states} == {"queued", "running"}
        return sum((dag_id, run_id) in self.run.unfinished for run_id in run_ids)


def _key(task_id: str, map_index: int) -> str:
    return task_id if map_index < 0 else f"{task_id}_{map_index}"
