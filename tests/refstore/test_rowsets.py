"""Deletion vectors and stable row ids, read and written as Lance does."""

from __future__ import annotations

import contextlib
import io

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.bitmap import Bitmap
from lance.fragment import RowIdSequence

from airflow_provider_lancerefs.refstore import FormatError, rowids, rowsets
from airflow_provider_lancerefs.refstore.rowsets import RowSet

OFFSETS = st.sets(st.integers(0, 3 * 2**16) | st.integers(0, 40), max_size=60)
DENSE = [range(5000), range(0, 200_000, 3), range(65_536, 131_072), [*range(65_536), 131_071]]
IDS = [
    [],
    [0],
    [5, 6, 7],
    [1, 2, 3, 9],
    [*range(1, 10), 11],
    [9, 3, 5],
    [1, 70_000, 2**40],
    [2**40, 1],
    list(range(0, 2000, 2)),
    [one for one in range(300) if one not in (7, 9, 200)],
    list(range(100_000, 0, -3)),
]


@given(OFFSETS, OFFSETS)
def test_they_are_sets(one: set[int], other: set[int]) -> None:
    """What holds for sets of numbers holds for these."""
    left, right = RowSet.of(one), RowSet.of(other)
    assert set(left) == one
    assert len(left) == len(one)
    assert bool(left) is bool(one)
    assert set(left | right) == one | other
    assert set(left & right) == one & other
    assert set(left - right) == one - other
    assert (left <= right) is (one <= other)
    assert all((offset in left) is (offset in one) for offset in one | other)


@given(OFFSETS)
def test_what_we_write_lance_reads(offsets: set[int]) -> None:
    """A bitmap of ours is the same set to Lance, and to us."""
    data = rowsets.encode(RowSet.of(offsets))
    assert set(Bitmap._from_bytes(data)) == offsets
    assert set(rowsets.decode(data, "0-1-2.bin")) == offsets


@pytest.mark.parametrize("offsets", DENSE, ids=["array", "sparse", "full", "mixed"])
def test_dense_sets(offsets: list[int]) -> None:
    """Containers of every kind."""
    data = rowsets.encode(RowSet.of(offsets))
    assert sorted(Bitmap._from_bytes(data)) == list(offsets)
    assert list(rowsets.decode(data, "0-1-2.bin")) == list(offsets)


def test_runs() -> None:
    """A bitmap with run containers, as other writers make them."""
    runs = (
        b"\x3b\x30\x00\x00\x01"
        + b"\x00\x00\x0a\x00"
        + b"\x02\x00"
        + b"\x01\x00\x04\x00\x14\x00\x05\x00"
    )
    assert list(rowsets.decode(runs, "0-1-2.bin")) == [1, 2, 3, 4, 5, 20, 21, 22, 23, 24, 25]
    assert sorted(Bitmap._from_bytes(runs)) == [1, 2, 3, 4, 5, 20, 21, 22, 23, 24, 25]


def test_arrow_files() -> None:
    """The other kind of deletion file; its rows may stand in any order."""
    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    stream = io.BytesIO()
    with pa.ipc.new_file(stream, schema) as writer:
        writer.write_batch(pa.record_batch([pa.array([9, 2, 70_000], pa.uint32())], schema=schema))
    assert list(rowsets.decode(stream.getvalue(), "0-1-2.arrow")) == [2, 9, 70_000]


@given(st.binary(max_size=60))
def test_other_bytes_are_a_format_error(data: bytes) -> None:
    """Damage is told as such, whatever the bytes."""
    for path in ("0-1-2.bin", "0-1-2.arrow"):
        with contextlib.suppress(FormatError):
            rowsets.decode(data, path)


@pytest.mark.parametrize("ids", IDS, ids=range(len(IDS)))
def test_row_ids(ids: list[int]) -> None:
    """Every way in which Lance encodes row ids is read."""
    data = bytes(RowIdSequence(ids).to_inline_metadata().asdict()["Inline"])
    assert list(rowids.decode(data)) == ids


def test_row_ids_of_other_bytes() -> None:
    """Damage is a format error."""
    with pytest.raises(FormatError):
        rowids.decode(b"\xff\xff")
