"""Reading a pinned version in parallel: on the driver the slices, on executors their rows.

Executors import this, so it asks for no more than pyspark, pyarrow and pylance.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from airflow_provider_lancerefs.spark.columns import (
    ROW_ADDRESS,
    ROW_MARKS,
    batch_schema,
    cast_batch,
)
from airflow_provider_lancerefs.spark.filters import pushed

if TYPE_CHECKING:
    import lance
    import pyarrow as pa

_FRAGMENT_SHIFT = 32
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

    def open(self) -> lance.LanceDataset:
        import lance

        options = dict(self.storage_options) or None
        return lance.dataset(self.uri, version=self.version, storage_options=options)


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
    """Reads a snapshot; filters go to Lance, and Spark looks at the rows again."""

    def __init__(self, snapshot: Snapshot, schema: StructType) -> None:
        self._snapshot = snapshot
        self._schema = schema
        self._filter: str | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._filter = pushed(filters, self._snapshot.open().schema)
        return filters

    def partitions(self) -> list[InputPartition]:
        sizes = (
            (one.fragment_id, one.physical_rows - (0 if self._filter else one.num_deletions))
            for one in self._snapshot.open().get_fragments()
        )
        return [*map(Slices, divide(sizes, self._snapshot.rows_per_partition))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # what Spark makes of an empty list of partitions
            return
        dataset, target = self._snapshot.open(), batch_schema(self._schema)
        names = [name for name in target.names if name not in ROW_MARKS]
        for scan in _scans(dataset, partition.value, self._filter):
            scanner = dataset.scanner(
                columns=names,
                batch_size=self._snapshot.batch_size,
                with_row_address=self._snapshot.row_marks,
                with_row_id=self._snapshot.row_marks,
                **scan,
            )
            for batch in scanner.to_batches():
                yield cast_batch(batch, target)


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
