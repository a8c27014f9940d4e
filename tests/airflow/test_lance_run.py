"""What `lance_run` makes of a DAG: which tasks, in which order, and what Airflow keeps of them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, AssetAlias, TaskGroup, task, task_group

from airflow_provider_lancerefs.operators.branch import LanceDeleteBranchOperator
from airflow_provider_lancerefs.operators.publish import LancePublishBranchOperator
from airflow_provider_lancerefs.refstore.errors import InvalidInputError
from airflow_provider_lancerefs.runs import LanceRunScope, lance_run
from tests.airflow.releases import DagSerialization

pytestmark = pytest.mark.airflow

REPOSITORY = Path(__file__).parents[2]
PARSE_SECONDS = 120


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


STRUCTURES: list[tuple[Callable[[], None], dict[str, list[str]]]] = [
    (
        plain,
        {
            "create_branch": ["check", "discard_branch", "publish_branch", "work"],
            "work": ["check"],
            "check": ["publish_branch"],
            "publish_branch": ["discard_branch"],
            "discard_branch": [],
        },
    ),
    (
        several,
        {
            "create_branch": ["discard_branch", "publish_branch", "tag_branch", "work"],
            "work": ["publish_branch"],
            "publish_branch": ["tag_branch"],
            "tag_branch": ["discard_branch"],
            "discard_branch": [],
        },
    ),
    (
        in_a_group,
        {
            "group.create_branch": [
                "group.check",
                "group.discard_branch",
                "group.publish_branch",
                "group.work",
            ],
            "group.work": ["group.check"],
            "group.check": ["group.publish_branch"],
            "group.publish_branch": ["group.discard_branch"],
            "group.discard_branch": [],
        },
    ),
    (
        in_a_mapped_group,
        {
            "group.create_branch": ["group.discard_branch", "group.publish_branch", "group.work"],
            "group.work": ["group.publish_branch"],
            "group.publish_branch": ["group.discard_branch"],
            "group.discard_branch": [],
        },
    ),
    (
        mapped_inside,
        {
            "create_branch": ["discard_branch", "publish_branch", "work"],
            "work": ["check"],
            "check": ["publish_branch"],
            "publish_branch": ["discard_branch"],
            "discard_branch": [],
        },
    ),
    (
        group_inside,
        {
            "create_branch": ["discard_branch", "group.work", "publish_branch"],
            "group.work": ["group.check"],
            "group.check": ["publish_branch"],
            "publish_branch": ["discard_branch"],
            "discard_branch": [],
        },
    ),
    (
        nested,
        {
            "outer_create_branch": [
                "inner_create_branch",
                "outer_discard_branch",
                "outer_publish_branch",
                "work",
            ],
            "work": ["outer_publish_branch"],
            "inner_create_branch": ["check", "inner_discard_branch", "inner_publish_branch"],
            "check": ["inner_publish_branch"],
            "inner_publish_branch": ["inner_discard_branch", "outer_publish_branch"],
            "inner_discard_branch": ["outer_discard_branch"],
            "outer_publish_branch": ["outer_discard_branch"],
            "outer_discard_branch": [],
        },
    ),
    (
        beside_each_other,
        {
            f"{name}_{one}": [f"{name}_{other}" for other in others]
            for name in ("one", "two")
            for one, others in {
                "create_branch": ["discard_branch", "publish_branch", "work"],
                "work": ["publish_branch"],
                "publish_branch": ["discard_branch"],
                "discard_branch": [],
            }.items()
        },
    ),
    (
        tag_only,
        {
            "create_branch": ["discard_branch", "tag_branch", "work"],
            "work": ["tag_branch"],
            "tag_branch": ["discard_branch"],
            "discard_branch": [],
        },
    ),
    (
        neither,
        {
            "create_branch": ["discard_branch", "work"],
            "work": ["discard_branch"],
            "discard_branch": [],
        },
    ),
    (
        empty,
        {
            "create_branch": ["discard_branch", "publish_branch"],
            "publish_branch": ["discard_branch"],
            "discard_branch": [],
        },
    ),
]


def dag_of(build: Callable[[], object]) -> DAG:
    with DAG("a_dag", schedule=None) as dag:
        build()
    return dag


def every_dag() -> Any:
    builds = [build for build, _ in STRUCTURES]
    return pytest.mark.parametrize("build", builds, ids=lambda build: build.__name__)


@pytest.mark.parametrize(
    ("build", "expected"), STRUCTURES, ids=[build.__name__ for build, _ in STRUCTURES]
)
def test_structure(build: Callable[[], None], expected: dict[str, list[str]]) -> None:
    """The tasks, and what comes after each."""
    dag = dag_of(build)
    assert {one.task_id: sorted(one.downstream_task_ids) for one in dag.tasks} == expected


@every_dag()
def test_setups_and_teardowns(build: Callable[[], None]) -> None:
    """Creating is a setup, discarding its teardown; whatever else there is, is neither."""
    for one in dag_of(build).tasks:
        assert one.is_setup == one.task_id.endswith("create_branch")
        assert one.is_teardown == one.task_id.endswith("discard_branch")
        if one.is_teardown:
            prefix = one.task_id.removesuffix("discard_branch")
            assert f"{prefix}create_branch" in one.upstream_task_ids


@every_dag()
def test_serialization(build: Callable[[], None]) -> None:
    """What Airflow keeps of the DAG is the same at each parse, and can be read again."""
    first, second = (DagSerialization.to_dict(dag_of(build)) for _ in range(2))
    assert json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
    assert " at 0x" not in json.dumps(first)
    there = DagSerialization.from_dict(first)
    assert {*there.task_ids} == {*dag_of(build).task_ids}
    for one in there.tasks:
        assert one.is_teardown == one.task_id.endswith("discard_branch")


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


# Reads every DAG file of a folder as Airflow does, and fails at any connection that is tried.
PARSE = """
import socket, sys
def refuse(*arguments):
    raise AssertionError(f"a DAG file tried to reach {arguments[-1]}")
