"""Every night: the branches that no teardown could catch, for one that is killed runs none."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG
from orders import DATASET, seed_orders

from airflow_provider_lancerefs.operators.expire import LanceExpireBranchesOperator

with DAG(
    "example_lance_nightly_sweep",
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["example", "lance"],
):
    seed_orders() >> LanceExpireBranchesOperator(
        task_id="sweep", dataset=DATASET, pattern="run/*", older_than="3d"
    )
