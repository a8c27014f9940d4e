"""A table with a column of every type that Lance and Spark share, nested ones too."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

_NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 123456)
_CASES: list[tuple[str, pa.DataType, object]] = [
    ("bool", pa.bool_(), True),
    ("int8", pa.int8(), -128),
    ("int16", pa.int16(), -32768),
    ("int32", pa.int32(), -(2**31)),
    ("int64", pa.int64(), -(2**63)),
    ("uint8", pa.uint8(), 255),
    ("uint16", pa.uint16(), 65535),
    ("uint32", pa.uint32(), 2**32 - 1),
    ("uint64", pa.uint64(), 2**64 - 1),
    ("float16", pa.float16(), 1.5),
    ("float32", pa.float32(), -1.25),
    ("float64", pa.float64(), float("inf")),
    ("decimal", pa.decimal128(38, 10), Decimal("12345.0000000001")),
    ("wide_decimal", pa.decimal256(30, 2), Decimal("-1.25")),
    ("string", pa.string(), "naïve 🌍 'quoted'"),
    ("large_string", pa.large_string(), ""),
    ("dictionary", pa.dictionary(pa.int8(), pa.string()), "red"),
    ("binary", pa.binary(), b"\0\xff"),
    ("large_binary", pa.large_binary(), b"x"),
    ("fixed_binary", pa.binary(3), b"abc"),
    ("date32", pa.date32(), dt.date(1969, 12, 31)),
    ("date64", pa.date64(), dt.date(2024, 2, 29)),
    ("time32", pa.time32("s"), dt.time(23, 59, 59)),
    ("time64", pa.time64("us"), dt.time(1, 2, 3, 4)),
    ("local_seconds", pa.timestamp("s"), dt.datetime(2024, 2, 29, 12)),
    ("local", pa.timestamp("us"), _NOON),
    ("local_nanos", pa.timestamp("ns"), _NOON),
    ("moment", pa.timestamp("us", "UTC"), _NOON.replace(tzinfo=dt.UTC)),
    ("zoned", pa.timestamp("ms", "Europe/Berlin"), dt.datetime(2024, 7, 1, tzinfo=dt.UTC)),
    ("duration", pa.duration("ms"), dt.timedelta(days=-1, milliseconds=5)),
    ("nothing", pa.null(), None),
    ("list", pa.list_(pa.int32()), [1, None, 3]),
    ("large_list", pa.large_list(pa.string()), ["a", None]),
    ("vector", pa.list_(pa.float32(), 4), [1.0, 2.0, 3.0, 4.0]),
    ("half_vector", pa.list_(pa.float16(), 2), [0.5, 1.5]),
    ("vectors", pa.list_(pa.list_(pa.float64(), 2)), [[1.0, 2.0], [3.0, 4.0]]),
    ("lists", pa.list_(pa.list_(pa.int8())), [[1], [], None]),
    ("map", pa.map_(pa.string(), pa.int64()), [("a", 1), ("b", None)]),
    (
        "struct",
        pa.struct(
            [
                pa.field("n", pa.uint8()),
                pa.field("inner", pa.struct([pa.field("v", pa.list_(pa.float32(), 2))])),
                pa.field("tags", pa.list_(pa.string())),
            ]
        ),
        {"n": 7, "inner": {"v": [1.0, 2.0]}, "tags": ["x", None]},
    ),
    ("structs", pa.list_(pa.struct([pa.field("a", pa.int64())])), [{"a": 1}, None]),
    ("map_of_structs", pa.map_(pa.int32(), pa.struct([("a", pa.string())])), [(1, {"a": "x"})]),
]


def table() -> pa.Table:
    """Three rows: a value in each column, nothing but nulls, and the values again."""
    columns = {name: pa.array([value, None, value], kind) for name, kind, value in _CASES}
    return pa.table({"row": pa.array([1, 2, 3], pa.int64()), **columns})
