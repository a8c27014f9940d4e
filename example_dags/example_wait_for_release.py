"""A consumer that waits for a release, and reads just that one, whatever main shows by then."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, task
from orders import DATASET, DAY

from airflow_provider_lancerefs.hooks.refs import LanceRefsHook
from airflow_provider_lancerefs.sensors.refs import LanceTagSensor


@task
def read(found: dict[str, Any]) -> int:
    import lance

    hook = LanceRefsHook()
    table = lance.dataset(
        hook.dataset_uri(DATASET),
        version=found["tag"],
        storage_options=hook.storage_options(DATASET),
    )
    return table.count_rows()


with DAG("example_lance_wait_for_release", schedule=None, catchup=False, tags=["example", "lance"]):
    release = LanceTagSensor(
        task_id="wait",
        dataset=DATASET,
        tag=f"daily-{DAY}",
        deferrable=True,
        poke_interval=30,
        timeout=6 * 3600,
    )
    read(release.output)
