"""Writing data files in parallel. What becomes of them is decided on the driver, in one commit.

Executors import this, so it asks for no more than pyspark, pyarrow and pylance. A file's name says
of which write and which attempt of it the file is, so that the driver finds those of tasks that
died, or ran twice, without having been told of them. See docs/decisions/0006-spark-writes.md.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_provider_lancerefs.refstore import InvalidInputError
from airflow_provider_lancerefs.spark.columns import (
    ROW_ADDRESS,
    ROW_ID,
    cast_batch,
    with_all_buffers,
)
from airflow_provider_lancerefs.spark.shapes import FileShape

if TYPE_CHECKING:
    import pyarrow as pa
    from lance.file import LanceFileWriter
    from pyspark.sql.datasource import WriterCommitMessage
else:
    try:
        from pyspark.sql.datasource import WriterCommitMessage
    except ImportError:  # Spark 3.5, where the connector alone writes
        WriterCommitMessage = object


_ID_BYTES = 8


@dataclass(frozen=True, slots=True)
class Write:
    """One attempt of one write, as the driver prepared it and executors carry it out.

    Files go below `home`, the dataset's root or the branch's folder, which the branch's manifest
    knows by `base_id`. `read_version` is the version of which schema and shape are, None where
    there is no table yet; `landed` the one as which an earlier attempt landed, so that nothing is
    to be done.
    """

    uri: str
    storage_options: Mapping[str, str] = field(repr=False)
    branch: str
    life: str
    home: str
    base_id: int | None
    write_id: str
    attempt: str
    schema: pa.Schema
    field_ids: tuple[int, ...]
    shape: FileShape
    file_version: str
    max_rows_per_file: int
    overwrite: bool
    merge: bool
    keeps_row_ids: bool
    read_version: int | None
    landed: int | None


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A data file by name, and its rows; `row_ids` are 64-bit ids that they are to keep."""

    name: str
    rows: int
    row_ids: bytes = b""


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote; `replaced` are 64-bit addresses of the rows that its own replace."""

    files: tuple[WrittenFile, ...] = ()
    replaced: bytes = b""


def write_task(write: Write, batches: Iterable[pa.RecordBatch]) -> Written:
    """Write one task's rows to files; rows that keep their ids to files of their own.

    Of a write that has landed there is nothing to do but to hear the rows out.
    """
    if write.landed is not None:
        for _ in batches:
            pass
        return Written()
    added, keeping = TaskFiles(write), TaskFiles(write)
    addresses, ids = [], []
    with added, keeping:
        for batch in batches:
            rows = _fitted(batch, write)
            if write.merge:
                matched = batch.column(ROW_ADDRESS).is_valid()
                addresses.append(batch.column(ROW_ADDRESS).drop_null())
                if write.keeps_row_ids:
                    ids.append(batch.column(ROW_ID).drop_null())
                    keeping.add(rows.filter(matched))
                    rows = rows.filter(batch.column(ROW_ADDRESS).is_null())
            added.add(rows)
        kept = _with_ids(keeping.finish(), _packed(ids))
        return Written((*added.finish(), *kept), _packed(addresses))


def _fitted(batch: pa.RecordBatch, write: Write) -> pa.RecordBatch:
    import pyarrow as pa

    try:
        return cast_batch(with_all_buffers(batch), write.schema)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(
            f"The data frame does not fit {write.branch} of {write.uri}, and nothing was written: "
            f"{error}."
        ) from None


def _with_ids(files: Iterable[WrittenFile], ids: bytes) -> Iterator[WrittenFile]:
    start = 0
    for file in files:
        stop = start + file.rows * _ID_BYTES
        yield replace(file, row_ids=ids[start:stop])
        start = stop


class TaskFiles:
    """The files of one task: a new one whenever one is full, and none where there are no rows.

    One that is not finished when this is left goes, at once: an error may be kept for long, and
    with it all that its frames hold.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._task = uuid.uuid4().hex
        self._done: list[WrittenFile] = []
        self._writer: LanceFileWriter | None = None
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        most = self._write.max_rows_per_file
        while batch.num_rows:
            if self._writer is None:
                self._writer = self._open()
            part = batch.slice(0, most - self._rows)
            self._writer.write_batch(part)
            self._rows += part.num_rows
            batch = _rest(batch, part.num_rows)
            if self._rows == most:
                self._finish()

    def __enter__(self) -> TaskFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer = None

    def finish(self) -> tuple[WrittenFile, ...]:
        if self._writer is not None:
            self._finish()
        return tuple(self._done)

    @property
    def _name(self) -> str:
        return f"{self._write.attempt}-{self._task}-{len(self._done)}.lance"

    def _open(self) -> LanceFileWriter:
        from lance.file import LanceFileWriter

        return LanceFileWriter(
            f"{self._write.home}/data/{self._name}",
            self._write.schema,
            version=self._write.file_version,
            storage_options=dict(self._write.storage_options) or None,
        )

    def _finish(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._done.append(WrittenFile(self._name, self._rows))
        self._writer, self._rows = None, 0


def _rest(batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
    """The rows from there on; copied, for Lance panics at some structs that begin elsewhere."""
    import pyarrow as pa

    rest = batch.slice(start)
    return rest.take(pa.array(range(rest.num_rows), pa.int64())) if rest.num_rows else rest


def _packed(columns: Sequence[pa.Array]) -> bytes:
    import pyarrow as pa

    if not columns:
        return b""
    joined: bytes = pa.concat_arrays(columns).to_numpy(zero_copy_only=False).tobytes()
    return joined
