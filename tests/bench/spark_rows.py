"""The rows that the Spark part writes and reads: the same ones from Spark and from numpy.

Every way's process imports this, of which one has nothing but an older pyspark.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

DIMENSIONS = 128
POOL = 4_096  # different vectors, too many for a dictionary of Parquet's
SIZE_KEY = "arrow.fixed-size-list.size"
FEW = ("n", "x")
_BATCH = 16_384
_COLUMNS = ("CAST(id AS INT) AS n", "CAST(id AS DOUBLE) / 3 AS x", "concat('row-', id) AS s")


class Table(StrEnum):
    """Which columns there are."""

    SCALARS = "int, double, string"
    VECTORS = f"int, double, string, {DIMENSIONS} floats"


def frame(spark: SparkSession, table: Table, pool: str, rows: int, partitions: int) -> DataFrame:
    """Rows made where they are written: numbers, and vectors looked up in a broadcast pool."""
    from pyspark.sql import functions as sql

    ids = spark.range(0, rows, 1, partitions)
    if table is Table.SCALARS:
        return ids.selectExpr(*_COLUMNS)
    vectors = sql.broadcast(spark.read.parquet(pool))
    joined = ids.join(vectors, ids.id % POOL == vectors.k).selectExpr(*_COLUMNS, "v")
    return joined.withMetadata("v", {SIZE_KEY: DIMENSIONS})


def schema(table: Table) -> pa.Schema:
    """The columns of the Lance table."""
    import pyarrow as pa

    plain = [("n", pa.int32()), ("x", pa.float64()), ("s", pa.string())]
    vector = [("v", pa.list_(pa.float32(), DIMENSIONS))] if table is Table.VECTORS else []
    return pa.schema([*plain, *vector])


def make_pool(path: str) -> None:
    """Write the pool of random vectors."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = np.random.default_rng(1).random(POOL * DIMENSIONS, dtype=np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers), DIMENSIONS)
    columns = {"k": pa.array(np.arange(POOL)), "v": vectors.cast(pa.list_(pa.float32()))}
    pq.write_table(pa.table(columns), path)


def batches(table: Table, pool: str, rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows for pylance."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    vectors = None
    if table is Table.VECTORS:
        flat = pq.read_table(pool)["v"].combine_chunks().flatten().to_numpy()
        vectors = flat.reshape(POOL, DIMENSIONS)
    for start in range(0, rows, _BATCH):
        ids = np.arange(start, min(rows, start + _BATCH))
        text = pc.binary_join_element_wise("row-", pc.cast(pa.array(ids), pa.string()), "")
        columns = [pa.array(ids.astype(np.int32)), pa.array(ids / 3), text]
        if vectors is not None:
            taken = pa.array(vectors[ids % POOL].reshape(-1))
            columns.append(pa.FixedSizeListArray.from_arrays(taken, DIMENSIONS))
        yield pa.RecordBatch.from_arrays(columns, schema=schema(table))
