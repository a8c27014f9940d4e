"""Bodies of DAGs that use `lance_run`, in every place where it may stand."""

from __future__ import annotations

from collections.abc import Callable

from airflow.sdk import DAG, TaskGroup, task, task_group

from airflow_provider_lancerefs.runs import lance_run


@task
def work(number: int = 0, uri: str = "") -> int:
    return number


@task
def check(uri: str = "") -> None: ...


def plain() -> None:
    with lance_run("orders") as run:
        work(uri=run.uri) >> check(run.uri)


def several() -> None:
    with lance_run("orders", "items", tag="v1"):
        work()


def in_a_group() -> None:
    with TaskGroup("group"):
        plain()


def in_a_mapped_group() -> None:
    @task_group
    def group(number: int) -> None:
        with lance_run("orders") as run:
            work(number, run.uri)

    group.expand(number=[1, 2])


def mapped_inside() -> None:
    with lance_run("orders"):
        work.expand(number=[1, 2]) >> check()


def group_inside() -> None:
    with lance_run("orders"), TaskGroup("group"):
        work() >> check()


def nested() -> None:
    with lance_run("orders", name="outer"):
        work()
        with lance_run("orders", name="inner", source="main"):
            check()


def beside_each_other() -> None:
    for name in ("one", "two"):
        with lance_run("orders", name=name):
            work.override(task_id=f"{name}_work")()


def tag_only() -> None:
    with lance_run("orders", publish=False, tag="v1"):
        work()


def neither() -> None:
    with lance_run("orders", publish=False):
        work()


def empty() -> None:
    with lance_run("orders"):
        pass


def published_and_tagged() -> None:
    with lance_run("orders", tag="{{ ds }}"):
        work()


def dag_of(build: Callable[[], object]) -> DAG:
    with DAG("a_dag", schedule=None) as dag:
        build()
    return dag
