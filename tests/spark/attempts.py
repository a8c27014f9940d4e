"""A write as Spark makes it, without a JVM: prepared, written by tasks, committed or aborted.

Run as a program, this is the driver of one write, which somebody may kill. Its order comes by
stdin, for it holds credentials.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import lance
import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from airflow_provider_lancerefs.spark.committing import commit
from airflow_provider_lancerefs.spark.options import Place, WriteOptions
from airflow_provider_lancerefs.spark.preparing import prepare
from airflow_provider_lancerefs.spark.staging import carry_over, stage_for
from airflow_provider_lancerefs.spark.writing import Write, Written, write_task
from tests import tables

FRAME = StructType([StructField("n", LongType())])


@dataclass(frozen=True)
class Attempt:
    """One try of a write of whole numbers, each task writing some of them.

    If `staged`, pylance writes as the JVM connector would, in a table of the attempt's own.
    """

    uri: str
    branch: str
    write_id: str
    tasks: Sequence[Sequence[int]]
    overwrite: bool = False
    staged: bool = False
    options: dict[str, str] = field(default_factory=dict)

    @classmethod
    def at(
        cls, place: tables.Place, branch: str, write_id: str, *tasks: Iterable[int], **more: bool
    ) -> Attempt:
        lists = [list(one) for one in tasks]
        return cls(place.uri, branch, write_id, lists, options=place.options, **more)

    def prepare(self) -> Write:
        place = Place(self.uri, self.branch, self.options)
        options = WriteOptions(place, write_id=self.write_id)
        return prepare(options, FRAME, overwrite=self.overwrite)

    def run_tasks(self, write: Write) -> list[Written]:
        if write.landed is not None:
            return [Written() for _ in self.tasks]
        if self.staged:
            return [self._stage(write)]
        return [write_task(write, [batch(values)]) for values in self.tasks]

    def _stage(self, write: Write) -> Written:
        stage = stage_for(write)
        rows = [batch(values) for values in self.tasks]
        lance.write_dataset(
            pa.Table.from_batches(rows),
            stage,
            mode="append",
            max_rows_per_file=2,
            storage_options=self.options or None,
        )
        return carry_over(write, stage)

    def make(self) -> int:
        """The whole of it; the version as which it landed."""
        write = self.prepare()
        return commit(write, self.run_tasks(write))


def batch(values: Iterable[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(list(values), pa.int64())], ["n"])


def main() -> None:
    Attempt(**json.load(sys.stdin)).make()
    os._exit(0)  # at once: the threads of s3fs and pylance have nothing left to tidy up


if __name__ == "__main__":
    main()
