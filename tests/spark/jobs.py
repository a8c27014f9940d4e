"""A Spark job as a user would write it, with points in its tasks at which a test can hold them.

Its arguments are its values' first and the one after the last, in how many parts they are, whether
they are shuffled before they are written, the folder of its points, and whether it then reads what
it wrote.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql import SparkSession

from airflow_provider_lancerefs.spark import LanceRun

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST = 600


def main(first: str, end: str, parts: str, shuffled: str, folder: str, reads: str = "") -> None:
    spark = SparkSession.builder.getOrCreate()
    frame = spark.range(int(first), int(end), 1, int(parts)).withColumnRenamed("id", "n")
    if shuffled == "shuffled":
        frame = frame.repartition(int(parts), "n")
    most_of_a_part = 4 * (int(end) - int(first)) // int(parts) // 5
    gated = frame.mapInArrow(past_a_point(folder, most_of_a_part), frame.schema)
    run = LanceRun.current(spark)
    print("written", run.write(gated, "orders"), flush=True)
    if reads:
        print("read", run.read("orders").where("n > 0").count(), flush=True)
    spark.stop()


def past_a_point(
    folder: str, after: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Passes rows on, and after that many of them stops for as long as a test holds it.

    A point is called `partition-attempt`, and whoever comes there leaves a file: the attempts of a
    stage that is computed again are counted from 0 again. It is defined in here, and imports
    nothing of the tests, for it is run on executors that know no more than the job.
    """

    def pass_point() -> None:
        context = TaskContext.get()
        if context is None:
            return
        name = f"{context.partitionId()}-{context.attemptNumber()}"
        Path(folder, f"{name}.arrived.{context.taskAttemptId()}").touch()
        deadline = time.monotonic() + LONGEST
        while Path(folder, f"{name}.held").exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"Nobody let the task {name} go on")
            time.sleep(0.05)

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in batches:
            yield batch
            if rows <= after < rows + batch.num_rows:
                pass_point()
            rows += batch.num_rows

    return pass_on


if __name__ == "__main__":
    main(*sys.argv[1:])
