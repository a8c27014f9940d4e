"""Rows that pass through our classes in Spark's JVM, and filters that Spark hands to them."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

from airflow_provider_lancerefs.spark import LanceRun
from airflow_provider_lancerefs.spark.jvm import serving
from tests.spark import every_type
from tests.spark.test_source import numbers, rows
from tests.tables import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

_ROWS = 40_000  # several batches, each way


def opened(spark: SparkSession, place: Place) -> LanceRun:
    """The table at a place, as `t`."""
    return LanceRun.open({"t": place.uri}, "main", place.options, spark)


def arrays() -> pa.Table:
    """Arrays of numbers: of one length and of many, null, empty, and with nulls in them."""
    random = np.random.default_rng(7)
    columns: dict[str, pa.Array] = {"n": pa.array(range(_ROWS))}
    for kind in (pa.float32(), pa.float64(), pa.int32(), pa.int64()):
        sizes = random.integers(0, 70, _ROWS)
        plain = [random.integers(-99, 99, size).tolist() for size in sizes[:1000]]
        holes: list[object] = [
            None if row % 7 == 0 else [None if item % 5 == 0 else item for item in plain[row]]
            for row in range(1000)
        ]
        columns[f"{kind}"] = pa.array((plain * (_ROWS // 1000))[:_ROWS], pa.list_(kind))
        columns[f"{kind} and nulls"] = pa.array((holes * (_ROWS // 1000))[:_ROWS], pa.list_(kind))
        vector = pa.array(np.arange(3 * _ROWS) % 1000).cast(kind)
        columns[f"vector of {kind}"] = pa.FixedSizeListArray.from_arrays(vector, 3)
    return pa.table(columns)


class TestRows:
    """What comes out and what goes in, beside pylance."""

    def test_every_type_goes_both_ways(self, spark: SparkSession, local_place: Place) -> None:
        """A value, a null, and a value again, of every type that both sides have."""
        table = every_type.table()
        lance.write_dataset(table, local_place.uri)
        run = opened(spark, local_place)
        run.write(run.read("t"), "t")

        twice = local_place.open().to_table()
        assert rows(pa.concat_tables([table, table])) == rows(twice)

    def test_arrays_of_numbers_go_both_ways(self, spark: SparkSession, local_place: Place) -> None:
        """They are copied whole, row by row, whatever is null in them."""
        table = arrays()
        lance.write_dataset(table, local_place.uri)
        other = local_place.beside("other")
        opened(spark, other).write(opened(spark, local_place).read("t"), "t")

        assert table.to_pylist() == other.open().to_table().sort_by("n").to_pylist()
        again = opened(spark, other).read("t").toArrow().sort_by("n")
        assert table.to_pylist() == again.to_pylist()

    @pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.float32(), pa.float64()])
    def test_equal_arrays_are_equal_to_spark(
        self, spark: SparkSession, local_place: Place, kind: pa.DataType
    ) -> None:
        """Whatever came before them, and whatever lies where they have a null."""
        items = np.array([1, 2, 3, 4, 1, 2, 3, 5, 6, 7, 8, 1, 2, 3, 1, 71, 1, 72])
        nulls = pa.array(items, mask=items > 70).cast(kind)
        offsets = pa.array([0, 4, 7, 11, 14, 16, 18], pa.int32())
        lists = pa.ListArray.from_arrays(offsets, nulls)
        lance.write_dataset(pa.table({"v": lists}), local_place.uri)
        frame = opened(spark, local_place).read("t").coalesce(1)

        assert 4 == frame.distinct().count()
        assert 4 == len(frame.selectExpr("collect_set(v) found").collect()[0].found)
        assert 1 + 4 + 1 + 4 == frame.alias("a").join(frame.alias("b"), "v").count()

    def test_every_type_comes_in_many_batches(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """Of which each is read into the memory of the one before; with arrays, and without."""
        table = pa.concat_tables([every_type.table()] * 3)
        lance.write_dataset(table, local_place.uri, max_rows_per_file=1)
        run = opened(spark, local_place)
        assert rows(table) == rows(run.read("t").coalesce(1).toArrow())
        for name in table.column_names[1:]:
            alone = run.read("t", ["row", name]).coalesce(1).toArrow()
            assert rows(table.select(["row", name])) == rows(alone)

    def test_columns_without_arrays_come_in_batches(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """Numbers, dates, moments and texts, with nulls and without."""
        numbers_ = pa.array(range(_ROWS))
        some = pa.array([None if n % 3 == 0 else n for n in range(_ROWS)])
        table = pa.table(
            {
                f"{kind} {name}": column.cast(kind)
                for name, column in (("all", numbers_), ("some", some))
                for kind in (pa.int64(), pa.int32(), pa.float32(), pa.float64(), pa.string())
            }
            | {
                "day": some.cast(pa.int32()).cast(pa.date32()),
                "moment": some.cast(pa.timestamp("us", "UTC")),
                "local": some.cast(pa.timestamp("us")),
            }
        )
        lance.write_dataset(table, local_place.uri)
        frame = opened(spark, local_place).read("t")

        assert "ColumnarToRow" in frame._jdf.queryExecution().toString()
        by = "int64 all"
        assert table.to_pylist() == frame.toArrow().sort_by(by).cast(table.schema).to_pylist()

    def test_no_column_but_the_number_of_rows(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """With rows deleted, with a filter, and of a table without a row."""
        local_place.create(range(100))
        local_place.delete("n % 10 = 0")
        run = opened(spark, local_place)
        assert 90 == run.read("t").count()
        assert 45 == run.read("t").where("n >= 50").count()
        empty = local_place.beside("empty")
        lance.write_dataset(pa.table({"n": pa.array([], pa.int64())}), empty.uri)
        assert 0 == opened(spark, empty).read("t").count()

    def test_a_part_of_a_struct_is_read(self, spark: SparkSession, local_place: Place) -> None:
        """Spark may ask for less than a column, of which it then finds what it asked for."""
        nested = {"s": [{"a": n, "b": {"c": f"{n}", "d": n / 2}} for n in range(4)]}
        lance.write_dataset(pa.table(nested), local_place.uri)
        frame = opened(spark, local_place).read("t").selectExpr("s.b.c c", "s.a a").where("a > 1")

        assert [("2", 2), ("3", 3)] == [tuple(row) for row in frame.collect()]

    def test_one_frame_is_used_twice(self, spark: SparkSession, local_place: Place) -> None:
        """Joined with itself, and again after somebody wrote: the version stays."""
        frame = opened(spark, local_place.create()).read("t")
        local_place.append(4)
        joined = frame.alias("a").join(frame.alias("b"), "n")

        assert [1, 2, 3] == numbers(joined)
        assert [1, 2, 3] == numbers(frame)

    def test_spark_knows_how_much_there_is(self, spark: SparkSession, local_place: Place) -> None:
        """Of the columns that a query needs, and so hands small tables to every executor."""
        vector = pa.FixedSizeListArray.from_arrays(pa.array([1.0] * 32_000, pa.float32()), 32)
        text = [f"{n}" * 50 for n in range(1000)]
        lance.write_dataset(pa.table({"n": range(1000), "v": vector, "t": text}), local_place.uri)
        local_place.delete("n = 7")
        frame = opened(spark, local_place).read("t")
        on_disk = sum(one.stat().st_size for one in Path(local_place.uri, "data").iterdir())

        for columns, size in ((["n"], 999 * 8), (["v", "n"], 999 * (32 * 4 + 8)), (["t"], on_disk)):
            plan = frame.select(columns)._jdf.queryExecution().optimizedPlan()
            known = plan.collectLeaves().apply(0).stats()
            assert (size, 999) == (known.sizeInBytes(), known.rowCount().get())
        large = spark.range(100_000).withColumnRenamed("id", "n")
        joined = large.join(frame.select("n"), "n")
        assert "BroadcastHashJoin" in joined._jdf.queryExecution().executedPlan().toString()
        assert 999 == joined.count()

    def test_large_values_go_in_small_batches(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """Forty rows of a megabyte each are not put together first."""
        frame = spark.range(40).selectExpr("id n", "repeat('x', 1000000) s")
        opened(spark, local_place).write(frame, "t")

        assert 40 == local_place.open().count_rows("length(s) = 1000000")


_PREDICATES = [
    "bool",
    "NOT bool",
    "int8 = -128",
    "int32 < 0 AND int64 IS NOT NULL",
    "int16 <=> NULL",
    "uint8 IN (255, NULL, 3)",
    "uint64 = 18446744073709551615",
    "float32 >= -1.25",
    "float64 > 1e300",
    "decimal = 12345.0000000001",
    "string LIKE 'naïve%'",
    "string LIKE '%''quoted''' OR int8 = 5",
    "string LIKE '%🌍%'",
    "date32 < DATE'1970-01-01'",
    "moment = TIMESTAMP'2024-02-29 12:00:00.123456Z'",
    "local = TIMESTAMP_NTZ'2024-02-29 12:00:00.123456'",
    "binary = X'00FF'",
    "struct.n = 7",
    "struct.inner IS NULL",
    "`row` IN (1, 3) AND NOT (`row` = 3)",
]


_YEARS = [1, 1500, 1582, 1600, 1890, 1969, 2024, 2300, 9999]


@contextlib.contextmanager
def java_time(spark: SparkSession, java8: str) -> Iterator[None]:
    """Spark tells days and moments in Java's newer kinds, or its older ones."""
    spark.conf.set("spark.sql.datetime.java8API.enabled", java8)
    yield
    spark.conf.unset("spark.sql.datetime.java8API.enabled")


