"""Sets of row offsets within one fragment, as deletion files hold them.

A deletion file is an Arrow file of one column, or a portable Roaring bitmap; the bitmap is what we
write. A set is kept as one whole number whose bits are the offsets, so that uniting and comparing
the vectors of millions of rows takes no loop.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from airflow_provider_lancerefs.refstore.errors import FormatError

_WITHOUT_RUNS = 12346
_WITH_RUNS = 12347
_FEW = 4
_CHUNK = 1 << 16
_CHUNK_BYTES = _CHUNK // 8
_LARGEST_ARRAY = 4096
_HIGHEST_ROW = 2**32


@dataclass(frozen=True, slots=True)
class RowSet:
    """Row offsets; bit n of `bits` says whether row n is in the set."""

    bits: int = 0

    @staticmethod
    def of(offsets: Iterable[int]) -> RowSet:
        chunks: dict[int, bytearray] = {}
        for offset in offsets:
            chunk = chunks.setdefault(offset // _CHUNK, bytearray(_CHUNK_BYTES))
            within = offset % _CHUNK
            chunk[within >> 3] |= 1 << (within & 7)
        return _joined(chunks)

    @staticmethod
    def first(rows: int) -> RowSet:
        """The offsets 0 to rows - 1."""
        return RowSet((1 << rows) - 1)

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __bool__(self) -> bool:
        return self.bits != 0

    def __iter__(self) -> Iterator[int]:
        data = self.bits.to_bytes((self.bits.bit_length() + 7) // 8, "little")
        for position, byte in enumerate(data):
            for bit in range(8) if byte else ():
                if byte >> bit & 1:
                    yield position * 8 + bit

    def __contains__(self, offset: object) -> bool:
        return isinstance(offset, int) and bool(self.bits >> offset & 1)

    def __or__(self, other: RowSet) -> RowSet:
        return RowSet(self.bits | other.bits)

    def __and__(self, other: RowSet) -> RowSet:
        return RowSet(self.bits & other.bits)

    def __sub__(self, other: RowSet) -> RowSet:
        return RowSet(self.bits & ~other.bits)

    def __le__(self, other: RowSet) -> bool:
        return not self.bits & ~other.bits


NO_ROWS = RowSet()


def decode(data: bytes, path: str) -> RowSet:
    """Read a deletion file by its suffix; raises FormatError where it is not what that says."""
    try:
        return _from_bitmap(data) if path.endswith(".bin") else _from_arrow(data)
    except (struct.error, ValueError, KeyError, OSError, IndexError) as error:
        raise FormatError(
            f"The deletion file {path} is damaged: restore it from a copy.", ref=path
        ) from error


def encode(rows: RowSet) -> bytes:
    """The set as a portable Roaring bitmap without runs."""
    chunks = [(key, chunk) for key, chunk in enumerate(_chunks(rows)) if any(chunk)]
    containers = [_container(chunk) for _, chunk in chunks]
    counts = [int.from_bytes(chunk, "little").bit_count() for _, chunk in chunks]
    head = struct.pack("<II", _WITHOUT_RUNS, len(chunks))
    for (key, _), count in zip(chunks, counts, strict=True):
        head += struct.pack("<HH", key, count - 1)
    position = len(head) + 4 * len(chunks)
    for container in containers:
        head += struct.pack("<I", position)
        position += len(container)
    return head + b"".join(containers)


def _from_arrow(data: bytes) -> RowSet:
    import pyarrow

    table = pyarrow.ipc.open_file(io.BytesIO(data)).read_all()
    return RowSet.of(table.column("row_id").to_pylist())


def _from_bitmap(data: bytes) -> RowSet:
    cookie, count = struct.unpack_from("<HH", data)
    position, runs = 4, b""
    if cookie == _WITH_RUNS:
        count += 1
        runs = data[4 : 4 + (count + 7) // 8]
        position += len(runs)
    elif (cookie, count) == (_WITHOUT_RUNS, 0):
        (count,) = struct.unpack_from("<I", data, 4)
        position += 4
    else:
        raise ValueError("not a Roaring bitmap")
    heads = list(struct.iter_unpack("<HH", data[position : position + 4 * count]))
    if len(heads) != count:
        raise ValueError("cut short")
    position += 4 * count
    if not runs or count >= _FEW:
        position += 4 * count
    return _from_containers(data, position, heads, runs)


def _from_containers(
    data: bytes, position: int, heads: list[tuple[int, int]], runs: bytes
) -> RowSet:
    chunks: dict[int, bytearray] = {}
    for index, (key, less_one) in enumerate(heads):
        if runs and runs[index >> 3] >> (index & 7) & 1:
            (count,) = struct.unpack_from("<H", data, position)
            spans = struct.unpack_from(f"<{2 * count}H", data, position + 2)
            chunks[key] = _of_spans(spans[::2], spans[1::2])
            position += 2 + 4 * count
        elif less_one < _LARGEST_ARRAY:
            chunks[key] = _of_values(struct.unpack_from(f"<{less_one + 1}H", data, position))
            position += 2 * (less_one + 1)
        else:
            (chunk,) = struct.unpack_from(f"{_CHUNK_BYTES}s", data, position)
            chunks[key] = bytearray(chunk)
            position += _CHUNK_BYTES
    return _joined(chunks)


def _of_values(values: Iterable[int]) -> bytearray:
    chunk = bytearray(_CHUNK_BYTES)
    for value in values:
        chunk[value >> 3] |= 1 << (value & 7)
    return chunk


def _of_spans(starts: Iterable[int], lengths: Iterable[int]) -> bytearray:
    bits = 0
    for start, less_one in zip(starts, lengths, strict=True):
        bits |= ((1 << (less_one + 1)) - 1) << start
    return bytearray(bits.to_bytes(_CHUNK_BYTES, "little"))


def _joined(chunks: dict[int, bytearray]) -> RowSet:
    if not chunks:
        return RowSet()
    if max(chunks) * _CHUNK >= _HIGHEST_ROW:
        raise ValueError("a row offset has 32 bits")
    empty = bytes(_CHUNK_BYTES)
    whole = b"".join(bytes(chunks.get(key, empty)) for key in range(max(chunks) + 1))
    return RowSet(int.from_bytes(whole, "little"))


def _chunks(rows: RowSet) -> Iterator[bytes]:
    count = -(-rows.bits.bit_length() // _CHUNK)
    data = rows.bits.to_bytes(count * _CHUNK_BYTES, "little")
    for start in range(0, len(data), _CHUNK_BYTES):
        yield data[start : start + _CHUNK_BYTES]


def _container(chunk: bytes) -> bytes:
    if int.from_bytes(chunk, "little").bit_count() > _LARGEST_ARRAY:
        return chunk
    values = list(RowSet(int.from_bytes(chunk, "little")))
    return struct.pack(f"<{len(values)}H", *values)
