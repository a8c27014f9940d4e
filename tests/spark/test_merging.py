"""An upsert by a job: rows are matched by key, replaced and added on executors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from airflow_provider_lancerefs.refstore import InvalidInputError
from airflow_provider_lancerefs.spark import LanceRun
from airflow_provider_lancerefs.spark.engines import SourceEngine
from tests.spark import every_type
from tests.spark.test_run import frame
from tests.spark.test_source import numbers, rows
from tests.tables import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

Made = Callable[[list[tuple[object, ...]], str], "DataFrame"]


class TestMerging:
    """An upsert, matched and written by executors."""

    @pytest.fixture
    def people(self, spark: SparkSession, place: Place) -> Place:
        """Names by two keys, in fragments of four rows."""
        table = pa.table(
            {"a": [0, 0, 1, 1, 2, 2], "b": list("xyxyxy"), "name": [f"old{n}" for n in range(6)]}
        )
        lance.write_dataset(
            table, place.uri, max_rows_per_file=4, storage_options=place.options or None
        )
        place.store().create_branch("run")
        return place

    @pytest.fixture(params=["rows that are counted on", "rows of which Spark knows nothing"])
    def made(self, request: pytest.FixtureRequest, spark: SparkSession) -> Made:
        """Makes a frame, of which Spark knows that it is small, or does not know it."""

        def make(rows: list[tuple[object, ...]], schema: str) -> DataFrame:
            unknown = spark.createDataFrame(rows, schema)
            known = spark.createDataFrame(unknown.toArrow(), unknown.schema)
            return unknown if "nothing" in request.param else known

        return make

    def merged(self, place: Place) -> dict[tuple[int, str], str]:
        there = place.branch("run").open().to_table().to_pylist()
        found = {(row["a"], row["b"]): row["name"] for row in there}
        assert len(found) == len(there)
        return found

    def test_matching_rows_are_replaced_and_others_added(
        self, spark: SparkSession, people: Place, made: Made
    ) -> None:
        """Of whole fragments and of parts; made again, it changes nothing; main keeps its rows."""
        run = LanceRun.open({"people": people.uri}, "run", people.options, spark)
        new = [(0, "y", "new1"), (2, "x", "new4"), (2, "y", "new5"), (7, "x", "more")]
        frame = made(new, "a long, b string, name string")
        for _ in range(2):
            run.merge(frame, "people", on=["a", "b"])

            assert {
                (0, "x"): "old0",
                (0, "y"): "new1",
                (1, "x"): "old2",
                (1, "y"): "old3",
                (2, "x"): "new4",
                (2, "y"): "new5",
                (7, "x"): "more",
            } == self.merged(people)
        assert [f"old{n}" for n in range(6)] == people.open().to_table()["name"].to_pylist()
        published = people.store().publish("run")
        assert published.published
        assert 7 == people.open().count_rows()

    def test_a_key_with_a_null_matches_nothing(
        self, spark: SparkSession, local_place: Place, made: Made
    ) -> None:
        """It is a row of its own each time, as in SQL."""
        lance.write_dataset(pa.table({"k": [None, 1], "v": [1, 2]}), local_place.uri)
        run = LanceRun.open({"t": local_place.uri}, spark=spark)
        run.merge(made([(None, 3), (1, 4)], "k long, v long"), "t", on="k")

        there = local_place.open().to_table().to_pylist()
        assert [(None, 1), (None, 3), (1, 4)] == sorted(
            ((row["k"], row["v"]) for row in there), key=lambda row: row[1]
        )

    def test_two_rows_for_one_key_are_refused(
        self, spark: SparkSession, people: Place, made: Made
    ) -> None:
        """Which of them should stay cannot be told; nothing is merged, and no version made."""
        run = LanceRun.open({"people": people.uri}, "run", people.options, spark)
        before = run.revision("people")
        frame = made([(0, "x", n) for n in "pq"], "a long, b string, name string")
        with pytest.raises(InvalidInputError, match="one row for each key"):
            run.merge(frame, "people", on=["a", "b"])

        assert before == run.revision("people")
        assert 6 == len(self.merged(people))
        assert () == people.store().check().findings

    def test_few_rows_are_brought_to_the_driver(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """Not those that Spark knows to be many, nor those that turn out to be."""
        engine = LanceRun.open({"t": local_place.create().uri}, spark=spark)._engine
        assert isinstance(engine, SourceEngine)
        few, many = spark.range(1000), spark.range(10**9)
        exploded = few.selectExpr("explode(sequence(1, 1000)) n")

        assert engine._at_hand(few) is not few
        assert engine._at_hand(many) is many
        assert engine._at_hand(exploded) is exploded

    def test_a_key_that_is_named_twice_is_one_key(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """Not a column that the frame has twice."""
        run = LanceRun.open({"t": local_place.create().uri}, spark=spark)
        run.merge(frame(spark, 3, 4), "t", on=["n", "n"])
        assert [1, 2, 3, 4] == numbers(run.read("t"))

    def test_every_type_is_merged(self, spark: SparkSession, local_place: Place) -> None:
        """Rows that are brought to the driver and sent from there are the same ones."""
        table = every_type.table()
        other = local_place.beside("other")
        for place, missing in ((local_place, 3), (other, 1)):
            lance.write_dataset(table, place.uri)
            place.delete(f"`row` = {missing}")
        run = LanceRun.open({"t": local_place.uri, "other": other.uri}, spark=spark)
        run.merge(run.read("other"), "t", on="row")

        assert rows(table) == rows(local_place.open().to_table().sort_by("row"))

    def test_rows_that_changed_meanwhile_are_matched_again(
        self, spark: SparkSession, people: Place, tmp_path: Path
    ) -> None:
        """Somebody deletes one that was to be replaced, while the first matching goes on."""
        branch, mark = people.branch("run"), tmp_path / "changed"

        def change_once(batches):  # type: ignore[no-untyped-def]
            for batch in batches:
                if not mark.exists():
                    mark.touch()
                    branch.delete("name = 'old4'")
                yield batch

        run = LanceRun.open({"people": people.uri}, "run", people.options, spark)
        new = [(2, "x", "new4"), (2, "y", "new5")]
        frame = spark.createDataFrame(new, "a long, b string, name string").coalesce(1)
        run.merge(frame.mapInArrow(change_once, frame.schema), "people", on=["a", "b"])

        old = {(n // 2, "xy"[n % 2]): f"old{n}" for n in range(4)}
        assert {**old, (2, "x"): "new4", (2, "y"): "new5"} == self.merged(people)
        assert mark.exists()

    def test_a_table_with_stable_row_ids_keeps_them(
        self, spark: SparkSession, local_place: Place, made: Made
    ) -> None:
        """A row that is replaced is the same row to whoever knows it by its id."""
        table = pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]})
        lance.write_dataset(table, local_place.uri, enable_stable_row_ids=True)
        run = LanceRun.open({"t": local_place.uri}, spark=spark)
        run.merge(made([(2, "B"), (4, "D")], "k long, v string"), "t", on="k")

        there = local_place.open().to_table(with_row_id=True).to_pylist()
        assert {1: 0, 2: 1, 3: 2, 4: 3} == {row["k"]: row["_rowid"] for row in there}
