"""A few of the rows on PostgreSQL, which is what Airflow stands on in earnest."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.airflow.conftest import DAGS
from tests.airflow.gates import Gates
from tests.airflow.marks import REAL_AIRFLOW
from tests.airflow.postgres import postgres, programs
from tests.airflow.processes import kill_task
from tests.airflow.waiting import until
from tests.airflow.world import World, airflow_world

pytestmark = [
    *REAL_AIRFLOW,
    pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed"),
]


@pytest.fixture(scope="module")
def on_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """An Airflow of its own."""
    with (
        postgres() as url,
        airflow_world(tmp_path_factory.mktemp("airflow"), [DAGS], database=url) as world,
    ):
        yield world


def test_a_killed_task_is_retried(on_postgres: World, gates: Gates) -> None:
    """What the harness does on sqlite, it does here."""
    run = on_postgres.api.trigger("toy", gates.holding("work"))
    kill_task(gates["work"].wait())
    gates["work"].open()
    assert run.wait() == "success"
    assert run.numbers()["work"] == 2


def test_a_backfill_of_ten(on_postgres: World) -> None:
    """A backfill makes and ends its ten runs."""
    api = on_postgres.api
    api.pause("toy_daily", False)
    first, last = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 10, tzinfo=UTC)
    backfill = api.backfill("toy_daily", first, last)
    until(lambda: api.backfilled("toy_daily", backfill), "the backfill's end", 180)
    runs = [run for run in api.runs("toy_daily") if run.run_id.startswith("backfill")]
    assert [run.state() for run in runs] == ["success"] * 10
