"""No credential in anything that Airflow keeps, nor in what a machine shows of its processes."""

from __future__ import annotations

import pytest

from tests.airflow.marks import REAL_AIRFLOW
from tests.airflow.row import Row
from tests.airflow.secrecy import Marks, onlooker
from tests.services.seaweed import S3Server

pytestmark = [*REAL_AIRFLOW, pytest.mark.s3]

# Where Airflow itself keeps the login that a user typed: the connection, and an audit of that.
ALLOWED = {"connection.login", "log.extra"}


def test_the_search_finds_what_is_there(s3_row: Row) -> None:
    """A name that is no secret is found in the database, in the logs and among the processes."""
    run = s3_row.trigger()
    with onlooker("scheduler") as seen:
        run.ends("success")
    cells = Marks(s3_row.conn_id).cells(s3_row.airflow.database)
    assert {"connection.conn_id", "dag_run.conf"} <= cells
    assert "rendered_task_instance_fields.rendered_fields" in cells
    assert any(name.endswith(".log") for name in Marks(run.run_id).files(s3_row.airflow.home))
    assert seen.found


def test_no_secret_is_kept(s3: S3Server, s3_row: Row) -> None:
    """Good runs, failing ones and those of a dataset that is not there leave no trace of keys."""
    with onlooker(s3.access_key, s3.secret_key) as seen:
        good = s3_row.trigger()
        bad = s3_row.trigger(number=2, failing={"write_0": 9})
        lost = Row(s3_row.airflow, s3_row.gates, s3_row.place, "lost.lance", s3_row.conn_id)
        none = lost.trigger(number=3)
        good.ends("success")
        bad.ends("failed")
        none.ends("failed")
    assert seen.looks
    assert seen.found == set()
    database, home = s3_row.airflow.database, s3_row.airflow.home
    assert Marks(s3.secret_key).cells(database) == set()
    assert Marks(s3.access_key).cells(database) <= ALLOWED
    kept = Marks(s3.access_key, s3.secret_key).files(home)
    assert [name for name in kept if not name.startswith("airflow.db")] == []
