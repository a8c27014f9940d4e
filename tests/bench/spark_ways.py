"""One way of writing and reading: `python -m tests.bench.spark_ways`, told what to do on stdin.

The first line says which way it is and how Spark is set up, each further one is one thing to do; a
line of JSON on stdout says how long each took and what was found.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from tests.bench.spark_rows import FEW, Table, batches, frame, schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_lancerefs.spark import LanceRun

BRANCH = "bench"
NAME = "t"


class Way(StrEnum):
    """By what rows are written and read."""

    OURS = "lancerefs"
    CONNECTOR = "connector"
    PARQUET = "Parquet"
    PYLANCE = "pylance alone"


class Task(StrEnum):
    """What is timed."""

    GENERATE = "make the rows alone"
    WRITE = "write"
    READ = "read all"
    COLUMNS = "read two columns"
    FILTER = "read few rows"


Found = Mapping[str, Any] | None
Order = Mapping[str, Any]


class Doer(Protocol):
    """What a way has for each task."""

    def do(self, task: Task, order: Order) -> Found: ...


class Files(Protocol):
    """How one way reads and writes with Spark."""

    def write(self, df: DataFrame, uri: str) -> None: ...
    def read(self, uri: str) -> DataFrame: ...


class Ours:
    """A run's branch, as a job gets it: by a handle that it makes once."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._runs: dict[str, LanceRun] = {}

    def write(self, df: DataFrame, uri: str) -> None:
        self._run(uri).write(df, NAME)

    def read(self, uri: str) -> DataFrame:
        return self._run(uri).read(NAME)

    def _run(self, uri: str) -> LanceRun:
        from airflow_provider_lancerefs.spark import LanceRun

        if uri not in self._runs:
            self._runs[uri] = LanceRun.open({NAME: uri}, BRANCH, spark=self._spark)
        return self._runs[uri]


class OfFormat:
    """A data source of Spark's own, or of a jar."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        self._name = name

    def write(self, df: DataFrame, uri: str) -> None:
        df.write.format(self._name).mode("append").save(uri)

    def read(self, uri: str) -> DataFrame:
        return self._spark.read.format(self._name).load(uri)


class WithSpark:
    """The tasks in a local Spark."""

    def __init__(self, way: Way, settings: Mapping[str, str]) -> None:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").appName("bench")
        for key, value in settings.items():
            builder = builder.config(key, value)
        self._spark = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("OFF")
        names = {Way.PARQUET: "parquet", Way.CONNECTOR: "lance"}
        self._files: Files = (
            OfFormat(self._spark, names[way]) if way in names else Ours(self._spark)
        )

    def do(self, task: Task, order: Order) -> Found:
        uri, partitions = order["uri"], order["partitions"]
        done: dict[Task, Callable[[], Found]] = {
            Task.GENERATE: lambda: _drain(self._frame(order)),
            Task.WRITE: lambda: self._write(order),
            Task.READ: lambda: _drain(self._files.read(uri).coalesce(partitions)),
            Task.COLUMNS: lambda: _summed(self._files.read(uri).select(*FEW).coalesce(partitions)),
            Task.FILTER: lambda: self._filter(order),
        }
        return done[task]()

    def _frame(self, order: Order) -> DataFrame:
        table, pool = Table(order["table"]), order["pool"]
        return frame(self._spark, table, pool, order["rows"], order["partitions"])

    def _write(self, order: Order) -> None:
        self._files.write(self._frame(order), order["uri"])

    def _filter(self, order: Order) -> Found:
        start, stop = order["range"]
        found = self._files.read(order["uri"]).where(f"n >= {start} AND n < {stop}")
        return _summed(found.coalesce(order["partitions"]))


def _drain(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def _summed(df: DataFrame) -> Found:
    """Sums into which every column goes."""
    sums = ["count(*) AS rows", "sum(n) AS n", "sum(x) AS x"]
    sums += ["sum(length(s)) AS s"] if "s" in df.columns else []
    sums += ["sum(v[0]) AS v"] if "v" in df.columns else []
    row = df.selectExpr(*sums).collect()[0]
    return {"rows": row["rows"], "n": row["n"]}


class WithPylance:
    """The tasks without Spark, in one process."""

    def do(self, task: Task, order: Order) -> Found:
        import lance
        import pyarrow as pa

        table, uri = Table(order["table"]), order["uri"]
        made = batches(table, order["pool"], order["rows"])
        if task is Task.GENERATE:
            for _ in made:
                pass
            return None
        if task is Task.WRITE:
            rows = pa.RecordBatchReader.from_batches(schema(table), made)
            lance.write_dataset(rows, uri, mode="append")
            return None
        return self._read(task, lance.dataset(uri), order)

    def _read(self, task: Task, dataset: Any, order: Order) -> Found:
        if task is Task.READ:
            for _ in dataset.scanner().to_batches():
                pass
            return None
        start, stop = order["range"]
        chosen = (
            {"columns": [*FEW]}
            if task is Task.COLUMNS
            else {"filter": f"n >= {start} AND n < {stop}"}
        )
        rows = n = 0
        for batch in dataset.scanner(**chosen).to_batches():
            rows += batch.num_rows
            n += int(batch["n"].to_numpy().sum(dtype="int64"))
        return {"rows": rows, "n": n}


@contextmanager
def _own_stdout() -> Iterator[TextIO]:
    """Standard output for replies alone: what Spark prints goes to standard error."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as said:
        os.dup2(2, 1)
        yield said


def main() -> None:
    setup = json.loads(sys.stdin.readline())
    way = Way(setup["way"])
    with _own_stdout() as said:
        doer: Doer = WithPylance() if way is Way.PYLANCE else WithSpark(way, setup["settings"])
        print("{}", file=said, flush=True)
        for line in sys.stdin:
            order = json.loads(line)
            began = time.perf_counter()
            found = doer.do(Task(order["task"]), order)
            reply = {"seconds": time.perf_counter() - began, "found": found}
            print(json.dumps(reply), file=said, flush=True)


if __name__ == "__main__":
    main()
