"""DAGs of no use but to show that the harness can do to a run what the tests need."""

from __future__ import annotations

from airflow.sdk import DAG, get_current_context, task

from tests.airflow.gates import pass_gate


@task
def create() -> None:
    pass_gate(_conf(), "create")


@task(retries=1)
def work(index: int = 0) -> int:
    pass_gate(_conf(), "work")
    if index in _conf().get("failing", ()):
        raise RuntimeError(f"index {index} fails")
    return index


@task
def drop() -> None:
    pass_gate(_conf(), "drop")


def _conf() -> dict[str, object]:
    return get_current_context()["dag_run"].conf or {}


with DAG("toy", schedule=None):
    setup, teardown = create().as_setup(), drop().as_teardown()
    setup >> work() >> teardown
    setup >> teardown

with DAG("toy_mapped", schedule=None):
    work.override(retries=0).expand(index=[0, 1, 2])
