"""Tasks that run twice, and executors that die, on a standalone cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.airflow.processes import command_line, environment, members
from tests.services.seaweed import BUCKET, S3Server
from tests.services.spark_cluster import SparkCluster, spark_cluster
from tests.spark.submitting import Job, Points, check_written_once
from tests.spark.test_committing import data_files
from tests.tables import Place

pytestmark = [pytest.mark.s3, pytest.mark.slow, pytest.mark.spark]

Submit = Callable[..., Job]
ROWS = 3_000_000  # in two parts, each of more than one file
ON_BOTH = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    # Else the executor that comes first runs all of a short stage.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "240s",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("spark"), {}) as cluster:
        yield cluster


@pytest.fixture
def orders(s3: S3Server, tmp_path: Path) -> Place:
    """A table of 1, 2, 3 with a branch 'run'."""
    place = Place(f"s3://{BUCKET}/{tmp_path.name}/orders", s3.storage_options()).create()
    place.store().create_branch("run")
    return place


@pytest.fixture
def points(tmp_path: Path) -> Points:
    folder = tmp_path / "points"
    folder.mkdir()
    return Points(folder)


@pytest.fixture
def submitted(
    cluster: SparkCluster, spark_environment: None, orders: Place, tmp_path: Path
) -> Submit:
    """Makes a job for the cluster, which has all its workers."""
    cluster.start()

    def make(arguments: list[str], **conf: str) -> Job:
        settings = {name.replace("_", "."): value for name, value in conf.items()}
        return Job.of(
            orders, {"spark.master": cluster.url, **ON_BOTH, **settings}, arguments, tmp_path
        )

    return make


def test_of_speculative_twins_one_is_kept(orders: Place, points: Points, submitted: Submit) -> None:
    """A task that is slow, after it has finished a file, runs a second time and ends the job."""
    before = data_files(orders)
    job = submitted(
        points.arguments(ROWS, 2),
        spark_speculation="true",
        spark_speculation_minTaskRuntime="1s",
        spark_speculation_multiplier="1.01",
        spark_speculation_quantile="0.5",
    )
    points.hold("0-0")
    points.hold("1-0")
    with job.running() as driver:
        driver.reaches(lambda: len(data_files(orders) - before) == 2, "a file of each task")
        points.release("1-0")
        driver.ends()
        assert points.arrivals("0-0") == points.arrivals("0-1") == 1

    check_written_once(orders, "run", ROWS)


def test_a_stage_that_is_computed_again_writes_once(
    orders: Place, points: Points, submitted: Submit, cluster: SparkCluster, s3: S3Server
) -> None:
    """A worker dies with what it had shuffled, while tasks write that have finished files.

    Meanwhile neither arguments nor environment of anybody show the keys.
    """
    before = data_files(orders)
    job = submitted(points.arguments(ROWS, 2, shuffled=True))
    points.hold("0-0")
    points.hold("1-0")
    with job.running() as driver:
        driver.reaches(lambda: len(data_files(orders) - before) == 2, "a file of each task")
        everybody = [*cluster.processes, *members({driver.process.pid})]
        shown = [command_line(one.pid) + environment(one.pid) for one in everybody]
        assert cluster.url in "".join(shown)
        assert s3.secret_key not in "".join(shown)
        cluster.workers[0].kill()
        points.release("0-0")
        points.release("1-0")
        driver.ends()
    arrived = points.arrivals("0-0"), points.arrivals("1-0")
    assert max(arrived) > 1, arrived

    check_written_once(orders, "run", ROWS)
