"""Our classes in Spark's JVM, and the Python process that serves them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import psutil
import pyarrow as pa
import pytest

from airflow_provider_lancerefs.spark import LanceRun, engines
from airflow_provider_lancerefs.spark.engines import SourceEngine
from airflow_provider_lancerefs.spark.jvm import serving
from airflow_provider_lancerefs.spark.jvm.engine import JvmEngine
from tests.services.seaweed import S3Server
from tests.spark import every_type
from tests.spark.conftest import REPOSITORY
from tests.spark.test_committing import orphans
from tests.spark.test_source import numbers, rows
from tests.tables import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

_ROWS = 40_000  # several batches, each way


def opened(spark: SparkSession, place: Place) -> LanceRun:
    """The table at a place, as `t`."""
    run = LanceRun.open({"t": place.uri}, "main", place.options, spark)
    assert isinstance(run._engine, JvmEngine)
    return run


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


class TestFilters:
    """What Spark asks of a source, in Lance's words."""

    @pytest.mark.parametrize("predicate", _PREDICATES)
    @pytest.mark.parametrize("java8", ["false", "true"])
    def test_the_same_rows_are_left(
        self, spark: SparkSession, every_type_place: Place, predicate: str, java8: str
    ) -> None:
        """As where Spark judges by itself; days and moments come in two kinds of Java's."""
        table = opened(spark, every_type_place).read("t")
        spark.conf.set("spark.sql.datetime.java8API.enabled", java8)
        try:
            found = [row.row for row in table.where(predicate).select("row").collect()]
        finally:
            spark.conf.unset("spark.sql.datetime.java8API.enabled")
        alone = table.selectExpr("row", f"({predicate}) found").collect()

        assert [row.row for row in alone if row.found] == found

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


