"""Write, audit, publish: what an audit refuses is never seen by readers of main."""

from __future__ import annotations

from airflow.sdk import DAG, Param
from orders import DATASET, audit_orders, seed_orders, write_orders

from airflow_provider_lancerefs.runs import lance_run

CHOSEN_DAY = "{{ params.day or dag_run.run_after.strftime('%Y-%m-%d') }}"

with DAG(
    "example_lance_write_audit_publish",
    schedule=None,
    catchup=False,
    tags=["example", "lance"],
    params={
        "day": Param(None, type=["string", "null"], description="Today, if not given"),
        "rows": Param(100, type="integer"),
        "wrong": Param(0, type="integer", description="How many orders the audit will not like"),
        "dies_at_first": Param(False, type="boolean", description="Let the first try die"),
    },
    render_template_as_native_obj=True,
):
    with lance_run(DATASET, tag=f"release-{CHOSEN_DAY}") as run:
        written = write_orders(
            run.uri,
            CHOSEN_DAY,
            rows="{{ params.rows }}",
            wrong="{{ params.wrong }}",
            dies_at_first="{{ params.dies_at_first }}",
        )
        written >> audit_orders(run.uri)
    seed_orders() >> run.setup
