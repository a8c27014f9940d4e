"""Tables of any columns: what Spark makes of them, and what it puts into another table."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from airflow_provider_lancerefs.spark import LanceRun
from tests.spark.sides import IN_PYTHON, register_both
from tests.spark.test_source import rows
from tests.tables import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

_MOMENTS = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))
_PLAIN: list[tuple[pa.DataType, st.SearchStrategy[object]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    (pa.uint16(), st.integers(0, 2**16 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.decimal128(20, 3), st.decimals(-(10**16), 10**16, places=3)),
    (pa.string(), st.text(max_size=20)),
    (pa.binary(), st.binary(max_size=20)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), _MOMENTS),
    (pa.timestamp("us", "UTC"), _MOMENTS.map(lambda one: one.replace(tzinfo=datetime.UTC))),
]
Kind = tuple[pa.DataType, st.SearchStrategy[object]]


def _nested(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    return st.one_of(
        inner.map(_lists),
        st.tuples(st.sampled_from(_PLAIN[:6]), st.integers(1, 3)).map(lambda one: _vectors(*one)),
        inner.map(_maps),
        st.lists(inner, min_size=1, max_size=3).map(_structs),
    )


def _lists(item: Kind) -> Kind:
    return pa.list_(item[0]), st.lists(st.none() | item[1], max_size=3)


def _vectors(item: Kind, size: int) -> Kind:
    return pa.list_(item[0], size), st.lists(item[1], min_size=size, max_size=size)


def _maps(item: Kind) -> Kind:
    held = st.dictionaries(st.sampled_from("abc"), st.none() | item[1], max_size=2)
    return pa.map_(pa.string(), item[0]), held.map(lambda one: [*one.items()])


def _structs(parts: list[Kind]) -> Kind:
    names = [f"part{place}" for place in range(len(parts))]
    kind = pa.struct([(name, part[0]) for name, part in zip(names, parts, strict=True)])
    held = {name: st.none() | part[1] for name, part in zip(names, parts, strict=True)}
    return kind, st.fixed_dictionaries(held)


_KINDS = _nested(st.recursive(st.sampled_from(_PLAIN), _nested, max_leaves=3))


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A few rows of a few nested columns, with many nulls, and often nothing else."""
    size = draw(st.integers(2, 6))
    columns = {"row": pa.array(range(size))}
    for place in range(draw(st.integers(2, 5))):
        kind, values = draw(_KINDS)
        held = draw(st.sampled_from([st.none() | values, st.none()]))
        column = draw(st.lists(held, min_size=size, max_size=size))
        columns[f"column{place}"] = pa.array(column, kind)
    return pa.table(columns)


@settings(max_examples=settings().max_examples // 4)  # each is three jobs
@given(table=tables(), rows_per_file=st.sampled_from([1, 2, 100]))
def test_a_table_comes_out_as_it_went_in(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    table: pa.Table,
    rows_per_file: int,
) -> None:
    """In batches of a row or of all, through the JVM and through Python workers."""
    folder = tmp_path_factory.mktemp("any")
    place, whole, parted = (Place(str(folder / name)) for name in ("table", "whole", "parted"))
    made(table, Path(place.uri), rows_per_file)
    run = LanceRun.open({"table": place.uri, "whole": whole.uri}, spark=spark)
    assert rows(table) == rows(run.read("table").coalesce(1).toArrow())

    for other in (whole, parted):
        lance.write_dataset(table.schema.empty_table(), other.uri)
    run.write(run.read("table"), "whole")
    assert rows(table) == rows(whole.open().to_table())
    register_both(spark, {})
    read = spark.read.format(IN_PYTHON).load(place.uri).coalesce(1)
    read.write.format(IN_PYTHON).mode("append").option("max_rows_per_file", 2).save(parted.uri)
    assert rows(table) == rows(parted.open().to_table())


def made(table: pa.Table, path: Path, rows_per_file: int) -> None:
    """Write it with pylance, which has tables that it does not take itself."""
    try:
        lance.write_dataset(table, path, max_rows_per_file=rows_per_file)
        there = lance.dataset(path).to_table()
    except OSError:
        reject()
    if rows(there) != rows(table):
        reject()