class TestFilters:
    """What Spark asks of a source, in Lance's words."""

    @pytest.mark.parametrize("predicate", _PREDICATES)
    @pytest.mark.parametrize("java8", ["false", "true"])
    def test_the_same_rows_are_left(
        self, spark: SparkSession, every_type_place: Place, predicate: str, java8: str
    ) -> None:
        """As where Spark judges by itself; days and moments come in two kinds of Java's."""
        table = opened(spark, every_type_place).read("t")
        with java_time(spark, java8):
            found = [row.row for row in table.where(predicate).select("row").collect()]
        alone = table.selectExpr("row", f"({predicate}) found").collect()

        assert [row.row for row in alone if row.found] == found

    @pytest.mark.parametrize("java8", ["false", "true"])
    def test_a_day_is_the_same_day_in_every_century(
        self, spark: SparkSession, local_place: Place, java8: str
    ) -> None:
        """Java's older kinds of days and moments go by another calendar before 1582."""
        moments = [dt.datetime(year, 3, 1, 12, tzinfo=dt.UTC) for year in _YEARS]
        local = [moment.replace(tzinfo=None) for moment in moments]
        columns = {
            "day": pa.array([moment.date() for moment in moments], pa.date32()),
            "moment": pa.array(moments, pa.timestamp("us", "UTC")),
            "local": pa.array(local, pa.timestamp("us")),
        }
        lance.write_dataset(pa.table({"year": _YEARS, **columns}), local_place.uri)
        frame = opened(spark, local_place).read("t")

        with java_time(spark, java8):
            for year, moment in zip(_YEARS, local, strict=True):
                told = f"day = DATE'{moment.date()}' AND moment = TIMESTAMP'{moment}Z'"
                found = frame.where(f"{told} AND local = TIMESTAMP_NTZ'{moment}'").collect()
                assert [year] == [row.year for row in found]

    @pytest.mark.parametrize("java8", ["false", "true"])
    def test_years_that_python_does_not_have_are_left_to_spark(
        self, spark: SparkSession, every_type_place: Place, java8: str
    ) -> None:
        """Spark has them before 1 and after 9999."""
        table = opened(spark, every_type_place).read("t", ["date32", "moment"])
        with java_time(spark, java8):
            for early, late in (("-0044-03-15", "+12345-01-01"), ("-9999-01-01", "+10000-01-01")):
                for column, kind in (("date32", "DATE"), ("moment", "TIMESTAMP")):
                    told = f"{column} > {kind}'{early}' AND {column} < {kind}'{late}'"
                    assert 2 == table.where(told).count()

    def test_columns_of_odd_names(self, spark: SparkSession, local_place: Place) -> None:
        """Which Spark tells apart by quoting."""
        odd = ("b, c", "d'e", "f(g)", "ü 🌍", "select")
        columns = {name: [place * 10, place] for place, name in enumerate(odd)}
        lance.write_dataset(pa.table({"row": [1, 2], **columns}), local_place.uri)
        frame = opened(spark, local_place).read("t")

        for place, name in enumerate(odd):
            found = frame.where(f"`{name}` = {place} AND row > 1").select("row", f"`{name}`")
            assert [(2, place)] == [tuple(row) for row in found.collect()]

    def test_they_reach_lance(self, spark: SparkSession, local_place: Place) -> None:
        """Rows that a filter leaves out are not handed to Spark at all."""
        local_place.create(range(_ROWS))
        frame = opened(spark, local_place).read("t").where("n > 10 AND n <= 20 AND n <> 15")
        plan = frame._jdf.queryExecution().executedPlan()
        assert 9 == len(plan.executeCollect())
        scan = plan.collectLeaves().apply(0)
        assert 9 == scan.metrics().apply("numOutputRows").value()

    def test_what_python_has_no_name_for_is_left_to_spark(self) -> None:
        """A filter, or a value, that is none of those that can be pushed."""
        other = {"kind": "other", "text": ""}
        assert serving._filter({"name": "Or", "parts": []}) is None
        assert serving._filter({"name": "EqualTo", "column": ["n"], "parts": [other]}) is None
        assert serving._filter({"name": "In", "column": ["n"], "parts": [[other]]}) is None
        inner = {"name": "Or", "parts": []}
        assert serving._filter({"name": "Not", "parts": [inner]}) is None

    @pytest.fixture
    def every_type_place(self, local_place: Place) -> Place:
        lance.write_dataset(every_type.table(), local_place.uri)
        return local_place
