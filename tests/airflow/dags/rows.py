"""The DAGs of the state table: runs that write, one way or another, and what may befall them.

The run's conf says which dataset, which rows, which tries fail and which gates hold.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, get_current_context, task, task_group

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
    from tests.airflow.writing import number_of  # lance is for tasks, not for whoever reads DAGs

    _write(uri, conn_id, number_of(get_current_context()), writer, f"write_{writer}")


@task(retries=1, retry_delay=SOON)
def write_alone(uri: str, conn_id: str) -> None:
    """Add the rows of a run that has the number of this map index, counted from 1."""
    index = get_current_context()["ti"].map_index
    _write(uri, conn_id, index + 1, 0, f"write_{index}")


def _write(uri: str, conn_id: str, number: int, writer: int, name: str) -> None:
    from tests.airflow.writing import add_rows

    context = get_current_context()
    conf = context["dag_run"].conf or {}
    add_rows(uri, conn_id, number, writer, lambda: pass_gate(conf, name))
    if context["ti"].try_number <= conf.get("failing", {}).get(name, 0):
        raise RuntimeError(f"{name} was told to fail")


@task
def which() -> list[str]:
    """The datasets that a run is told to write to."""
    conf = get_current_context()["dag_run"].conf or {}
    return [*conf["datasets"]]


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


def define_mapped_group(dag_id: str) -> DAG:
    """A DAG whose run has a branch of its own for each dataset that it is told of."""
    with DAG(dag_id, schedule=None) as dag:

        @task_group
        def each(dataset: Any) -> None:
            with lance_run(dataset, lancerefs_conn_id=CONNECTION, retry_delay=SOON) as run:
                write_alone.override(task_id="write")(run.uri, CONNECTION)

        each.expand(dataset=which())
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
define_mapped_group("row_mapped_group")
