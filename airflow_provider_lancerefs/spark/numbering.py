"""What the writes of a job are called: by their places in it, so that a retry finds its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_lancerefs.refstore import InvalidInputError
from airflow_provider_lancerefs.spark.jvm.compiling import has_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["next_write"]

_STREAM = ("sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id")


class _Batch(NamedTuple):
    """A batch of a stream, and which start of the stream it is that works on it."""

    query: str
    number: str
    start: str

    @classmethod
    def current(cls, spark: SparkSession) -> _Batch | None:
        """The one whose function is called in this thread, if any is."""
        if not has_jvm(spark):
            return None
        said = map(spark.sparkContext.getLocalProperty, _STREAM)
        query, number, start = (one or "" for one in said)
        return cls(query, number, start) if query and number else None


_lock = threading.Lock()
_written: dict[tuple[str, ...], tuple[_Batch | None, int]] = {}
_under_way: set[tuple[str, ...]] = set()


@contextmanager
def next_write(spark: SparkSession, job: str, dataset: str) -> Iterator[str]:
    """A job's next write to a dataset; one that fails leaves its place to the next.

    There is one at a time, or a retry could not tell which was which. A stream goes on with another
    batch after a retry, so its writes are counted by batch.
    """
    batch = _Batch.current(spark)
    counted = (job, dataset, batch.query) if batch else (job, dataset)
    with _lock:
        if counted in _under_way:
            raise InvalidInputError(
                f"Another thread of this job is writing to {dataset!r}, and a retry tells writes "
                "apart by their order: make them one after the other."
            )
        _under_way.add(counted)
    try:
        last, count = _written.get(counted, (batch, 0))
        number = count + 1 if last == batch else 1
        place = (batch.query, batch.number, str(number)) if batch else (str(number),)
        yield "/".join((job, dataset, *place))
        _written[counted] = batch, number
    finally:
        _under_way.discard(counted)
