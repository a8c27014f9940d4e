"""Once a day a sample is drawn from the table and gets a name that stays; main is as it was.

The tag keeps the run's branch: when the tag is deleted, the nightly sweep takes that too.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG
from orders import DATASET, DAY, audit_orders, seed_orders

from airflow_provider_lancerefs.operators.spark import LanceSparkSubmitOperator
from airflow_provider_lancerefs.runs import lance_run

JOB = str(Path(__file__).parent / "jobs" / "draw_sample.py")

with DAG(
    "example_lance_release_tag",
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["example", "lance"],
):
    with lance_run(DATASET, publish=False, tag=f"daily-{DAY}") as run:
        sample = LanceSparkSubmitOperator(
            task_id="draw_sample", application=JOB, branch=run.branch, retries=2
        )
        sample >> audit_orders(run.uri)
    seed_orders() >> run.setup
