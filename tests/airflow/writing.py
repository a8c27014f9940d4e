"""How the tests' tasks write: with pylance, into the folder of the run's branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_provider_lancerefs.hooks.refs import LanceRefsHook
from tests.airflow.tables import rows_of
from tests.tables import Place


def add_rows(uri: str, conn_id: str, number: int, writer: int, between: Callable[[], None]) -> None:
    """Commit the first row of this writer of a run, and then the others.

    A try that died may have left some: only those that lack are added.
    """
    place = Place(uri, LanceRefsHook(conn_id).storage_options(uri))
    rows = rows_of(number, writer)
    _add(place, rows[:1])
    between()
    _add(place, rows[1:])


def number_of(context: Any) -> int:
    """Which run of the test's this is: as its conf says, or by the day of its logical date."""
    conf = context["dag_run"].conf or {}
    return int(conf.get("number") or context["logical_date"].day)


def _add(place: Place, rows: list[int]) -> None:
    there = set(place.values())
    missing = [row for row in rows if row not in there]
    if missing:
        place.append(*missing)
