"""Reading a pinned version in parallel: on the driver the slices, on executors their rows.

Executors import this, so it asks for no more than pyspark, pyarrow and pylance.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from airflow_provider_lancerefs.spark.columns import (
    ROW_ADDRESS,
    ROW_MARKS,
    batch_schema,
    cast_batch,
)

if TYPE_CHECKING:
    import lance
    import pyarrow as pa

_FRAGMENT_SHIFT = 32
_FEWEST_ROWS, _MOST_ROWS, _FILTERED = 65_536, 1_048_576, 4
_BATCH_BYTES = 16 << 20  # about, however long rows are
_CHUNK = 1 << 16
_ROARING_WITH_RUNS = 12347


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of a dataset or of a branch's folder, and how it is to be read."""

    uri: str
    version: int
    storage_options: Mapping[str, str] = field(repr=False)
    columns: tuple[str, ...] = ()
    batch_size: int = 0
    rows_per_partition: int = 0
    row_marks: bool = False
    taken: str = ""

    def open(self) -> lance.LanceDataset:
        """The version; opened once in a process for each time that a snapshot is taken."""
        options = tuple(sorted(self.storage_options.items()))
        return _opened(self.uri, self.version, options, self.taken)


@lru_cache(maxsize=8)
def _opened(
    uri: str, version: int, options: tuple[tuple[str, str], ...], taken: str
) -> lance.LanceDataset:
    import lance

    return lance.dataset(uri, version=version, storage_options=dict(options) or None)


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows `start` to `stop` of a fragment: of those that stand or, where a filter follows, of all.

    Without `stop` it is the whole fragment.
    """

    fragment: int
    start: int = 0
    stop: int | None = None


class Slices(InputPartition):
    """What one task reads."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        super().__init__(tuple(slices))


class SnapshotReader(DataSourceReader):
    """Reads a snapshot, and takes no filters: Spark 4.2 would remember them.

    It keeps what a source made of one query's filters for all later queries of the same frame that
    push none, and so for the other side of a union or a join.
    """

    def __init__(self, snapshot: Snapshot, schema: StructType) -> None:
        self._snapshot = snapshot
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [*map(Slices, parts(self._snapshot, filter=None))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # what Spark makes of an empty list of partitions
            return
        columns = batch_schema(self._schema)
        yield from rows(self._snapshot, columns, partition.value, filter=None)


def extent(snapshot: Snapshot) -> tuple[int, int]:
    """The snapshot's rows, and the bytes of their files: 0 where the table does not say of all."""
    fragments = snapshot.open().get_fragments()
    rows = sum(one.physical_rows - one.num_deletions for one in fragments)
    sizes = [file.file_size_bytes or 0 for one in fragments for file in one.metadata.files]
    return rows, sum(sizes) if all(sizes) else 0


def parts(snapshot: Snapshot, filter: str | None, cores: int = 0) -> Iterator[list[Slice]]:
    """The snapshot's rows, divided among tasks: of so many rows each, or for so many cores."""
    sizes = [
        (one.fragment_id, one.physical_rows - (0 if filter else one.num_deletions))
        for one in snapshot.open().get_fragments()
    ]
    return divide(sizes, snapshot.rows_per_partition or _rows_each(sizes, filter, cores))


def _rows_each(sizes: Sequence[tuple[int, int]], filter: str | None, cores: int) -> int:
    """So many that every core has a part, as long as parts are worth a task.

    Of filtered rows few may come, so it takes more of them.
    """
    share = -(-sum(size for _, size in sizes) // max(1, cores))
    most = _MOST_ROWS * (_FILTERED if filter else 1)
    return min(most, max(_FEWEST_ROWS, share))


def rows(
    snapshot: Snapshot, columns: pa.Schema, slices: Sequence[Slice], filter: str | None
) -> Iterator[pa.RecordBatch]:
    """The rows of the slices that the filter leaves, in columns of these types."""
    dataset = snapshot.open()
    names = [name for name in columns.names if name not in ROW_MARKS]
    for scan in _scans(dataset, slices, filter):
        scanner = dataset.scanner(
            columns=names,
            batch_size=snapshot.batch_size,
            batch_size_bytes=_BATCH_BYTES,
            with_row_address=snapshot.row_marks or not names,
            with_row_id=snapshot.row_marks,
            **scan,
        )
        for batch in scanner.to_batches():
            yield cast_batch(batch, columns) if columns.names else batch.select([])


def divide(sizes: Iterable[tuple[int, int]], rows: int) -> Iterator[list[Slice]]:
    """Group fragments, given with their sizes, and split large ones, into parts of about `rows`."""
    part: list[Slice] = []
    room = rows
    for fragment, size in sizes:
        if part and size > room:
            yield part
            part, room = [], rows
        pieces = max(1, -(-size // rows))
        if pieces == 1:
            part.append(Slice(fragment))
            room -= size
            continue
        bounds = [size * piece // pieces for piece in range(pieces + 1)]
        for start, stop in itertools.pairwise(bounds):
            yield [Slice(fragment, start, stop)]
    if part:
        yield part


def _scans(
    dataset: lance.LanceDataset, slices: Sequence[Slice], filter: str | None
) -> Iterator[dict[str, Any]]:
    """The scans that read the slices: one for all that are whole, and one for each other."""
    whole = [dataset.get_fragment(one.fragment) for one in slices if one.stop is None]
    if whole:
        yield {"fragments": whole, "filter": filter}
    for one in slices:
        if one.stop is None:
            continue
        fragments = [dataset.get_fragment(one.fragment)]
        if filter is None:
            yield {"fragments": fragments, "offset": one.start, "limit": one.stop - one.start}
        elif dataset.has_stable_row_ids:
            yield {"fragments": fragments, "filter": f"{_address_range(one)} AND ({filter})"}
        else:
            allowed = row_addresses(one.fragment, one.start, one.stop)
            yield {"fragments": fragments, "filter": filter, "row_addr_allowlist": allowed}


def _address_range(one: Slice) -> str:
    base, stop = one.fragment << _FRAGMENT_SHIFT, one.stop or 0
    return f"{ROW_ADDRESS} >= {base + one.start} AND {ROW_ADDRESS} < {base + stop}"


def row_addresses(fragment: int, start: int, stop: int) -> bytes:
    """A range of one fragment's rows as Lance takes sets of addresses: a map of Roaring bitmaps."""
    keys = range(start // _CHUNK, (stop - 1) // _CHUNK + 1)
    runs = [(max(start, key * _CHUNK), min(stop, (key + 1) * _CHUNK) - 1) for key in keys]
    bitmap = struct.pack("<I", _ROARING_WITH_RUNS | len(runs) - 1 << 16)
    bitmap += b"\xff" * ((len(runs) + 7) // 8)
    for first, last in runs:
        bitmap += struct.pack("<HH", first // _CHUNK, last - first)
    if len(runs) >= 4:
        header = len(bitmap) + 4 * len(runs)
        bitmap += b"".join(struct.pack("<I", header + 6 * place) for place in range(len(runs)))
    for first, last in runs:
        bitmap += struct.pack("<HHH", 1, first % _CHUNK, last - first)
    return struct.pack("<III", 1, fragment, len(bitmap)) + bitmap
