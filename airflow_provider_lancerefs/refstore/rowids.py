"""Stable row ids of a fragment, as its manifest encodes them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

from google.protobuf.message import DecodeError

from airflow_provider_lancerefs.refstore._proto import lance_table_pb2 as pb
from airflow_provider_lancerefs.refstore.errors import FormatError

_WIDTHS = {"u16": "H", "u32": "I"}


def decode(data: bytes) -> Sequence[int]:
    """The ids in the order of the rows; raises FormatError for bytes that are no such sequence."""
    try:
        sequence = pb.RowIdSequence.FromString(data)
        return [identity for segment in sequence.segments for identity in _segment(segment)]
    except (DecodeError, struct.error) as error:
        raise FormatError("A fragment's row ids cannot be decoded: the manifest is damaged.") from (
            error
        )


def _segment(segment: pb.U64Segment) -> Iterable[int]:
    match segment.WhichOneof("segment"):
        case "range":
            return range(segment.range.start, segment.range.end)
        case "range_with_holes":
            holes = set(_array(segment.range_with_holes.holes))
            whole = range(segment.range_with_holes.start, segment.range_with_holes.end)
            return (identity for identity in whole if identity not in holes)
        case "range_with_bitmap":
            return _masked(segment.range_with_bitmap)
        case "sorted_array":
            return _array(segment.sorted_array)
        case "array":
            return _array(segment.array)
        case _:
            raise FormatError(
                "A fragment's row ids are encoded in a way that this version does not know: "
                "upgrade airflow-provider-lancerefs."
            )


def _masked(masked: pb.RangeWithBitmap) -> Iterator[int]:
    for offset, identity in enumerate(range(masked.start, masked.end)):
        if masked.bitmap[offset >> 3] >> (offset & 7) & 1:
            yield identity


def _array(array: pb.EncodedU64Array) -> Iterable[int]:
    kind = array.WhichOneof("array")
    if kind == "u64":
        return _unpacked("Q", array.u64.values)
    offsets = array.u16 if kind == "u16" else array.u32
    return (offsets.base + offset for offset in _unpacked(_WIDTHS[kind or "u32"], offsets.offsets))


def _unpacked(code: str, data: bytes) -> Sequence[int]:
    return struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)
