"""Jobs that the operator submits to a real YARN, of which something is killed meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.airflow.connecting import keys_of
from tests.airflow.marks import REAL_AIRFLOW
from tests.airflow.processes import command_line, environment
from tests.airflow.run_dag import running
from tests.airflow.secrecy import Marks, onlooker
from tests.services.seaweed import BUCKET, S3Server
from tests.services.yarn import JARS, Yarn, yarn
from tests.spark.submitting import JOB, Driver, Points, bare_programs, check_written_once
from tests.spark.test_committing import data_files
from tests.tables import Place

pytestmark = [*REAL_AIRFLOW, pytest.mark.s3, pytest.mark.spark]

HalfWritten = Callable[..., contextlib.AbstractContextManager[Driver]]
DAGS = Path(__file__).parents[1] / "airflow" / "dags"
ROWS = 3_000_000  # in two parts, each of more than one file
READ = f"read {ROWS + 3}"  # as the job says of its branch
SPARK_CONF = "__spark_conf__"  # with all properties; Spark puts it where its user alone can read


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    if not [*JARS.glob("*minicluster*")]:
        pytest.skip("Hadoop's jars are not there: `make yarn` fetches them")
    with yarn(tmp_path_factory.mktemp("yarn"), {}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("airflow")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_programs(tmp_path_factory.mktemp("bare"))


@pytest.fixture
def orders(s3: S3Server) -> Place:
    return Place(f"s3://{BUCKET}/{uuid.uuid4().hex}/orders", s3.storage_options()).create()


@pytest.fixture
def half_written(
    cluster: Yarn, airflow_home: Path, bare: Path, orders: Place, s3: S3Server, tmp_path: Path
) -> HalfWritten:
    """Runs a DAG's job, which goes on after it has been dealt with, and writes once."""
    before = data_files(orders)
    points = Points(tmp_path)

    @contextlib.contextmanager
    def running_half(dag_id: str, extra: dict[str, str]) -> Iterator[Driver]:
        environ, conf = variables(cluster, bare, s3, extra), of_run(orders, points)
        points.hold("0-0")
        points.hold("1-0")
        with (
            onlooker(s3.secret_key) as seen,
            running(DAGS, dag_id, conf, airflow_home, environ) as run,
        ):
            run.reaches(lambda: len(data_files(orders) - before) == 2, "a file of each task")
            check_secrets(cluster, s3)
            yield run
            points.release("0-0")
            points.release("1-0")
            ended = json.loads(run.ends().splitlines()[-1])
        assert (ended["state"], ended["tries"]["write"]) == ("success", ["success", 1])
        assert seen.looks
        assert seen.found == set()
        (branch,) = orders.store().branch_names()
        check_written_once(orders, branch, ROWS)

    return running_half


def test_an_executor_dies_while_it_writes(cluster: Yarn, half_written: HalfWritten) -> None:
    """In client mode: its tasks are done again in another container."""
    with half_written("spark", {"deploy-mode": "client"}) as run:
        assert cluster.drivers() == []
        cluster.kill_container(cluster.executors()[0])
    assert READ in run.said


def test_a_driver_dies_while_its_job_writes(cluster: Yarn, half_written: HalfWritten) -> None:
    """In cluster mode: YARN runs it a second time by itself, and Airflow knows nothing of that."""
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": cluster.web}
    with half_written("spark_in_yarn", extra):
        (driver,) = cluster.drivers()
        cluster.kill_container(driver)
    assert any(READ in one.read_text() for one in cluster.of_node.glob("logs/*/*/stdout"))


def variables(cluster: Yarn, bare: Path, server: S3Server, extra: dict[str, str]) -> dict[str, str]:
    """What the worker of Airflow knows of both, and how it submits."""
    spark = {"conn_type": "spark", "host": "yarn", "extra": extra}
    storage = {"conn_type": "lancerefs", **keys_of(server)}
    return {
        **cluster.submitting,
        "AIRFLOW_CONN_LANCEREFS_LAKE": json.dumps(storage),
        "AIRFLOW_CONN_SPARK_YARN": json.dumps(spark),
        "PATH": os.pathsep.join([str(bare), os.environ["PATH"]]),
        "PYSPARK_PYTHON": str(bare / "python"),
    }


def of_run(orders: Place, points: Points) -> dict[str, object]:
    return {
        "application": str(JOB),
        "arguments": [*points.arguments(ROWS, 2), "reads"],
        "conn_id": "lancerefs_lake",
        "dataset": orders.uri,
        "spark_conn_id": "spark_yarn",
    }


def check_secrets(cluster: Yarn, server: S3Server) -> None:
    """No process of YARN's shows them, and of its files none but what holds all properties."""
    everybody = cluster.processes
    shown = [command_line(one.pid) + environment(one.pid) for one in everybody]
    assert str(cluster.folder) in "".join(shown)
    assert server.secret_key not in "".join(shown)
    found = [cluster.folder / one for one in Marks(server.secret_key).files(cluster.folder)]
    assert {cluster.staging, cluster.of_node} == {owner(cluster, one) for one in found}
    assert all(SPARK_CONF in str(one) for one in found)
    assert all(one.parent.stat().st_mode & 0o077 == 0 for one in found)


def owner(cluster: Yarn, file: Path) -> Path:
    return cluster.folder / file.relative_to(cluster.folder).parts[0]
