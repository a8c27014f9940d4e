"""Ten million rows through Spark, held against pylance row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_provider_lancerefs.spark import LanceRun
from tests.tables import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 10**7
SCHEMA = pa.schema([("n", pa.int32()), ("x", pa.float64()), ("s", pa.string())])
_BATCH = 100_000

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def source(local_place: Place) -> Place:
    """Rows that pylance wrote; each column follows from the first, and half of all rows is null
    in the second.
    """
    rows = pa.RecordBatchReader.from_batches(SCHEMA, _batches())
    lance.write_dataset(rows, local_place.uri)
    return local_place


def test_ten_million_rows_there_and_back(spark: SparkSession, source: Place) -> None:
    """Each row that pylance wrote is on the branch that Spark wrote, once and as it was; main has
    none of them until the branch is published, which copies nothing.
    """
    target = source.beside("target")
    lance.write_dataset(SCHEMA.empty_table(), target.uri)
    target.store().create_branch("run")
    reading = LanceRun.open({"t": source.uri}, spark=spark)
    run = LanceRun.open({"t": target.uri}, "run", spark=spark)
    run.write(reading.read("t"), "t")

    assert_complete(target.branch("run"))
    assert {
        "rows": ROWS,
        "n": sum(range(ROWS)),
        "x": sum(range(0, ROWS, 2)) / 2,
        "right": ROWS,
    } == run.read("t").selectExpr(
        "count(*) rows", "sum(n) n", "sum(x) x", "count_if(s = concat('row-', n)) right"
    ).collect()[0].asDict()
    assert 0 == target.open().count_rows()
    assert 0 == target.store().plan_publish("run").bytes_to_copy
    assert 0 == target.store().publish("run").files_copied
    assert_complete(target)


def assert_complete(place: Place) -> None:
    """pylance finds every row once, with what belongs to it."""
    seen = np.zeros(ROWS, bool)
    for batch in place.open().to_batches():
        n = batch["n"].to_numpy()
        assert not seen[n].any()
        seen[n] = True
        assert batch.equals(_batch(n))
    assert seen.all()


def _batches() -> Iterator[pa.RecordBatch]:
    for start in range(0, ROWS, _BATCH):
        yield _batch(np.arange(start, min(ROWS, start + _BATCH), dtype=np.int32))


def _batch(n: np.ndarray) -> pa.RecordBatch:
    x = pa.array(n / 2, mask=n % 2 == 1)
    s = pc.binary_join_element_wise("row-", pc.cast(pa.array(n), pa.string()), "")
    return pa.record_batch([pa.array(n), x, s], schema=SCHEMA)
