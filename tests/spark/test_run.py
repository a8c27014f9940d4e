"""The handle of a job: named datasets, each on its run's branch."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
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
from airflow_provider_lancerefs.spark.fitting import RESERVED
from airflow_provider_lancerefs.spark.landings import new_attempt
from airflow_provider_lancerefs.spark.ordering import RUN_CONF, BranchOf, Order
from tests.spark.forgetting import forget
from tests.spark.test_committing import orphans
from tests.spark.test_source import numbers
from tests.tables import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]


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

    @pytest.mark.parametrize("name", sorted(RESERVED))
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
