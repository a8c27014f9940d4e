"""Tasks that fail, jobs that are given up, and drivers that are killed, in a real Spark."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from airflow_provider_lancerefs.refstore import layout
from tests.spark.submitting import Job, Points, check_written_once
from tests.spark.test_committing import data_files, orphans
from tests.spark.test_source import writer
from tests.tables import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

ROWS = 2000
MILLISECONDS = 0.002  # are between the writes of a commit
LOCAL = {"spark.master": "local[2]"}


def failing_in(attempts: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Passes rows on; in that many attempts of each task it fails, once some were written."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        for number, batch in enumerate(batches):
            if context is not None and context.attemptNumber() < attempts and number == 3:
                raise RuntimeError("a planted failure")
            yield batch

    return pass_on


@pytest.fixture
def orders(place: Place) -> Place:
    """A table of 1, 2, 3 with a branch 'run'."""
    place.create().store().create_branch("run")
    return place


class TestTasks:
    """What becomes of a task's rows when the task fails."""

    def write(self, spark: SparkSession, place: Place, fails: int) -> None:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
        try:
            frame = spark.range(0, ROWS, 1, 2).selectExpr("id + 100 n")
            rows = frame.mapInArrow(failing_in(fails), frame.schema)
            options = {**place.options, "branch": "run", "max_rows_per_file": 150}
            writer(rows, **options).save(place.uri)
        finally:
            spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")

    def test_a_task_that_is_tried_again_writes_its_rows_once(
        self, spark: SparkSession, orders: Place
    ) -> None:
        """The files that its first try had finished are gone when the job is done."""
        self.write(spark, orders, fails=1)

        assert [1, 2, 3, *range(100, 100 + ROWS)] == orders.branch("run").values()
        assert set() == orphans(orders)

    def test_a_job_that_fails_leaves_no_row_and_no_file(
        self, spark: SparkSession, orders: Place
    ) -> None:
        """Not even of tasks that had finished files before they failed, four times each."""
        before = data_files(orders)
        with pytest.raises(Exception, match="a planted failure"):
            self.write(spark, orders, fails=9)

        assert before == data_files(orders)
        assert 1 == orders.store().resolve("branch:run").number
        assert [1, 2, 3] == orders.branch("run").values()


@pytest.mark.slow
class TestDrivers:
    """A driver is killed with all its processes, and the job is run again with the same order."""

    @pytest.fixture
    def orders(self, local_place: Place) -> Place:
        """On disk; drivers that write to S3 are killed in `tests/airflow/test_spark_cluster.py`."""
        local_place.create().store().create_branch("run")
        return local_place

    @pytest.mark.parametrize("manifests", [1, 2, 3], ids=["before", "during", "after"])
    def test_killed_around_the_commit_it_writes_once_when_run_again(
        self, orders: Place, spark_environment: None, tmp_path: Path, manifests: int
    ) -> None:
        """Once files are there, once the anchor is there, and once the write has landed."""

        def reached() -> bool:
            storage = orders.store()._dataset.storage
            versions = storage.list(layout.versions_folder("run"))
            there = sum(layout.manifest_number(entry.path) is not None for entry in versions)
            return there >= manifests and len(storage.list("data/")) > 1

        points = Points(tmp_path)
        job = Job.of(orders, LOCAL, points.arguments(ROWS, 2), tmp_path)
        points.hold("0-0")
        with job.running() as driver:
            driver.reaches(lambda: points.arrivals("0-0"), "a task")
            points.release("0-0")
            driver.reaches(reached, "that moment", MILLISECONDS)
        assert driver.process.returncode == -signal.SIGKILL
        assert "written" in job.run()

        check_written_once(orders, "run", ROWS)