from tests.airflow.releases import DagBag
socket.socket.connect = socket.socket.connect_ex = refuse
bag = DagBag(sys.argv[1], load_op_links=False)
assert not bag.import_errors, bag.import_errors
print(*sorted(bag.dags))
"""

DAG_FILE = """
from airflow.sdk import DAG, task
from airflow_provider_lancerefs.operators.expire import LanceExpireBranchesOperator
from airflow_provider_lancerefs.runs import lance_run
from airflow_provider_lancerefs.sensors.refs import LanceTagSensor

with DAG("far_away", schedule=None):
    with lance_run("orders", tag="v1", lancerefs_conn_id="far"):
        @task
        def work(): ...
        work()
    LanceTagSensor(task_id="wait", dataset="s3://far/x", tag="v1", lancerefs_conn_id="far")
    LanceExpireBranchesOperator(task_id="sweep", dataset="orders", lancerefs_conn_id="nowhere")
"""


@pytest.fixture
def closed_port() -> Iterator[int]:
    """One at which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield int(one.getsockname()[1])


@pytest.mark.parametrize("where", ["examples", "far away"])
def test_parsing_needs_no_storage(where: str, tmp_path: Path, closed_port: int) -> None:
    """DAG files are read with the storage out of reach, and without even trying to reach it."""
    folder = REPOSITORY / "example_dags" if where == "examples" else tmp_path / "dags"
    if where == "far away":
        folder.mkdir()
        (folder / "far.py").write_text(DAG_FILE)
    extra = {"endpoint": f"http://127.0.0.1:{closed_port}"}
    far = json.dumps({"conn_type": "lancerefs", "host": "s3://far", "extra": extra})
    environ = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/airflow.db",
        "AIRFLOW_CONN_FAR": far,
        "AIRFLOW_CONN_LANCEREFS_DEFAULT": far,
        "PYTHONPATH": f"{REPOSITORY}:{folder}",
    }
    done = subprocess.run(
        [sys.executable, "-c", PARSE, str(folder)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=PARSE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    dags = done.stdout.splitlines()[-1].split()
    assert dags == ["far_away"] if where == "far away" else len(dags) >= 6
