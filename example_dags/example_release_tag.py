"""Once a day the published table gets a name that stays: a release."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG
from orders import DATASET, DAY, seed_orders

from airflow_provider_lancerefs.assets import lance_asset
from airflow_provider_lancerefs.operators.tag import LanceTagOperator

with DAG(
    "example_lance_release_tag",
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["example", "lance"],
):
    seed_orders() >> LanceTagOperator(
        task_id="release",
        dataset=DATASET,
        tag=f"daily-{DAY}",
        revision="main",
        outlets=[lance_asset(DATASET)],
    )
