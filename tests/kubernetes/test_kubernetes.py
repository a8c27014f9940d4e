"""Jobs that the operator submits to a Kubernetes, of which something is killed meanwhile.

Its API is one that is made for tests, and its containers are processes; Spark's part is all real.
"""

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
from tests.services.kubernetes import JARS, NAMESPACE, Kubernetes, kubernetes
from tests.services.seaweed import BUCKET, S3Server
from tests.spark.submitting import Points, bare_programs
from tests.tables import Place

pytestmark = [*REAL_AIRFLOW, pytest.mark.s3, pytest.mark.spark]


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
def jobs(
    bare: Path, airflow_home: Path, orders: Place, s3: S3Server, tmp_path: Path
) -> HalfWritten:
    return HalfWritten(orders, s3, Points(tmp_path), airflow_home, bare)


def test_an_executor_dies_while_it_writes(
    cluster: Kubernetes, jobs: HalfWritten, s3: S3Server
) -> None:
    """In client mode: Spark asks for another pod, and nothing that is shown brings it the keys."""
    spark = on(cluster, "client")
    with jobs.running("spark", spark, keys_of(s3), cluster.submitting) as run:
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
    cluster: Kubernetes, jobs: HalfWritten, s3: S3Server, dag_id: str, victim: str, tries: int
) -> None:
    """Airflow starts another driver, Spark another executor; the keys are in the Secret alone."""
    spark, keyless = on(cluster, "cluster"), {"extra": keys_of(s3)["extra"]}
    environ = {**cluster.submitting, **give_identity(cluster, s3)}
    with jobs.running(dag_id, spark, keyless, environ, tries):
        assert len(cluster.running("driver")) == 1
        cluster.running(victim)[0].kill()
    assert READ in cluster.said("driver")
    assert told_of(s3, cluster) == {"secrets"}


def on(cluster: Kubernetes, deploy_mode: str) -> dict[str, object]:
    """The Spark connection."""
    extra = {"deploy-mode": deploy_mode, "namespace": NAMESPACE}
    return {"host": f"k8s://{cluster.url}", "extra": extra}


def give_identity(cluster: Kubernetes, server: S3Server) -> dict[str, str]:
    """Keys in a Secret, that pods are given as variables; Airflow's worker has them as well."""
    identity = {
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
    }
    cluster.keep_secret("storage", identity)
    return identity


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
