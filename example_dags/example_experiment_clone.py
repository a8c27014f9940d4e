"""A copy for an experiment: made in a moment, shares the files, and harms nobody."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, task
from orders import DATASET, open_table, seed_orders

from airflow_provider_lancerefs.operators.clone import LanceShallowCloneOperator


@task
def try_something(clone: dict[str, Any]) -> int:
    table = open_table(clone["target"])
    table.delete("amount < 11")
    return table.count_rows()


with DAG("example_lance_experiment", schedule=None, catchup=False, tags=["example", "lance"]):
    clone = LanceShallowCloneOperator(
        task_id="clone", dataset=DATASET, target="experiments/{{ run_id }}/orders"
    )
    seed_orders() >> clone
    try_something(clone.output)
