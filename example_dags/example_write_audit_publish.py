"""Write, audit, publish: what an audit refuses is never seen by readers of main."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, Param
from orders import DATASET, audit_orders, seed_orders

from airflow_provider_lancerefs.operators.spark import LanceSparkSubmitOperator
from airflow_provider_lancerefs.runs import lance_run

JOB = str(Path(__file__).parent / "jobs" / "write_orders.py")
CHOSEN_DAY = "{{ params.day or dag_run.run_after.strftime('%Y-%m-%d') }}"

with DAG(
    "example_lance_write_audit_publish",
    schedule=None,
    catchup=False,
    tags=["example", "lance"],
    params={
        "day": Param(None, type=["string", "null"], description="Today, if not given"),
        "count": Param(100, type="integer"),
        "wrong": Param(0, type="integer", description="How many orders the audit will not like"),
        "dies_at_first": Param(False, type="boolean", description="Let the first try die"),
    },
):
    with lance_run(DATASET, tag=f"release-{CHOSEN_DAY}") as run:
        written = LanceSparkSubmitOperator(
            task_id="write_orders",
            application=JOB,
            application_args=[
                CHOSEN_DAY,
                "{{ params.count }}",
                "{{ params.wrong }}",
                "{{ 'dies' if params.dies_at_first and ti.try_number == 1 else '' }}",
            ],
            branch=run.branch,
            retries=2,
            retry_delay=timedelta(seconds=1),
        )
        written >> audit_orders(run.uri)
    seed_orders() >> run.setup
