"""The data source in a real Spark: what goes in comes out, and only where it was meant to go."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from airflow_provider_lancerefs.spark import LanceRun
from airflow_provider_lancerefs.spark.columns import cast_batch
from tests.services.seaweed import S3Server
from tests.spark import every_type
from tests.spark.sides import IN_JVM, IN_PYTHON, register_both
from tests.tables import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]


_format = IN_JVM


@pytest.fixture(autouse=True, params=[IN_JVM, IN_PYTHON])
def side(
    request: pytest.FixtureRequest, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Each of these tests is of both sides."""
    register_both(spark, {})
    monkeypatch.setattr(sys.modules[__name__], "_format", request.param)
    return str(request.param)


def reader(spark: SparkSession, **options: object) -> DataFrameReader:
    given = {key: str(value) for key, value in options.items()}
    return spark.read.format(_format).options(**given)


def writer(df: DataFrame, mode: str = "append", **options: object) -> DataFrameWriter:
    given = {key: str(value) for key, value in options.items()}
    return df.write.format(_format).mode(mode).options(**given)


def numbers(df: DataFrame) -> list[int]:
    return sorted(row.n for row in df.collect())


@pytest.fixture
def known(spark: SparkSession, s3: S3Server, side: str, place: Place) -> Place:
    """A table of 1, 2, 3 with a branch, whose storage the session knows."""
    register_both(spark, {place.uri: place.options})
    place.create().store().create_branch("run")
    return place


class TestTypes:
    """Every type that the two share, there and back."""

    @pytest.fixture
    def table(self) -> pa.Table:
        return every_type.table()

    def test_spark_reads_and_writes_what_pylance_does(
        self, spark: SparkSession, local_place: Place, table: pa.Table
    ) -> None:
        """Rows that went through Spark are those that pylance wrote, of the same types."""
        lance.write_dataset(table, local_place.uri, data_storage_version="2.2")
        local_place.store().create_branch("run")
        frame = reader(spark).load(local_place.uri)
        writer(frame, branch="run").save(local_place.uri)

        there = local_place.branch("run").open().to_table()
        assert there.schema == table.schema
        assert rows(pa.concat_tables([table, table])) == rows(there)

    def test_spark_reads_what_spark_wrote_to_a_new_table(
        self, spark: SparkSession, local_place: Place, table: pa.Table
    ) -> None:
        """A table made of a frame has the frame's columns; vectors keep their size."""
        lance.write_dataset(table, local_place.uri, data_storage_version="2.2")
        frame = reader(spark).load(local_place.uri)
        made = local_place.beside("made")
        writer(frame).save(made.uri)
        again = reader(spark).load(made.uri)

        assert frame.schema == again.schema
        assert pa.list_(pa.float32(), 4) == made.open().schema.field("vector").type
        assert rows(frame.toArrow()) == rows(again.toArrow())

    @pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
    def test_files_are_in_the_table_s_own_format(
        self, spark: SparkSession, local_place: Place, version: str
    ) -> None:
        """An older table stays readable for whoever wrote it."""
        nested = pa.table({"n": [1], "s": [{"a": 1, "v": [1.0]}], "v": [[1, 2]]})
        lance.write_dataset(nested, local_place.uri, data_storage_version=version)
        writer(reader(spark).load(local_place.uri)).save(local_place.uri)

        files = [
            (file.file_major_version, file.file_minor_version)
            for fragment in local_place.open().get_fragments()
            for file in fragment.metadata.files
        ]
        assert 2 == len(files)
        assert 1 == len(set(files))
        assert 2 * nested.to_pylist() == local_place.open().to_table().to_pylist()

    def test_fields_are_named_by_the_table_s_own_ids(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """Columns dropped and added leave gaps, in which a file's columns have to be placed."""
        lance.write_dataset(
            pa.table({"a": [1], "b": [{"x": 1, "y": 2}], "c": ["c"]}), local_place.uri
        )
        local_place.open().drop_columns(["a"])
        local_place.open().add_columns({"d": "b.x + 1"})
        writer(reader(spark).load(local_place.uri)).save(local_place.uri)

        assert 2 * [{"b": {"x": 1, "y": 2}, "c": "c", "d": 2}] == (
            local_place.open().to_table().to_pylist()
        )

    def test_a_value_that_does_not_fit_fails_the_write(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """Nothing is cut off or rounded: the job fails, and leaves no row and no file."""
        lance.write_dataset(pa.table({"n": pa.array([1], pa.uint8())}), local_place.uri)
        before = files(local_place)
        with pytest.raises(Exception, match="'n'"):
            writer(spark.sql("select cast(300 as smallint) n")).save(local_place.uri)

        assert before == files(local_place)
        assert [1] == local_place.values()

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            (lambda item: item, lambda number: number),
            (lambda item: pa.list_(item, 1), lambda number: [number]),
            (lambda item: pa.struct([("h", pa.list_(item))]), lambda number: {"h": [number]}),
            (lambda item: pa.map_(pa.string(), item), lambda number: [("h", number)]),
        ],
        ids=["alone", "vector", "struct", "map"],
    )
    def test_a_number_too_large_for_a_half_float_is_refused(
        self, kind: Callable[[pa.DataType], pa.DataType], value: Callable[[float], object]
    ) -> None:
        """It would become infinite; what is infinite stays so."""

        def cast(number: float) -> list[object]:
            given = pa.array([value(number), None], kind(pa.float32()))
            halves = pa.schema([("n", kind(pa.float16()))])
            return cast_batch(pa.record_batch([given], ["n"]), halves)["n"].to_pylist()

        assert [value(1.0), None] == cast(1.0)
        assert [value(math.inf), None] == cast(math.inf)
        with pytest.raises(pa.ArrowInvalid, match="'n': a number is too large for a half float"):
            cast(1e5)

    @pytest.mark.parametrize("kept", [[1], [2], [1, 3], []])
    def test_nothing_but_nulls_may_be_written(
        self, spark: SparkSession, local_place: Place, table: pa.Table, kept: list[int]
    ) -> None:
        """Of an array that is empty Spark sends no buffers, which pyarrow and Lance do not survive.

        Here they are of the second row; once by the data source, once through the JVM.
        """
        lance.write_dataset(table, local_place.uri)
        other = local_place.beside("other")
        lance.write_dataset(table, other.uri)
        other.delete("true")
        read = reader(spark).load(local_place.uri)
        read = read.where(read.row.isin(kept)).coalesce(1)
        writer(read).save(other.uri)
        LanceRun.open({"t": other.uri}, spark=spark).write(read, "t")

        wanted = [row for row in rows(table) for _ in range(2) if row["row"] in kept]
        assert wanted == rows(other.open().to_table().sort_by("row"))

    def test_rows_of_a_batch_may_go_to_several_files(
        self, spark: SparkSession, local_place: Place, table: pa.Table
    ) -> None:
        """Where one is full, it is followed by another."""
        lance.write_dataset(table, local_place.uri)
        other = local_place.beside("other")
        lance.write_dataset(table, other.uri)
        other.delete("true")
        read = reader(spark).load(local_place.uri).coalesce(1)
        writer(read, max_rows_per_file=1).save(other.uri)

        assert [1, 1, 1] == [one.count_rows() for one in other.open().get_fragments()]
        assert rows(table) == rows(other.open().to_table().sort_by("row"))


