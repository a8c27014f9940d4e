"""Jobs that the operator submits to a Kubernetes, of which something is killed meanwhile.

Its API is one that is made for tests, and its containers are processes; Spark's part is all real.
"""

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
from tests.services.kubernetes import JARS, NAMESPACE, Kubernetes, kubernetes
from tests.services.seaweed import BUCKET, S3Server
from tests.spark.submitting import JOB, Driver, Points, bare_programs, check_written_once
from tests.spark.test_committing import data_files
from tests.tables import Place

pytestmark = [*REAL_AIRFLOW, pytest.mark.s3, pytest.mark.spark]

HalfWritten = Callable[..., contextlib.AbstractContextManager[Driver]]
DAGS = Path(__file__).parents[1] / "airflow" / "dags"
ROWS = 3_000_000  # in two parts, each of more than one file
READ = f"read {ROWS + 3}"  # as the job says of its branch


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_programs(tmp_path_factory.mktemp("bare"))


@pytest.fixture
def cluster(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    if not [*JARS.glob("*kubernetes-server-mock*")]:
        pytest.skip("The jars of its API are not there: `make kubernetes` fetches them")
    with kubernetes(tmp_path_factory.mktemp("kubernetes"), str(bare / "python")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("airflow")


@pytest.fixture
def orders(s3: S3Server) -> Place:
    return Place(f"s3://{BUCKET}/{uuid.uuid4().hex}/orders", s3.storage_options()).create()


@pytest.fixture
def half_written(
    cluster: Kubernetes, airflow_home: Path, bare: Path, orders: Place, s3: S3Server, tmp_path: Path
) -> HalfWritten:
    """Runs a DAG's job, which goes on after it has been dealt with, and writes once."""
    before = data_files(orders)
    points = Points(tmp_path)

    @contextlib.contextmanager
    def running_half(
        dag_id: str, mode: str, storage: dict[str, object], tries: int, **more: str
    ) -> Iterator[Driver]:
        environ = {**variables(cluster, bare, mode, storage), **more}
        points.hold("0-0")
        points.hold("1-0")
        with (
            onlooker(s3.secret_key) as seen,
            running(DAGS, dag_id, of_run(orders, points), airflow_home, environ) as run,
        ):
            run.reaches(lambda: len(data_files(orders) - before) == 2, "a file of each task")
            yield run
            points.release("0-0")
            points.release("1-0")
            ended = json.loads(run.ends().splitlines()[-1])
        assert (ended["state"], ended["tries"]["write"]) == ("success", ["success", tries])
        assert seen.looks
        assert seen.found == set()
        (branch,) = orders.store().branch_names()
        check_written_once(orders, branch, ROWS)

    return running_half


def test_an_executor_dies_while_it_writes(
    cluster: Kubernetes, half_written: HalfWritten, s3: S3Server
) -> None:
    """In client mode: Spark asks for another pod, and nothing that is shown brings it the keys."""
    with half_written("spark", "client", keys_of(s3), tries=1) as run:
        assert cluster.running("driver") == []
        assert s3.secret_key not in shown(cluster)
        assert [*Marks(s3.secret_key, s3.access_key).files(cluster.folder)] == []
        cluster.running("executor")[0].kill()
    assert READ in run.said
    assert len(cluster.kubelet.pods) > 2
    assert told_of(s3, cluster) == set()


@pytest.mark.parametrize(
    ("dag_id", "victim", "tries"),
    [("spark_in_kubernetes", "driver", 2), ("spark_tracked", "executor", 1)],
    ids=["waited-for", "tracked"],
)
def test_a_pod_dies_while_a_job_in_the_cluster_writes(
    cluster: Kubernetes,
    half_written: HalfWritten,
    s3: S3Server,
    dag_id: str,
    victim: str,
    tries: int,
) -> None:
    """Airflow starts another driver, Spark another executor; the keys are in the Secret alone."""
    identity = give_identity(cluster, s3)
    with half_written(dag_id, "cluster", keyless(s3), tries, **identity):
        assert len(cluster.running("driver")) == 1
        cluster.running(victim)[0].kill()
    assert READ in cluster.said("driver")
    assert told_of(s3, cluster) == {"secrets"}


def give_identity(cluster: Kubernetes, server: S3Server) -> dict[str, str]:
    """Keys in a Secret, that pods are given as variables; Airflow's worker has them as well."""
    identity = {
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
    }
    cluster.keep_secret("storage", identity)
    return identity


def keyless(server: S3Server) -> dict[str, object]:
    return {"extra": keys_of(server)["extra"]}


def variables(
    cluster: Kubernetes, bare: Path, mode: str, storage: dict[str, object]
) -> dict[str, str]:
    """What the worker of Airflow knows of both, and how it submits."""
    extra = {"deploy-mode": mode, "namespace": NAMESPACE}
    spark = {"conn_type": "spark", "host": f"k8s://{cluster.url}", "extra": extra}
    return {
        **cluster.submitting,
        "AIRFLOW_CONN_LANCEREFS_LAKE": json.dumps({"conn_type": "lancerefs", **storage}),
        "AIRFLOW_CONN_SPARK_KUBERNETES": json.dumps(spark),
        "PATH": os.pathsep.join([str(bare), os.environ["PATH"]]),
        "PYSPARK_PYTHON": str(bare / "python"),
    }


def of_run(orders: Place, points: Points) -> dict[str, object]:
    return {
        "application": str(JOB),
        "arguments": [*points.arguments(ROWS, 2), "reads"],
        "conn_id": "lancerefs_lake",
        "dataset": orders.uri,
        "spark_conn_id": "spark_kubernetes",
    }


def shown(cluster: Kubernetes) -> str:
    """The command lines and environments of all that runs there."""
    found = "".join(command_line(one.pid) + environment(one.pid) for one in cluster.processes)
    assert str(cluster.folder) in found
    return found


def told_of(server: S3Server, cluster: Kubernetes) -> set[str]:
    """The kinds of the objects that a key of the server's was ever in."""
    marks, told = Marks(server.secret_key, server.access_key), cluster.told()
    assert any("configmaps" in path for path, _ in told)
    return {path.split("/")[5] for path, body in told if marks.within(body.encode())}
