"""Reads and writes a run's branch from the JVM, and commits in the driver's own Python."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_lancerefs.refstore import RefStore, Revision
from airflow_provider_lancerefs.spark.columns import batch_schema
from airflow_provider_lancerefs.spark.committing import abort, commit
from airflow_provider_lancerefs.spark.jvm.compiling import SOURCE, orders
from airflow_provider_lancerefs.spark.options import ReadOptions, Storages, WriteOptions
from airflow_provider_lancerefs.spark.ordering import BranchOf
from airflow_provider_lancerefs.spark.preparing import prepare
from airflow_provider_lancerefs.spark.reading import extent
from airflow_provider_lancerefs.spark.snapshots import take_snapshot
from airflow_provider_lancerefs.spark.writing import Write, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["JvmEngine"]

_ORDER = "order"
_FEW_BYTES, _FEW_ROWS = 10 << 20, 100_000


class JvmEngine:
    """What our data source does, without a Python worker between Spark and each row.

    Of an order, which may hold storage keys, Spark is told the name alone.
    """

    def __init__(self, spark: SparkSession, storages: Storages) -> None:
        self._spark, self._storages = spark, storages
        self._orders = orders(spark.sparkContext)

    def load(self, one: BranchOf, columns: Sequence[str] | None) -> DataFrame:
        chosen = None if columns is None else tuple(columns)
        return self._load(ReadOptions(one.place(self._storages), columns=chosen))

    def save(
        self, df: DataFrame, one: BranchOf, mode: str, write_id: str, merge: int | None = None
    ) -> None:
        place = one.place(self._storages)
        options = WriteOptions(place, one.life or None, write_id=write_id, merge=merge)
        write = prepare(options, df.schema, overwrite=mode == "overwrite")
        try:
            written = [] if write.landed is not None else self._written(df, write)
        except Exception:  # of which Spark has many classes
            abort(write, may_have_landed=False)
            raise
        commit(write, written)

    def merge(self, df: DataFrame, one: BranchOf, keys: Sequence[str], write_id: str) -> None:
        place = one.place(self._storages)
        store = RefStore.open(one.uri, place.storage_options)
        version = store.resolve(Revision(one.branch)).number
        marked = ReadOptions(place, version=version, columns=tuple(keys), row_marks=True)
        rows, there = self._at_hand(df), self._load(marked)
        if rows is not df:  # so few that the table's keys need not be shuffled to meet them
            wanted = rows.select(*(f"`{key.replace('`', '``')}`" for key in keys)).distinct()
            there = there.join(wanted, [*keys], "left_semi")
        matched = rows.join(there, [*keys], "left")
        self.save(matched, one, "append", write_id, merge=version)

    def _at_hand(self, df: DataFrame) -> DataFrame:
        """The frame, its rows brought here if they are few: asked twice it might have others."""
        plan: Any = df._jdf.queryExecution().optimizedPlan()
        if plan.stats().sizeInBytes() > _FEW_BYTES:
            return df
        rows = df.limit(_FEW_ROWS + 1).toArrow()
        if rows.num_rows > _FEW_ROWS or rows.nbytes > _FEW_BYTES:
            return df
        return self._spark.createDataFrame(rows, df.schema)

    def _load(self, options: ReadOptions) -> DataFrame:
        snapshot, columns = take_snapshot(options)
        title = f"{snapshot.uri}@{snapshot.version}"
        order = self._give(title, columns, pickle.dumps(snapshot), *extent(snapshot))
        return self._spark.read.format(SOURCE).option(_ORDER, order).load()

    def _written(self, df: DataFrame, write: Write) -> list[Written]:
        order = self._give(f"{write.branch} of {write.uri}", df.schema, pickle.dumps(write))
        try:
            df.write.format(SOURCE).mode("append").option(_ORDER, order).save()
        finally:
            said = self._orders.take(order)
        return [pickle.loads(one) for one in said]

    def _give(
        self, title: str, columns: StructType, order: bytes, rows: int = 0, size: int = 0
    ) -> str:
        in_arrow = batch_schema(columns).serialize().to_pybytes()
        theirs = self._spark.sparkContext.pythonExec
        here = theirs if shutil.which(theirs) else sys.executable  # such as one in an archive
        given: str = self._orders.give(
            title,
            columns.json(),
            in_arrow,
            order,
            self._recipe(theirs),
            self._recipe(here),
            rows,
            size,
        )
        return given

    def _recipe(self, python: str) -> str:
        """How a JVM starts Python, as it does for Spark's own workers."""
        context = self._spark.sparkContext
        said = {
            "environment": dict(context.environment),
            "includes": list(context._python_includes or []),
            "python": python,
        }
        return json.dumps(said, sort_keys=True)
