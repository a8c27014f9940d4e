"""The handle of a job: named datasets, each on its run's branch."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from pyspark.sql.functions import lit

from airflow_provider_lancerefs.refstore import (
    ConflictError,
    InvalidInputError,
    RefNotFoundError,
)
from airflow_provider_lancerefs.spark import LanceRun
from airflow_provider_lancerefs.spark.engines import SourceEngine
from airflow_provider_lancerefs.spark.fitting import _RESERVED
from airflow_provider_lancerefs.spark.landings import new_attempt
from airflow_provider_lancerefs.spark.ordering import RUN_CONF, BranchOf, Order
from tests.spark import every_type
from tests.spark.test_committing import orphans
from tests.spark.test_source import numbers, rows
from tests.tables import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

Made = Callable[[list[tuple[object, ...]], str], "DataFrame"]


@pytest.fixture
def orders(place: Place) -> Place:
    """A table of 1, 2, 3 with a branch 'run'."""
    place.create().store().create_branch("run")
    return place


@pytest.fixture
def by_hand(spark: SparkSession, orders: Place) -> LanceRun:
    """The handle that a script run by hand opens."""
    return LanceRun.open({"orders": orders.uri}, "run", orders.options, spark)


def frame(spark: SparkSession, *values: int) -> DataFrame:
    return spark.createDataFrame([(one,) for one in values], "n long")


def ordered(place: Place, write_id: str | None = None) -> Order:
    """What a submitter says of the branch 'run'."""
    life = place.store().branch("run").life
    return Order({"orders": BranchOf(place.uri, "run", life)}, write_id or uuid.uuid4().hex)


@pytest.fixture
def submit(spark: SparkSession) -> Iterator[object]:
    """Puts an order where the operator puts it."""
    yield lambda order: spark.conf.set(RUN_CONF, order.to_json())
    spark.conf.unset(RUN_CONF)


class TestByHand:
    """A script that names dataset and branch itself."""

    def test_it_reads_and_writes_the_branch(
        self, spark: SparkSession, orders: Place, by_hand: LanceRun
    ) -> None:
        """Append, overwrite, and the version that each of them made."""
        assert "branch:run@1" == by_hand.revision("orders")
        first = by_hand.write(frame(spark, 4), "orders")
        assert [1, 2, 3, 4] == numbers(by_hand.read("orders"))
        assert first == by_hand.revision("orders")
        by_hand.write(frame(spark, 9), "orders", mode="overwrite")

        assert [9] == numbers(by_hand.read("orders", columns=["n"]))
        assert [1, 2, 3] == orders.values()

    def test_other_sessions_of_the_application_have_it_too(
        self, spark: SparkSession, orders: Place, by_hand: LanceRun
    ) -> None:
        """Its data source as well, although the active session has one of that name."""
        other = spark.newSession()
        run = LanceRun.open({"orders": orders.uri}, "run", orders.options, other)
        run.write(frame(other, 4), "orders")
        by_hand.write(run.read("orders").where("n = 4").selectExpr("n + 1 n"), "orders")

        assert [1, 2, 3, 4, 5] == numbers(run.read("orders"))
        source = other.read.format("lancerefs").option("branch", "run").load(orders.uri)
        assert [1, 2, 3, 4, 5] == numbers(source)

    def test_a_dataset_goes_by_its_own_name(self, spark: SparkSession, local_place: Place) -> None:
        """The last part of its URI, without the usual ending."""
        made = Place(f"{local_place.uri}.lance").create()

        assert [1, 2, 3] == numbers(LanceRun.open(made.uri, spark=spark).read("table"))

    def test_main_may_not_be_there_yet(self, spark: SparkSession, local_place: Place) -> None:
        """The first write makes the table."""
        run = LanceRun.open({"new": local_place.uri}, spark=spark)

        assert "main@1" == run.write(frame(spark, 1), "new")

    def test_wrong_calls_are_told(self, spark: SparkSession, by_hand: LanceRun) -> None:
        """Typed errors, of whichever process noticed."""
        months = spark.sql("select 1L n, interval '1' month v")
        for call, said in (
            (lambda: by_hand.read("nope"), "no dataset 'nope'; it has orders"),
            (lambda: by_hand.read("orders", columns=["m"]), "no column 'm'"),
            (lambda: by_hand.write(frame(spark, 1), "orders", mode="replace"), "'replace'"),
            (lambda: by_hand.write(spark.sql("select 'x' n"), "orders"), "has to be bigint"),
            (lambda: by_hand.read("orders", columns="long"), "no column 'long'"),
            (lambda: by_hand.write(spark.sql("select 1 n, 2 n"), "orders"), "called 'n'"),
            (lambda: by_hand.write(spark.range(1).select(), "orders"), "no columns"),
            (lambda: by_hand.write(spark.sql("select 1 `a.b`"), "orders"), "'a.b', in which"),
            (lambda: by_hand.merge(frame(spark, 1), "orders", on=["m"]), r"no \['m'\]"),
            (lambda: by_hand.merge(frame(spark, 1), "orders", on=[]), "Name columns"),
            (lambda: by_hand.merge(months, "orders", on="n"), r"v \(interval month\) is not"),
            (lambda: by_hand.read("orders", columns=["n", "n"]), "read once: 'n' is not"),
        ):
            with pytest.raises(InvalidInputError, match=said):
                call()

    @pytest.mark.parametrize("name", sorted(_RESERVED))
    def test_a_column_of_a_name_of_lance_s_is_refused(
        self, spark: SparkSession, by_hand: LanceRun, local_place: Place, name: str
    ) -> None:
        """And not left out without a word."""
        marked = frame(spark, 1).withColumn(name, lit(7))
        new = LanceRun.open({"new": f"{local_place.uri}/new"}, spark=spark)
        for run, dataset in ((by_hand, "orders"), (new, "new")):
            with pytest.raises(InvalidInputError, match=f"called '{name}', as Lance"):
                run.write(marked, dataset)
        with pytest.raises(OSError, match="reserved name"):
            lance.write_dataset(pa.table({name: [1]}), f"{local_place.uri}/pylance")

    def test_a_branch_that_is_not_there_is_told(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """At once, and not by the first read."""
        with pytest.raises(RefNotFoundError, match="no branch 'nope'"):
            LanceRun.open(local_place.create().uri, "nope", spark=spark)

    def test_a_published_branch_takes_no_write(
        self, spark: SparkSession, orders: Place, by_hand: LanceRun
    ) -> None:
        """It would never be published."""
        by_hand.write(frame(spark, 4), "orders")
        orders.store().publish("run")

        with pytest.raises(ConflictError, match="published"):
            by_hand.write(frame(spark, 5), "orders")


class TestSubmitted:
    """A job that was told by the configuration."""

    def test_a_job_that_runs_again_writes_once(
        self, spark: SparkSession, orders: Place, submit: object
    ) -> None:
        """The same order again, as a retry has it: both writes are found, and neither is made.

        What a driver left that died once it had committed is removed.
        """
        order = ordered(orders, "w")
        submit(order)
        for attempt in range(2):
            forget()
            if attempt:
                left = new_attempt("run", orders.store().branch("run").life, "w/orders/1")
                orders.store()._dataset.storage.put_new(f"data/{left}-0.lance", b"")
            run = LanceRun(spark, order, {orders.uri: orders.options})
            written = [run.write(frame(spark, one), "orders") for one in (4, 5)]
            assert ["branch:run@3", "branch:run@5"] == written

        assert [1, 2, 3, 4, 5] == numbers(run.read("orders"))
        assert set() == orphans(orders)

    def test_handles_of_one_job_do_not_repeat_each_other(
        self, spark: SparkSession, local_place: Place, submit: object
    ) -> None:
        """Two calls of `current` are one run: their writes are different ones."""
        local_place.create().store().create_branch("run")
        submit(ordered(local_place))
        for value in (4, 5):
            LanceRun.current(spark).write(frame(spark, value), "orders")

        assert [1, 2, 3, 4, 5] == local_place.branch("run").values()

    def test_a_stream_s_batches_are_written_once_each(
        self, spark: SparkSession, orders: Place, tmp_path: Path
    ) -> None:
        """By a job that goes on with the next one, and by one that begins one again."""
        order = ordered(orders)
        arriving, broken = tmp_path / "arriving", tmp_path / "broken"
        arriving.mkdir()
        source = spark.readStream.schema("n long").json(str(arriving))
        stream = source.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))

        def write(batch: DataFrame, _: int) -> None:
            run.write(batch, "orders")
            if broken.exists():
                raise ValueError("between two writes")
            run.write(batch.selectExpr("n * 10 n"), "orders")

        for value, breaks in ((4, False), (5, True), (None, False), (6, False)):
            run = LanceRun(spark, order, {orders.uri: orders.options})
            if value:
                frame(spark, value).write.mode("append").json(str(arriving))
            broken.touch() if breaks else broken.unlink(missing_ok=True)
            query = stream.foreachBatch(write).trigger(availableNow=True).start()
            with pytest.raises(Exception, match="two writes") if breaks else nullcontext():
                query.awaitTermination()
            if value == 4:
                forget()

        assert [1, 2, 3, 4, 5, 6, 40, 50, 60] == numbers(run.read("orders"))

    def test_threads_do_not_write_to_one_dataset_at_once(
        self, spark: SparkSession, by_hand: LanceRun, tmp_path: Path
    ) -> None:
        """Which write came first a retry could not tell; the second is refused, and not lost."""
        arrived, go_on = tmp_path / "arrived", tmp_path / "go on"

        def wait(batches):  # type: ignore[no-untyped-def]
            for batch in batches:
                arrived.touch()
                while not go_on.exists():
                    time.sleep(0.05)
                yield batch

        slow = frame(spark, 4).coalesce(1).mapInArrow(wait, "n long")
        with ThreadPoolExecutor(1) as other:
            first = other.submit(by_hand.write, slow, "orders")
            try:
                while not (arrived.exists() or first.done()):
                    time.sleep(0.05)
                with pytest.raises(InvalidInputError, match="one after the other"):
                    by_hand.write(frame(spark, 5), "orders")
            finally:
                go_on.touch()
        assert "branch:run@3" == first.result()
        by_hand.write(frame(spark, 5), "orders")

        assert [1, 2, 3, 4, 5] == numbers(by_hand.read("orders"))

    def test_a_failed_write_may_be_made_again(
        self, spark: SparkSession, local_place: Place, submit: object
    ) -> None:
        """It keeps its number, so that what it may have done is found."""
        local_place.create().store().create_branch("run")
        order = ordered(local_place)
        submit(order)
        run = LanceRun.current(spark)
        with pytest.raises(InvalidInputError):
            run.write(spark.sql("select 'x' n"), "orders")
        run.write(frame(spark, 4), "orders")
        forget()
        LanceRun.current(spark).write(frame(spark, 4), "orders")

        assert [1, 2, 3, 4] == local_place.branch("run").values()

    def test_another_life_of_the_branch_is_told(
        self, spark: SparkSession, local_place: Place, submit: object
    ) -> None:
        """A job of before the clear must not write to what was made after it."""
        store = local_place.create().store()
        store.create_branch("run")
        submit(ordered(local_place))
        store.delete_branch("run")
        for _ in range(2):
            with pytest.raises(RefNotFoundError, match="clear the setup task"):
                LanceRun.current(spark)
            store.create_branch("run")

    @pytest.mark.parametrize("said", ["", "[]", "{}", '{"datasets": {"a": 1}}'])
    def test_a_broken_order_is_told(self, spark: SparkSession, submit: object, said: str) -> None:
        """By what is wrong and what to do."""
        spark.conf.set(RUN_CONF, said)
        with pytest.raises(InvalidInputError, match=RUN_CONF):
            LanceRun.current(spark)

    def test_no_order_is_told(self, spark: SparkSession) -> None:
        """A script that nobody submitted."""
        with pytest.raises(InvalidInputError, match=r"LanceRun\.open"):
            LanceRun.current(spark)


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
        self, spark: SparkSession, by_hand: LanceRun
    ) -> None:
        """Not a column that the frame has twice."""
        by_hand.merge(frame(spark, 3, 4), "orders", on=["n", "n"])
        assert [1, 2, 3, 4] == numbers(by_hand.read("orders"))

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


def forget() -> None:
    """What a new process does not know: how many writes there were."""
    from airflow_provider_lancerefs.spark import run

    run._written.clear()
