"""The data source `lancerefs` in Spark's own Python workers, for sessions that have no JVM at hand.

Executors import this, so what only the driver needs is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakKeyDictionary

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from airflow_provider_lancerefs.spark.options import (
    FORMAT,
    Storages,
    read_options,
    write_options,
)
from airflow_provider_lancerefs.spark.reading import Snapshot, SnapshotReader
from airflow_provider_lancerefs.spark.writing import Write, Written, write_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


class LanceRefsSource(DataSource):
    """Reads a pinned version of a table, and writes to a table or one of its branches.

    `storages` are the storage options by dataset, or by a folder above it, which never become
    options of Spark's and so are never shown.
    """

    storages: ClassVar[Storages] = {}
    _taken: tuple[Snapshot, StructType] | None = None

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return self._take()[1]

    def reader(self, schema: StructType) -> DataSourceReader:
        return SnapshotReader(self._take()[0], schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from airflow_provider_lancerefs.spark.preparing import prepare

        options = write_options(self.options, self.storages)
        return FragmentWriter(prepare(options, schema, overwrite=overwrite))

    def _take(self) -> tuple[Snapshot, StructType]:
        """Taken once: Spark carries this object along, so each run of a query reads the same."""
        from airflow_provider_lancerefs.spark.snapshots import take_snapshot

        if self._taken is None:
            self._taken = take_snapshot(read_options(self.options, self.storages))
        return self._taken


class FragmentWriter(DataSourceArrowWriter):
    """Files on executors, then one commit on the driver, or none."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return write_task(self._write, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        from airflow_provider_lancerefs.spark.committing import commit

        commit(self._write, [one for one in messages if isinstance(one, Written)])

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        from airflow_provider_lancerefs.spark.committing import abort

        abort(self._write, may_have_landed=bool(messages) and None not in messages)


_told: WeakKeyDictionary[SparkSession, Storages] = WeakKeyDictionary()


def register_source(spark: SparkSession, storages: Storages) -> None:
    """Have Spark's Python workers read and write for a session, by these storage options."""
    if _told.get(spark) == storages:
        return
    # A class made here, unlike one of a module, is pickled with all that it holds.
    bound = type("LanceRefs", (LanceRefsSource,), {"storages": storages, "__module__": "__main__"})
    spark.dataSource.register(bound)
    _told[spark] = storages
