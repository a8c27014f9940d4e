"""Each run's Spark jobs work on a branch of its own; main has all of it at once, or nothing."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from orders import DATASET, DAY, audit_orders, seed_orders

from airflow_provider_lancerefs.operators.spark import LanceSparkSubmitOperator
from airflow_provider_lancerefs.runs import lance_run

JOB = str(Path(__file__).parent / "jobs" / "write_orders.py")

with DAG("example_lance_run_branch", schedule=None, catchup=False, tags=["example", "lance"]):
    with lance_run(DATASET) as run:
        written = [
            LanceSparkSubmitOperator(
                task_id=f"write_{part}",
                application=JOB,
                application_args=[f"{DAY} {part}", "50"],
                branch=run.branch,
                retries=2,
            )
            for part in ("am", "pm")
        ]
        written >> audit_orders(run.uri)
    seed_orders() >> run.setup
