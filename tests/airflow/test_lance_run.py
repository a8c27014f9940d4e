"""What `lance_run` tells the tasks that it adds, and gives to those inside."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import AssetAlias, task_group

from airflow_provider_lancerefs.operators.branch import LanceDeleteBranchOperator
from airflow_provider_lancerefs.operators.publish import LancePublishBranchOperator
from airflow_provider_lancerefs.refstore.errors import InvalidInputError
from airflow_provider_lancerefs.runs import LanceRunScope, lance_run
from tests.airflow.run_bodies import (
    check,
    dag_of,
    neither,
    plain,
    published_and_tagged,
    several,
    tag_only,
    work,
)

pytestmark = pytest.mark.airflow

EXPECTED = [
    (plain, "published", None),
    (published_and_tagged, "published", "{{ ds }}"),
    (tag_only, "tagged", None),
    (neither, None, None),
]


@pytest.mark.parametrize(
    ("build", "expect", "tag"), EXPECTED, ids=[build.__name__ for build, *_ in EXPECTED]
)
def test_what_the_guard_expects(
    build: Callable[[], None], expect: str | None, tag: str | None
) -> None:
    """It fails the run if that is missing; where it expects nothing, the work's own end counts."""
    guard = dag_of(build).get_task("discard_branch")
    assert isinstance(guard, LanceDeleteBranchOperator)
    assert (guard.expect, guard.expect_tag) == (expect, tag)
    assert guard.on_failure_fail_dagrun == (expect is not None)


def test_nothing_is_expected_if_nothing_has_to_be() -> None:
    """A run that may end without a publish does not hide what failed in it."""
    dag = dag_of(lambda: lance_run("orders", fail_if_unpublished=False).__enter__())
    guard = dag.get_task("discard_branch")
    assert isinstance(guard, LanceDeleteBranchOperator)
    assert guard.expect is None
    assert not guard.on_failure_fail_dagrun


def test_the_publish_waits_for_all_inside() -> None:
    """It needs the note of each task of the scope, and of none beside it."""

    def build() -> None:
        before = check.override(task_id="before")()
        with lance_run("orders") as run:
            work.expand(number=[1, 2]) >> check()
        before >> run.setup
        run.teardown >> check.override(task_id="after")()

    publish = dag_of(build).get_task("publish_branch")
    assert isinstance(publish, LancePublishBranchOperator)
    assert [*publish.scope] == ["check", "work"]


def test_arguments_of_the_added_tasks() -> None:
    """They are patient, and take what is given for them; the work's own tasks do not."""

    def build() -> None:
        with lance_run("orders", pool="lance", retry_delay=timedelta(seconds=1)):
            work()

    dag = dag_of(build)
    added = [one for one in dag.tasks if one.task_id.endswith("_branch")]
    assert len(added) == 3
    for one in added:
        assert (one.pool, one.retries, one.retry_delay) == ("lance", 3, timedelta(seconds=1))
    assert dag.get_task("work").pool != "lance"


def test_outlets() -> None:
    """What publishes and what tags has the assets of all datasets."""
    dag = dag_of(several)
    for name in ("publish_branch", "tag_branch"):
        assert [one.uri for one in dag.get_task(name).outlets] == [
            "lancerefs://lancerefs_default/orders",
            "lancerefs://lancerefs_default/items",
        ]


def test_outlets_of_what_a_run_alone_knows() -> None:
    """An alias stands for datasets that are named by a template or by a mapped group."""

    def build() -> None:
        @task_group
        def group(dataset: Any) -> None:
            with lance_run("orders", "{{ params.other }}", dataset):
                work()

        group.expand(dataset=["items", "customers"])

    asset, alias = dag_of(build).get_task("group.publish_branch").outlets
    assert asset.uri == "lancerefs://lancerefs_default/orders"
    assert isinstance(alias, AssetAlias)


def test_a_body_that_raises() -> None:
    """Its own error is what the author of the DAG sees."""

    def build() -> None:
        with lance_run("orders"):
            work()
            raise KeyError("a mistake")

    with pytest.raises(KeyError, match="a mistake"):
        dag_of(build)


def test_no_dataset() -> None:
    """It is told when the file is parsed."""
    with pytest.raises(InvalidInputError, match="at least one dataset"):
        dag_of(lance_run)


def test_what_a_scope_gives() -> None:
    """The branch, where to write, and all that is known of it come from the setup."""

    def build() -> None:
        run = lance_run("orders")
        assert isinstance(run, LanceRunScope)
        with run:
            work(uri=run.uri) >> check(run.branch) >> check.override(task_id="info")(run.info)
        keys = {one.key for one in (run.branch, run.uri, run.info)}
        assert keys == {"branch", "uri", "return_value"}
        assert {one.operator for one in (run.branch, run.uri, run.info)} == {run.setup}

    dag_of(build)
