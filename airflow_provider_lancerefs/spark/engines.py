"""What brings a run's rows out of a branch and into it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.errors import PySparkTypeError

from airflow_provider_lancerefs.refstore import RefStore, Revision
from airflow_provider_lancerefs.spark.jvm.compiling import has_jvm
from airflow_provider_lancerefs.spark.options import FORMAT, Storages
from airflow_provider_lancerefs.spark.ordering import CONNECTOR, BranchOf
from airflow_provider_lancerefs.spark.registering import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Engine", "SourceEngine", "engine_of"]

_FEW_BYTES, _FEW_ROWS = 10 << 20, 100_000


class Engine(Protocol):
    """Each writing call lands once for its write id, whichever engine it is."""

    def load(self, one: BranchOf, columns: Sequence[str] | None) -> DataFrame:
        """The branch as it is now; the frame keeps to that version."""
        ...

    def save(self, df: DataFrame, one: BranchOf, mode: str, write_id: str) -> None:
        """Append the rows, or overwrite the table with them."""
        ...

    def merge(self, df: DataFrame, one: BranchOf, keys: Sequence[str], write_id: str) -> None:
        """Replace the rows that have the key of one of the frame's, and add the others."""
        ...


def engine_of(name: str, spark: SparkSession, storages: Storages) -> Engine:
    """The engine of that name, made ready for a session."""
    if name == CONNECTOR:
        from airflow_provider_lancerefs.spark.connector import ConnectorEngine

        return ConnectorEngine(spark, storages)
    return SourceEngine(spark, storages)


class SourceEngine:
    """Our own data source."""

    def __init__(self, spark: SparkSession, storages: Storages) -> None:
        self._spark, self._storages = spark, storages
        register(spark, storages)

    def load(self, one: BranchOf, columns: Sequence[str] | None) -> DataFrame:
        return self._load(one, columns)

    def save(self, df: DataFrame, one: BranchOf, mode: str, write_id: str, **options: str) -> None:
        life = {"life": one.life} if one.life else {}
        writer = df.write.format(FORMAT).mode(mode).option("branch", one.branch)
        writer.options(write_id=write_id, **options, **life).save(one.uri)

    def merge(self, df: DataFrame, one: BranchOf, keys: Sequence[str], write_id: str) -> None:
        version = str(self._store(one).resolve(Revision(one.branch)).number)
        rows, there = self._at_hand(df), self._load(one, keys, version=version, row_marks="true")
        if rows is not df:  # so few that the table's keys need not be shuffled to meet them
            wanted = rows.select(*(f"`{key.replace('`', '``')}`" for key in keys)).distinct()
            there = there.join(wanted, [*keys], "left_semi")
        matched = rows.join(there, [*keys], "left")
        self.save(matched, one, "append", write_id, merge=version)

    def _at_hand(self, df: DataFrame) -> DataFrame:
        """The frame, its rows brought here if they are few: asked twice it might have others."""
        if not has_jvm(self._spark):  # which tells how many rows it expects
            return df
        plan: Any = df._jdf.queryExecution().optimizedPlan()
        if plan.stats().sizeInBytes() > _FEW_BYTES:
            return df
        try:
            rows = df.limit(_FEW_ROWS + 1).toArrow()
        except PySparkTypeError:  # of a type that no table has, as is told when it is to be written
            return df
        if rows.num_rows > _FEW_ROWS or rows.nbytes > _FEW_BYTES:
            return df
        return self._spark.createDataFrame(rows, df.schema)

    def _load(self, one: BranchOf, columns: Sequence[str] | None, **options: str) -> DataFrame:
        reader = self._spark.read.format(FORMAT).option("branch", one.branch)
        if columns is not None:
            reader = reader.option("columns", json.dumps([*columns]))
        return reader.options(**options).load(one.uri)

    def _store(self, one: BranchOf) -> RefStore:
        return RefStore.open(one.uri, one.place(self._storages).storage_options)