class TestWhere:
    """Reads and writes go where their options say."""

    def test_a_write_is_on_its_branch_alone_until_it_is_published(
        self, spark: SparkSession, known: Place
    ) -> None:
        """On disk and on S3; publishing it then copies nothing."""
        writer(spark.sql("select 10L n"), branch="run").save(known.uri)

        assert [1, 2, 3, 10] == numbers(reader(spark, branch="run").load(known.uri))
        assert [1, 2, 3] == numbers(reader(spark).load(known.uri))
        assert 0 == known.store().plan_publish("run").bytes_to_copy
        known.store().publish("run")
        assert [1, 2, 3, 10] == numbers(reader(spark).load(known.uri))

    def test_overwrite_replaces(self, spark: SparkSession, known: Place) -> None:
        """Mode `overwrite` leaves the new rows alone on the branch, and main as it was."""
        writer(spark.sql("select 10L n"), "overwrite", branch="run").save(known.uri)

        assert [10] == numbers(reader(spark, branch="run").load(known.uri))
        assert [1, 2, 3] == numbers(reader(spark).load(known.uri))

    def test_versions_and_tags_are_read(self, spark: SparkSession, local_place: Place) -> None:
        """Any version of any branch, by number or by name."""
        local_place.create().append(4)
        local_place.store().create_branch("run")
        local_place.branch("run").append(5)
        local_place.store().create_tag("v1", "branch:run@3")

        assert [1, 2, 3] == numbers(reader(spark, version=1).load(local_place.uri))
        assert [1, 2, 3, 4] == numbers(reader(spark, branch="run", version=2).load(local_place.uri))
        assert [1, 2, 3, 4, 5] == numbers(reader(spark, tag="v1").load(local_place.uri))

    def test_a_frame_keeps_to_the_version_that_it_found(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """Whatever is written meanwhile, each run of one query reads the same rows."""
        frame = reader(spark).load(local_place.create().uri)
        assert [1, 2, 3] == numbers(frame)
        local_place.append(4)
        writer(frame).save(local_place.uri)

        assert [1, 2, 3] == numbers(frame)
        assert [1, 1, 2, 2, 3, 3, 4] == local_place.values()

    def test_a_table_that_is_not_there_is_made(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """By append and by overwrite alike; without a row too."""
        for mode in ("append", "overwrite"):
            made = local_place.beside(mode)
            writer(spark.range(2).selectExpr("id n"), mode).save(made.uri)
            assert [0, 1] == made.values()
        empty = local_place.beside("empty")
        writer(spark.range(0).selectExpr("id n")).save(empty.uri)
        assert [] == empty.values()
        assert [] == numbers(reader(spark).load(empty.uri))

    def test_empty_partitions_write_no_file(self, spark: SparkSession, local_place: Place) -> None:
        """One row in eight partitions is one file."""
        writer(spark.range(1).selectExpr("id n").repartition(8)).save(local_place.uri)

        assert 1 == len(local_place.open().get_fragments())

    def test_files_hold_no_more_rows_than_asked(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """Option `max_rows_per_file`."""
        frame = spark.range(0, 25, 1, 2).selectExpr("id n")
        writer(frame, max_rows_per_file=10).save(local_place.uri)

        sizes = [one.physical_rows for one in local_place.open().get_fragments()]
        assert [2, 3, 10, 10] == sorted(sizes)

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"branch": "nope"}, "no branch 'nope'"),
            ({"tag": "nope"}, "no tag 'nope'"),
            ({"version": 99}, "main@99"),
            ({"version": "new"}, "whole number above 0"),
            ({"tag": "v", "branch": "run"}, "'tag', or 'branch' and 'version'"),
            ({"columns": "n,m"}, "has no column 'm'; its columns are n"),
            ({"branchy": "run"}, "did you mean 'branch'"),
            ({"aws_secret": "hush", "secret": "hush"}, "'secret' is neither"),
        ],
    )
    def test_a_wrong_option_is_told(
        self, spark: SparkSession, local_place: Place, options: dict[str, object], said: str
    ) -> None:
        """One sentence, before anything runs, and without a value that may be a secret."""
        with pytest.raises(Exception, match=said) as caught:
            reader(spark, **options).load(local_place.create().uri)
        assert "hush" not in str(caught.value)

    def test_a_frame_that_does_not_fit_is_told_column_by_column(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """All differences at once, nested ones by their path, and nothing is written."""
        lance.write_dataset(
            pa.table({"n": [1], "s": [{"a": 1, "b": "x"}], "v": [[1.0]]}), local_place.uri
        )
        frame = spark.sql("select 'x' n, named_struct('a', 1L, 'c', 2) s, 1 extra")
        with pytest.raises(Exception, match="does not fit") as caught:
            writer(frame).save(local_place.uri)

        for difference in (
            "n is string and has to be bigint",
            "s.b (string) is missing",
            "s.c (int) is not a column of the table",
            "v (array<double>) is missing",
            "extra (int) is not a column of the table",
        ):
            assert difference in str(caught.value)
        assert 1 == local_place.open().version

    def test_smaller_numbers_fit(self, spark: SparkSession, local_place: Place) -> None:
        """An int goes where a long is meant, and columns go by name."""
        lance.write_dataset(pa.table({"n": [1], "d": [0.5]}), local_place.uri)
        writer(spark.sql("select float(1.5) d, tinyint(2) n")).save(local_place.uri)

        assert [{"n": 1, "d": 0.5}, {"n": 2, "d": 1.5}] == local_place.open().to_table().to_pylist()


class TestParts:
    """A read is cut by rows, and filters go along."""

    @pytest.fixture
    def big(self, local_place: Place) -> Place:
        """A large fragment with rows deleted, and ten small ones."""
        local_place.create(range(1000))
        for start in range(1000, 1100, 10):
            local_place.append(*range(start, start + 10))
        local_place.delete("n % 7 = 0")
        return local_place

    def test_large_fragments_are_split_and_small_ones_grouped(
        self, spark: SparkSession, big: Place
    ) -> None:
        """Every row is read once, in parts of about the size that was asked for."""
        frame = reader(spark, rows_per_partition=300).load(big.uri)
        sizes = [len(part) for part in frame.rdd.glom().collect()]

        assert [n for n in range(1100) if n % 7] == numbers(frame)
        assert 4 == len(sizes)
        assert max(sizes) <= 300

    @pytest.mark.parametrize("stable", [False, True])
    def test_filters_see_every_part_once(self, local_place: Place, stable: bool) -> None:
        """With row ids of any kind, and rows deleted; Lance hands out no others."""
        from pyspark.sql.datasource import GreaterThanOrEqual, LessThan

        from airflow_provider_lancerefs.spark import reading
        from airflow_provider_lancerefs.spark.filters import pushed
        from airflow_provider_lancerefs.spark.options import read_options
        from airflow_provider_lancerefs.spark.snapshots import take_snapshot

        local_place.create(range(1000), enable_stable_row_ids=stable)
        local_place.delete("n % 7 = 0")
        asked = {"path": local_place.uri, "rows_per_partition": "150"}
        taken, _ = take_snapshot(read_options(asked, {}))
        columns = taken.open().schema
        sql = pushed([GreaterThanOrEqual(("n",), 100), LessThan(("n",), 700)], columns)
        parts = [*reading.parts(taken, sql)]
        batches = [one for part in parts for one in reading.rows(taken, columns, part, sql)]

        assert 7 == len(parts)
        found = pa.Table.from_batches(batches)["n"].to_pylist()
        assert [n for n in range(100, 700) if n % 7] == sorted(found)

    def test_filters_are_those_of_their_own_query(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """Of several queries of one frame, and of several of its uses in one query."""
        frame = reader(spark).load(local_place.create(range(10)).uri)
        assert [3] == numbers(frame.where("n = 3"))
        assert 10 == frame.count()
        assert [3, 5] == numbers(frame.where("n = 3 or n = 5"))
        assert [3, 4] == numbers(frame.where("n = 4").union(frame.where("n = 3")))
        assert 10 == frame.crossJoin(frame.where("n = 3")).count()

    def test_columns_and_batches_are_as_asked(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """Only those columns, in that order, in batches of that size."""
        lance.write_dataset(
            pa.table({"a": range(10), "b, c": range(10), "d": range(10)}), local_place.uri
        )
        frame = reader(spark, columns=json.dumps(["d", "b, c"]), batch_size=4).load(local_place.uri)

        assert ["d", "b, c"] == frame.columns
        sizes = frame.mapInArrow(_sizes, "rows long").collect()
        assert 10 == sum(row.rows for row in sizes)

    def test_large_rows_come_in_small_batches(self, local_place: Place) -> None:
        """As images and long vectors are: a batch of many would not fit into an executor."""
        from airflow_provider_lancerefs.spark.options import read_options
        from airflow_provider_lancerefs.spark.reading import SnapshotReader
        from airflow_provider_lancerefs.spark.snapshots import take_snapshot

        image = b"x" * 1_000_000
        lance.write_dataset(pa.table({"n": range(100), "image": [image] * 100}), local_place.uri)
        source = SnapshotReader(*take_snapshot(read_options({"path": local_place.uri}, {})))
        batches = [batch for part in source.partitions() for batch in source.read(part)]

        assert [*range(100)] == [n for batch in batches for n in batch["n"].to_pylist()]
        assert 20_000_000 > max(batch.nbytes for batch in batches)


class TestSecrets:
    """Credentials stay out of whatever Spark shows."""

    def test_plans_and_configuration_show_none(
        self, spark: SparkSession, s3: S3Server, s3_place: Place, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """Neither registered storages nor explicit options are in a plan or a print-out."""
        s3_place.create()
        frame = reader(spark, **s3_place.options).load(s3_place.uri).where("n > 1")
        frame.explain(True)
        plan = frame._jdf.queryExecution().toString()
        writer(frame, **s3_place.options).save(s3_place.uri)

        shown = plan + "".join(capfd.readouterr())
        assert "lancerefs" in shown
        assert s3.secret_key not in shown
        assert s3.access_key not in shown.replace(s3_place.uri, "")
        assert [1, 2, 2, 3, 3] == s3_place.values()


def _sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for one in batches:
        yield pa.record_batch([pa.array([one.num_rows], pa.int64())], ["rows"])


def rows(table: pa.Table) -> list[dict[str, object]]:
    """Rows in one order, with values as Python has them, times in one unit and zone."""
    return sorted(map(_plain, table.to_pylist()), key=lambda row: str(row["row"]))


def _plain(value: object) -> object:
    import datetime

    match value:
        case dict():
            return {key: _plain(one) for key, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case datetime.datetime() if value.tzinfo is not None:
            return value.astimezone(datetime.UTC).replace(tzinfo=datetime.UTC)
    return value


def files(place: Place) -> list[str]:
    return sorted(entry.path for entry in place.store()._dataset.storage.list("data/"))
