"""Jobs that a DAG submits to a standalone cluster, of which something is killed meanwhile."""

from __future__ import annotations

import dataclasses
import json
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.airflow.api import Run
from tests.airflow.connecting import keys_of
from tests.airflow.marks import REAL_AIRFLOW
from tests.airflow.processes import command_line, family, send
from tests.airflow.run_dag import running
from tests.airflow.secrecy import onlooker
from tests.airflow.waiting import until
from tests.airflow.world import World
from tests.services.killing import ManifestKiller
from tests.services.proxy import S3Proxy
from tests.services.seaweed import BUCKET, S3Server
from tests.services.spark_cluster import Daemon, SparkCluster, spark_cluster
from tests.spark.submitting import JOB, Points, check_written_once
from tests.spark.test_committing import data_files
from tests.tables import Place

pytestmark = [*REAL_AIRFLOW, pytest.mark.s3, pytest.mark.spark]

DAGS = Path(__file__).parent / "dags"
MANY = 3_000_000  # in two parts, each of more than one file
FEW = 2000
SECONDS = 600


@pytest.fixture(scope="module")
def cluster(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A cluster that the S3 server knows: what runs there needs no keys of the submitter's."""
    with spark_cluster(tmp_path_factory.mktemp("spark"), identity(s3)) as cluster:
        yield cluster


@pytest.fixture
def orders(s3: S3Server, tmp_path: Path) -> Place:
    root = f"s3://{BUCKET}/{uuid.uuid4().hex}"
    return Place(f"{root}/orders", s3.storage_options()).create()


@pytest.fixture
def points(tmp_path: Path) -> Points:
    folder = tmp_path / "points"
    folder.mkdir()
    return Points(folder)


def identity(server: S3Server) -> dict[str, str]:
    """What the environment says to those whom the server knows."""
    return {
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
    }


class TestClientMode:
    """The driver is where Airflow's worker is."""

    @pytest.fixture
    def spark_conn_id(self, airflow: World, cluster: SparkCluster) -> str:
        cluster.start()
        conn_id = f"spark_{uuid.uuid4().hex}"
        airflow.api.add_connection(conn_id, "spark", host=cluster.url)
        return conn_id

    def trigger(
        self, airflow: World, orders: Place, server: S3Server, spark: str, arguments: list[str]
    ) -> Run:
        conn_id = f"lancerefs_{uuid.uuid4().hex}"
        fields = keys_of(server)
        extra = json.dumps(fields.pop("extra"))
        root, _, name = orders.uri.rpartition("/")
        airflow.api.add_connection(conn_id, "lancerefs", host=root, extra=extra, **fields)
        conf = {
            "application": str(JOB),
            "arguments": arguments,
            "conn_id": conn_id,
            "dataset": name,
            "spark_conn_id": spark,
        }
        return airflow.api.trigger("spark", conf)

    def test_a_worker_dies_while_it_writes(
        self,
        airflow: World,
        cluster: SparkCluster,
        spark_conn_id: str,
        orders: Place,
        s3: S3Server,
        points: Points,
    ) -> None:
        """Its tasks are done again elsewhere; no command line has the keys at any time."""
        before = data_files(orders)
        points.hold("0-0")
        points.hold("1-0")
        with onlooker(s3.secret_key) as seen:
            run = self.trigger(airflow, orders, s3, spark_conn_id, points.arguments(MANY, 2))

            def written() -> bool:
                state = run.state()
                assert state != "failed", run.explain(state)
                return len(data_files(orders) - before) == 2

            until(written, "a file of each task", SECONDS)
            cluster.workers[0].kill()
            points.release("0-0")
            points.release("1-0")
            run.ends("success", SECONDS)
        assert seen.looks
        assert seen.found == set()
        assert run.numbers()["write"] == 1
        check_written_once(orders, run.xcom("create_branch")["branch"], MANY)

    @pytest.mark.parametrize(
        ("manifest", "done"),
        [(2, False), (2, True), (3, True)],
        ids=["before", "during", "after"],
    )
    def test_a_driver_dies_around_its_commit(
        self,
        airflow: World,
        spark_conn_id: str,
        orders: Place,
        s3: S3Server,
        points: Points,
        manifest: int,
        done: bool,
    ) -> None:
        """Before it writes its anchor, after that, and after the commit: a retry writes once."""
        mark = str(points.folder)
        killer = ManifestKiller(lambda: kill_all_with(mark), manifest, done)
        with S3Proxy(s3.port) as proxy:
            proxy.fault, proxy.passes = killer.fault, killer.passes
            proxied = dataclasses.replace(s3, port=proxy.port)
            arguments = points.arguments(FEW, 2)
            run = self.trigger(airflow, orders, proxied, spark_conn_id, arguments)
            run.ends("success", SECONDS)
        assert killer.killed.is_set()
        assert run.numbers()["write"] == 2
        check_written_once(orders, run.xcom("create_branch")["branch"], FEW)


class TestClusterMode:
    """The driver is on a worker of Spark's, and reaches storage as the cluster does."""

    def test_a_driver_dies_with_its_worker(
        self,
        cluster: SparkCluster,
        orders: Place,
        s3: S3Server,
        points: Points,
        tmp_path: Path,
    ) -> None:
        """Airflow's retry submits it again, to write what was written by half."""
        cluster.start()
        before = data_files(orders)
        points.hold("0-0")
        points.hold("1-0")
        environ = {**identity(s3), **connections(s3, cluster)}
        conf = self.conf(orders, points)
        with (
            onlooker(s3.secret_key) as seen,
            running(DAGS, "spark_in_cluster", conf, tmp_path, environ) as run,
        ):
            run.reaches(lambda: len(data_files(orders) - before) == 2, "a file of each task")
            (home,) = (one for one in cluster.workers if hosts_driver(one))
            home.kill()
            points.release("0-0")
            points.release("1-0")
            ended = json.loads(run.ends().splitlines()[-1])
        assert (ended["state"], seen.found) == ("success", set())
        assert ended["tries"]["write"] == ["success", 2]
        (branch,) = orders.store().branch_names()
        check_written_once(orders, branch, MANY)

    def conf(self, orders: Place, points: Points) -> dict[str, object]:
        (core,) = (Path(pyspark.__file__).parent / "jars").glob("spark-core_*.jar")
        return {
            "application": str(core),
            "arguments": [str(JOB), "", *points.arguments(MANY, 2)],
            "conn_id": "lancerefs_of_the_cluster",
            "dataset": orders.uri,
            "spark_conn_id": "spark_cluster",
        }


def kill_all_with(mark: str) -> None:
    """Kill -9 what has the mark in its command line, and all that descends from it."""
    for one in family(mark):
        send(one.pid, signal.SIGKILL)


def hosts_driver(worker: Daemon) -> bool:
    return any("DriverWrapper" in command_line(one.pid) for one in worker.family)


def connections(server: S3Server, cluster: SparkCluster) -> dict[str, str]:
    """One to the cluster, whose driver is to be there, and one to storage, without keys."""
    extra = {"deploy-mode": "cluster", "rest-port": cluster.rest_port}
    spark = {"conn_type": "spark", "host": cluster.url, "extra": extra}
    storage = {"conn_type": "lancerefs", "extra": keys_of(server)["extra"]}
    return {
        "AIRFLOW_CONN_SPARK_CLUSTER": json.dumps(spark),
        "AIRFLOW_CONN_LANCEREFS_OF_THE_CLUSTER": json.dumps(storage),
    }
