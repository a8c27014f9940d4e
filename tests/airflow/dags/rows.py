"""The DAGs of the state table: runs that write, one way or another, and what may befall them.

The run's conf says which dataset, which rows, which tries fail and which gates hold.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, get_current_context, task

from airflow_provider_lancerefs.runs import lance_run
from tests.airflow.gates import pass_gate
from tests.airflow.stops import with_stops

DATASET = "{{ dag_run.conf['dataset'] }}"
CONNECTION = "{{ dag_run.conf['conn_id'] }}"
START = datetime(2026, 1, 1, tzinfo=UTC)
SOON = timedelta(seconds=1)


@task(retries=1, retry_delay=SOON)
def write(uri: str, conn_id: str, writer: int) -> None:
    """Add this writer's rows to the run's branch, with a gate in their middle."""
    from tests.airflow.writing import add_rows  # lance is for tasks, not for whoever reads DAGs

    context = get_current_context()
    conf, name = context["dag_run"].conf or {}, f"write_{writer}"
    add_rows(context, uri, conn_id, writer, lambda: pass_gate(conf, name))
    if context["ti"].try_number <= conf.get("failing", {}).get(name, 0):
        raise RuntimeError(f"{name} was told to fail")


def define(dag_id: str, writers: int = 1, **of_dag: Any) -> DAG:
    """A DAG whose run has some writers, beside each other."""
    with DAG(dag_id, max_active_runs=16, **of_dag) as dag:
        with lance_run(DATASET, lancerefs_conn_id=CONNECTION, retry_delay=SOON) as run:
            for writer in range(writers):
                write.override(task_id=f"write_{writer}")(run.uri, CONNECTION, writer)
        with_stops(dag)
    return dag


def define_mapped(dag_id: str) -> DAG:
    """A DAG whose run has one mapped writer of three indices."""
    with DAG(dag_id, schedule=None) as dag:
        with lance_run(DATASET, lancerefs_conn_id=CONNECTION, retry_delay=SOON) as run:
            write.partial(uri=run.uri, conn_id=CONNECTION).expand(writer=[0, 1, 2])
        with_stops(dag)
    return dag


define("row", schedule=None)
define("row_of_two", writers=2, schedule=None)
define("row_with_timeout", schedule=None, dagrun_timeout=timedelta(seconds=20))
define(
    "row_daily",
    schedule="@daily",
    start_date=START,
    end_date=START + timedelta(days=30),  # so that it has runs by backfill alone
    catchup=False,
    is_paused_upon_creation=True,
)
define_mapped("row_mapped")
