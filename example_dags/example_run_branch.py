"""Each run works on a branch of its own, which becomes main's when all of it has succeeded."""

from __future__ import annotations

from airflow.sdk import DAG
from orders import DATASET, DAY, seed_orders, write_orders

from airflow_provider_lancerefs.runs import lance_run

with DAG("example_lance_run_branch", schedule=None, catchup=False, tags=["example", "lance"]):
    with lance_run(DATASET) as run:
        write_orders.override(task_id="write_morning")(run.uri, f"{DAY} am")
        write_orders.override(task_id="write_evening")(run.uri, f"{DAY} pm")
    seed_orders() >> run.setup
