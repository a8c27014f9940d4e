"""What brings a run's rows out of a branch and into it."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from airflow_provider_lancerefs.refstore import InvalidInputError, RefStore, Revision
from airflow_provider_lancerefs.spark.jvm.compiling import has_jvm
from airflow_provider_lancerefs.spark.options import Storages
from airflow_provider_lancerefs.spark.ordering import CONNECTOR, BranchOf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Engine", "SourceEngine", "engine_of"]

_log = logging.getLogger(__name__)


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
    """The engine of that name, made ready for a session.

    Ours goes through the session's JVM where that can be had, and else through the data source.
    """
    if name == CONNECTOR:
        from airflow_provider_lancerefs.spark.connector import ConnectorEngine

        return ConnectorEngine(spark, storages)
    source = SourceEngine(spark, storages)
    if not has_jvm(spark):
        return source
    from py4j.protocol import Py4JError

    from airflow_provider_lancerefs.spark.jvm.engine import JvmEngine

    try:
        return JvmEngine(spark, storages)
    except Py4JError as error:
        _log.warning(
            "This Spark does not take our classes (%s), so rows go through Python workers, which "
            "is slower.",
            str(error).partition("\n")[0],
        )
        return source


class SourceEngine:
    """Our own data source, which needs a Spark that has data sources in Python."""

    def __init__(self, spark: SparkSession, storages: Storages) -> None:
        try:
            from airflow_provider_lancerefs.spark.source import FORMAT, register
        except ModuleNotFoundError as error:
            raise InvalidInputError(
                "This Spark is too old for data sources in Python: use Spark 4.2, or the engine "
                f"{CONNECTOR!r}."
            ) from error
        self._spark, self._storages, self._format = spark, storages, FORMAT
        register(spark, storages)

    def load(self, one: BranchOf, columns: Sequence[str] | None) -> DataFrame:
        return self._load(one, columns)

    def save(self, df: DataFrame, one: BranchOf, mode: str, write_id: str, **options: str) -> None:
        life = {"life": one.life} if one.life else {}
        writer = df.write.format(self._format).mode(mode).option("branch", one.branch)
        writer.options(write_id=write_id, **options, **life).save(one.uri)

    def merge(self, df: DataFrame, one: BranchOf, keys: Sequence[str], write_id: str) -> None:
        version = str(self._store(one).resolve(Revision(one.branch)).number)
        there = self._load(one, keys, version=version, row_marks="true")
        matched = df.join(there, [*keys], "left")
        self.save(matched, one, "append", write_id, merge=version)

    def _load(self, one: BranchOf, columns: Sequence[str] | None, **options: str) -> DataFrame:
        reader = self._spark.read.format(self._format).option("branch", one.branch)
        if columns is not None:
            reader = reader.option("columns", json.dumps([*columns]))
        return reader.options(**options).load(one.uri)

    def _store(self, one: BranchOf) -> RefStore:
        return RefStore.open(one.uri, one.place(self._storages).storage_options)