class TestTrouble:
    """What does not fit, is gone, or dies."""

    def test_a_value_that_does_not_fit_fails_the_write(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """The job fails with what Python said, and leaves no row and no file."""
        lance.write_dataset(pa.table({"n": pa.array([1], pa.uint8())}), local_place.uri)
        local_place.store().create_branch("run")
        with pytest.raises(Exception, match="the column 'n'"):
            opened(spark, local_place).write(spark.sql("select cast(300 as smallint) n"), "t")

        assert [1] == local_place.values()
        assert not orphans(local_place)

    def test_a_file_that_is_gone_fails_the_read(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """In pylance's words, and never with fewer rows."""
        local_place.create(range(1000))
        frame = opened(spark, local_place).read("t")
        for file in Path(local_place.uri, "data").iterdir():
            file.unlink()
        with pytest.raises(Exception, match="Not found"):
            frame.collect()

    def test_a_process_that_was_killed_is_started_again(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """Between two reads, and between two writes."""
        local_place.create()
        run = opened(spark, local_place)
        for value in (4, 5):
            assert [*range(1, value)] == numbers(run.read("t"))
            for process in servants():
                process.kill()
                process.wait(10)
            run.write(spark.sql(f"select {value}L n"), "t")

        assert [1, 2, 3, 4, 5] == local_place.values()

    def test_a_process_that_is_killed_in_a_read_loses_no_row(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """Its tasks fail and are tried again."""
        lance.write_dataset(
            pa.table({"n": range(400_000), "v": pa.array([[1.0] * 64] * 400_000)}), local_place.uri
        )
        frame = opened(spark, local_place).read("t")

        def kill_once(batches):  # type: ignore[no-untyped-def]
            mark = Path(local_place.uri, "killed")
            for place, batch in enumerate(batches):
                if place == 1 and not mark.exists():
                    mark.touch()
                    subprocess.run(["pkill", "-9", "-f", "spark.jvm.serving"], check=False)
                yield batch

        counted = frame.mapInArrow(kill_once, frame.schema).selectExpr("count(distinct n) n")
        assert 400_000 == counted.collect()[0].n
        assert Path(local_place.uri, "killed").exists()

    def test_it_ends_with_its_jvm(self, spark_environment: None, local_place: Place) -> None:
        """However that ends: nothing of it stays, and no folder."""
        local_place.create()
        with subprocess.Popen(
            [sys.executable, "-c", _SESSION, local_place.uri],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
        ) as driver:
            assert driver.stdout is not None
            assert "3" == driver.stdout.readline().strip()
            found = servants(driver.pid)
            assert 1 == len(found)
            folder = Path(found[0].cmdline()[-1]).parent
            assert folder.exists()
            os.kill(found[0].ppid(), signal.SIGKILL)
            alive = psutil.wait_procs(found, timeout=20)[1]
            driver.kill()
        assert [] == alive
        assert not folder.exists()

    def test_an_interpreter_that_only_executors_have_plans_nothing(
        self, spark: SparkSession, local_place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Such as one that is shipped in an archive: the driver plans with its own."""
        frame_of = opened(spark, local_place.create())
        monkeypatch.setattr(spark.sparkContext, "pythonExec", "./environment/bin/python")
        frame = frame_of.read("t")
        assert 1 == frame.rdd.getNumPartitions()
        with pytest.raises(Exception, match="environment/bin/python"):
            frame.collect()

    def test_a_python_that_does_not_start_is_told(
        self, spark: SparkSession, local_place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In one sentence, which says where to look."""
        run = opened(spark, local_place.create())
        monkeypatch.setattr(spark.sparkContext, "pythonExec", "/bin/false")
        with pytest.raises(Exception, match="Python could not be started"):
            run.read("t").collect()


_SESSION = """
import sys
from pyspark.sql import SparkSession
from airflow_provider_lancerefs.spark import LanceRun

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print(LanceRun.open({"t": sys.argv[1]}).read("t").count(), flush=True)
sys.stdin.read()
"""


def servants(driver: int | None = None) -> list[psutil.Process]:
    """The processes that serve the JVM of a driver, or of this session."""
    return [
        one
        for one in psutil.Process(driver).children(recursive=True)
        if one.status() != psutil.STATUS_ZOMBIE and "spark.jvm.serving" in " ".join(one.cmdline())
    ]


class TestSecrets:
    """Credentials stay out of whatever Spark shows."""

    def test_neither_plans_nor_processes_show_one(
        self, spark: SparkSession, s3: S3Server, s3_place: Place, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """Of a table on S3, which is read and written all the same."""
        run = opened(spark, s3_place.create())
        frame = run.read("t").where("n > 1")
        frame.explain(True)
        plan = frame._jdf.queryExecution().toString()
        run.write(frame, "t")

        argv = [" ".join(one.cmdline()) for one in servants()]
        shown = plan + "".join(capfd.readouterr()) + "".join(argv)
        assert "jvm.serving" in shown
        assert s3_place.uri in shown
        assert s3.secret_key not in shown
        assert s3.access_key not in shown.replace(s3_place.uri, "")
        assert [1, 2, 2, 3, 3] == s3_place.values()


class TestWithoutJvm:
    """Where a session's JVM is out of reach, the data source does the work."""

    def test_a_jvm_that_does_not_take_our_classes(
        self,
        spark: SparkSession,
        local_place: Place,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Said once, and everything works. The failure is made up: no Spark at hand has it."""
        from py4j.protocol import Py4JError

        from airflow_provider_lancerefs.spark.jvm import engine

        def refuse(_: object) -> None:
            raise Py4JError("no such compiler")

        monkeypatch.setattr(engine, "orders", refuse)
        run = LanceRun.open({"t": local_place.create().uri}, spark=spark)
        assert isinstance(run._engine, SourceEngine)
        assert "no such compiler" in caplog.text
        works(run, spark)

    def test_a_session_without_one(
        self, spark: SparkSession, local_place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As of Spark Connect, for which the answer to one question stands in here."""
        monkeypatch.setattr(engines, "has_jvm", lambda _: False)
        run = LanceRun.open({"t": local_place.create().uri}, spark=spark)
        assert isinstance(run._engine, SourceEngine)
        works(run, spark)


def works(run: LanceRun, spark: SparkSession) -> None:
    """Append, read and merge a table of 1, 2, 3."""
    run.write(spark.sql("select 4L n"), "t")
    assert [1, 2, 3, 4] == numbers(run.read("t"))
    merged: DataFrame = spark.sql("select explode(array(4L, 5L)) n")
    run.merge(merged, "t", on=["n"])
    assert [1, 2, 3, 4, 5] == numbers(run.read("t"))
