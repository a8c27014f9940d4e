"""What operators are put to work on: real tables, the connection that leads there, and a run.

The context is that of `tests.airflow.contexts`, for speed; the end-to-end tests have a real one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk.bases.operator import BaseOperator

from airflow_provider_lancerefs.operators.branch import LanceCreateBranchOperator
from airflow_provider_lancerefs.refstore import refs
from airflow_provider_lancerefs.refstore.leases import Lease
from airflow_provider_lancerefs.refstore.storage.local import LocalStorage
from airflow_provider_lancerefs.refstore.store import RefStore
from tests.airflow.contexts import Run
from tests.tables import Place

NOTED = {
    "airflow.dag_id": "a_dag",
    "airflow.run_id": "manual__2026-01-02T00:00:00+00:00",
    "airflow.map_index": "-1",
    "airflow.try_number": "1",
    "airflow.logical_date": "2026-01-02T00:00:00+00:00",
    "airflow.owner": "somebody",
}
_numbers = itertools.count()


@dataclass
class Desk:
    """A root with two tables of one row, the connection that leads there, and a run."""

    root: Place
    conn_id: str
    run: Run = field(default_factory=Run)

    @property
    def orders(self) -> Place:
        return self.place("orders")

    @property
    def items(self) -> Place:
        return self.place("items")

    @property
    def store(self) -> RefStore:
        return self.orders.store()

    def place(self, name: str) -> Place:
        return Place(f"{self.root.uri}/{name}", self.root.options)

    def task(self, kind: type[BaseOperator], **arguments: Any) -> BaseOperator:
        arguments.setdefault("task_id", f"task_{next(_numbers)}")
        arguments.setdefault("dataset", "orders")
        given = {"dag": self.run.dag, "owner": "somebody", "lancerefs_conn_id": self.conn_id}
        return kind(**{**given, **arguments})

    def do(self, kind: type[BaseOperator], map_index: int = -1, **arguments: Any) -> Any:
        return self.run.execute(self.task(kind, **arguments), map_index)

    def twice(self, kind: type[BaseOperator], **arguments: Any) -> tuple[Any, Any]:
        """One task, executed two times, as by a retry after its reply was lost."""
        task = self.task(kind, **arguments)
        return self.run.execute(task), self.run.execute(task)

    def branch(self, *values: int, name: str = "work", **arguments: Any) -> str:
        """A branch of both tables to which the same values were written."""
        self.do(LanceCreateBranchOperator, branch=name, dataset=["orders", "items"], **arguments)
        for place in (self.orders, self.items) if values else ():
            place.branch(name).append(*values)
        return name

    def events(self) -> Mapping[str, Mapping[str, Any]]:
        """The extras of the asset events, by the last part of the asset's URI."""
        events = self.run.events
        return {one.uri.rpartition("/")[2]: events[one].extra for one in events}  # type: ignore[union-attr]


def refused(desk: Desk, kind: type[BaseOperator], **arguments: Any) -> str:
    """The sentence with which a task fails for good."""
    with pytest.raises(AirflowFailException) as error:
        desk.do(kind, **arguments)
    return str(error.value)


def held(desk: Desk, name: str, seconds: float = 3600) -> None:
    """Leave a branch as a publisher does that is at work, or died a moment ago."""
    dataset = desk.orders.store(publish_lease=timedelta(seconds=seconds))._dataset
    Lease(dataset, refs.read_branch(dataset.storage, name))


def tree(desk: Desk) -> dict[str, str]:
    """Every file of the tables, and what it was when it was listed."""
    storage = LocalStorage(desk.root.uri)
    return {one.path: one.token for one in storage.list("")}
