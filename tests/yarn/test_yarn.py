"""Jobs that the operator submits to a real YARN, of which something is killed meanwhile."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.airflow.connecting import keys_of
from tests.airflow.half_written import READ, HalfWritten
from tests.airflow.marks import REAL_AIRFLOW
from tests.airflow.processes import command_line, environment
from tests.airflow.secrecy import Marks
from tests.services.seaweed import BUCKET, S3Server
from tests.services.yarn import JARS, Yarn, yarn
from tests.spark.submitting import Points, bare_programs
from tests.tables import Place

pytestmark = [*REAL_AIRFLOW, pytest.mark.s3, pytest.mark.spark]

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
def jobs(
    bare: Path, airflow_home: Path, orders: Place, s3: S3Server, tmp_path: Path
) -> HalfWritten:
    return HalfWritten(orders, s3, Points(tmp_path), airflow_home, bare)


def test_an_executor_dies_while_it_writes(cluster: Yarn, jobs: HalfWritten, s3: S3Server) -> None:
    """In client mode: its tasks are done again in another container."""
    with jobs.running("spark", on(deploy_mode="client"), keys_of(s3), cluster.submitting) as run:
        check_secrets(cluster, s3)
        assert cluster.drivers() == []
        cluster.kill_container(cluster.executors()[0])
    assert READ in run.said


def test_a_driver_dies_while_its_job_writes(cluster: Yarn, jobs: HalfWritten, s3: S3Server) -> None:
    """In cluster mode: YARN runs it a second time by itself, and Airflow knows nothing of that."""
    spark = on(deploy_mode="cluster", yarn_resourcemanager_webapp_address=cluster.web)
    with jobs.running("spark_in_yarn", spark, keys_of(s3), cluster.submitting):
        check_secrets(cluster, s3)
        (driver,) = cluster.drivers()
        cluster.kill_container(driver)
    assert any(READ in one.read_text() for one in cluster.of_node.glob("logs/*/*/stdout"))


def on(deploy_mode: str, **extra: str) -> dict[str, object]:
    """The Spark connection."""
    return {"host": "yarn", "extra": {"deploy-mode": deploy_mode, **extra}}


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
