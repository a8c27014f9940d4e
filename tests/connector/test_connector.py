"""The JVM connector as the engine: the real jar, in the Spark that it is made for."""

from __future__ import annotations

import datetime
import decimal
import json
import signal
import subprocess
import sys
import uuid
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

from airflow_provider_lancerefs.refstore import (
    ConflictError,
    InvalidInputError,
    RefNotFoundError,
)
from airflow_provider_lancerefs.spark import LanceRun, staging
from airflow_provider_lancerefs.spark.ordering import CONNECTOR, BranchOf, Order
from airflow_provider_lancerefs.spark.staging import carry_over
from airflow_provider_lancerefs.spark.writing import Write, Written
from tests.services.proxy import Fault, Request, S3Proxy
from tests.services.seaweed import BUCKET, S3Server
from tests.spark.attempts import Attempt
from tests.spark.forgetting import forget
from tests.tables import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.connector,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of an older pyspark
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # its sockets
]

REPOSITORY = Path(__file__).parents[2]
SECONDS = 240
PROBE = "_refs/lancerefs.probe"


@pytest.fixture
def orders(place: Place) -> Place:
    """A table of 1, 2, 3 with a branch 'run'."""
    place.create().store().create_branch("run")
    return place


@pytest.fixture
def by_hand(spark: SparkSession, orders: Place) -> LanceRun:
    """The handle that a script run by hand opens."""
    return LanceRun.open({"orders": orders.uri}, "run", orders.options, spark, engine=CONNECTOR)


def frame(spark: SparkSession, *values: int) -> DataFrame:
    return spark.createDataFrame([(one,) for one in values], "n long")


def numbers(df: DataFrame) -> list[int]:
    return sorted(row["n"] for row in df.collect())


def at(spark: SparkSession, place: Place) -> LanceRun:
    """The handle of main."""
    return LanceRun.open({"t": place.uri}, "main", place.options, spark, engine=CONNECTOR)


def leftovers(place: Place) -> set[str]:
    """What there is below `data/` that neither main's head nor the branch's needs."""
    reached = {file.uri for name in ("main", "branch:run") for file in place.store().files(name)}
    found = place.store()._dataset.storage.list("data/")
    return {one.path for one in found if f"{place.uri}/{one.path}" not in reached}


class TestBranch:
    """Reading and writing a run's branch."""

    def test_it_reads_and_writes_the_branch(
        self, spark: SparkSession, orders: Place, by_hand: LanceRun
    ) -> None:
        """Append, overwrite, and the version that each of them made; nothing is left aside."""
        first = by_hand.write(frame(spark, 4, 5), "orders")
        assert by_hand.revision("orders") == first == "branch:run@3"
        before = by_hand.read("orders")
        by_hand.write(frame(spark, 9), "orders", mode="overwrite")

        assert numbers(by_hand.read("orders", columns=["n"])) == [9]
        assert numbers(before) == [1, 2, 3, 4, 5]
        assert orders.values() == [1, 2, 3]
        assert orders.branch("run").values() == [9]
        files = leftovers(orders)
        assert len(files) == 2  # of the tasks of the append, which an older version shows
        assert not [one for one in files if ".staged" in one]

    def test_publishing_what_it_wrote_copies_nothing(
        self, spark: SparkSession, orders: Place, by_hand: LanceRun
    ) -> None:
        """Its files are where those of our own engine are."""
        by_hand.write(frame(spark, 4), "orders")
        plan = orders.store().plan_publish("run")
        assert (plan.bytes_to_copy, plan.difference.rows_added) == (0, 1)
        assert orders.store().publish("run").published

        assert orders.values() == [1, 2, 3, 4]
        with pytest.raises(ConflictError, match="published"):
            by_hand.write(frame(spark, 5), "orders")

    def test_it_reads_what_others_wrote(
        self, spark: SparkSession, orders: Place, by_hand: LanceRun
    ) -> None:
        """Files in the root that the branch knows by a base path, and rows that were deleted."""
        Attempt.at(orders, "run", "w", [10, 11], [12]).make()
        orders.branch("run").delete("n in (2, 11)")

        assert numbers(by_hand.read("orders")) == [1, 3, 10, 12]
        assert numbers(by_hand.read("orders").where("n > 3")) == [10, 12]

    def test_a_frame_of_no_rows_is_a_version(self, spark: SparkSession, local_place: Place) -> None:
        """And a table that is not there yet is made; both with partitions that are empty."""
        run = at(spark, local_place)
        assert run.write(frame(spark, 1).repartition(4), "t") == "main@1"
        run.write(frame(spark).repartition(2), "t")

        assert local_place.values() == [1]
        assert at(spark, local_place).read("t").count() == 1

    def test_no_key_is_seen(self, spark: SparkSession, s3_place: Place) -> None:
        """Neither in plans nor in Spark's settings; each dataset is read with its own."""
        s3_place.create()
        df = at(spark, s3_place).read("t")
        assert numbers(df) == [1, 2, 3]
        shown = df._jdf.queryExecution().toString() + str(spark.sql("SET -v").collect())
        assert s3_place.options["aws_secret_access_key"] not in shown


class TestOnce:
    """A job that runs again."""

    def test_it_finds_what_it_wrote(self, spark: SparkSession, orders: Place) -> None:
        """The order names the engine; both of its writes are found, and neither is made."""
        life = orders.store().branch("run").life
        order = Order({"orders": BranchOf(orders.uri, "run", life)}, uuid.uuid4().hex, CONNECTOR)
        for _ in range(2):
            forget()
            run = LanceRun(spark, Order.from_json(order.to_json()), {orders.uri: orders.options})
            written = [run.write(frame(spark, one), "orders") for one in (4, 5)]
            assert written == ["branch:run@3", "branch:run@5"]

        assert numbers(run.read("orders")) == [1, 2, 3, 4, 5]

    def test_a_task_that_fails_leaves_nothing(
        self, spark: SparkSession, orders: Place, by_hand: LanceRun
    ) -> None:
        """Spark's own error is raised, and the write may be made again."""
        broken = spark.range(4).selectExpr("if(id = 3, raise_error('planted'), id) n")
        with pytest.raises(Exception, match="planted"):
            by_hand.write(broken, "orders")
        assert leftovers(orders) == set()
        by_hand.write(frame(spark, 4), "orders")

        assert orders.branch("run").values() == [1, 2, 3, 4]

    def test_a_twin_that_lands_meanwhile_is_found(
        self, spark: SparkSession, orders: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another driver with the same write id takes the stage away, as that of a dead one.

        No process can be stopped right there, so the twin is run from within.
        """
        order = Order({"orders": BranchOf(orders.uri, "run")}, uuid.uuid4().hex, CONNECTOR)
        twin = Attempt.at(orders, "run", f"{order.write_id}/orders/1", [4])

        def carry_over_late(write: Write, stage: str) -> Written:
            twin.make()
            return carry_over(write, stage)

        monkeypatch.setattr(staging, "carry_over", carry_over_late)
        forget()
        run = LanceRun(spark, order, {orders.uri: orders.options})
        assert run.write(frame(spark, 4), "orders") == "branch:run@3"

        assert orders.branch("run").values() == [1, 2, 3, 4]
        assert leftovers(orders) == set()

    @pytest.mark.s3
    @pytest.mark.slow
    @pytest.mark.parametrize("done", ["the connector's commit", "a copy", "our commit"])
    def test_killed_it_writes_once(self, spark: SparkSession, s3: S3Server, done: str) -> None:
        """The driver, right after the server had done that; Airflow would start it again."""
        place = Place(f"s3://{BUCKET}/{uuid.uuid4().hex}", s3.storage_options())
        place.create().store().create_branch("run")
        order = Order({"orders": BranchOf(place.uri, "run")}, "dag/run/task/-1", CONNECTOR)
        with S3Proxy(s3.port) as proxy:
            kill_job(order, s3.storage_options(proxy.port), Killer(proxy, done))
            proxy.settle()
        assert leftovers(place)
        for _ in range(2):
            forget()
            run = LanceRun(spark, order, {place.uri: place.options})
            run.write(spark.range(10, 14, 1, 2).toDF("n"), "orders")

        assert place.branch("run").values() == [1, 2, 3, 10, 11, 12, 13]
        place.store(grace=timedelta(0)).check(repair=True, orphan_age=timedelta(0))
        assert leftovers(place) == set()


class Killer:
    """Kills a process when the server has done what it waits for, and lets it do nothing more."""

    def __init__(self, proxy: S3Proxy, what: str) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._what, self._over = what, False
        proxy.fault, proxy.passes = self._fault, self._passes

    def _fault(self, request: Request) -> Fault | None:
        return "drop request" if self._over else None

    def _passes(self, request: Request, status: int) -> bool:
        if self.process and request.method == "PUT" and status < 300 and self._is_it(request.path):
            self._over = True
            self.process.kill()
        return not self._over

    def _is_it(self, path: str) -> bool:
        folder = path.rpartition("/")[0]
        match self._what:
            case "the connector's commit":  # the one before it made the stage
                return folder.endswith(".staged/_versions") and path.endswith("13.manifest")
            case "a copy":
                return folder.endswith("/data") and "-staged-" in path
            case _:
                return folder.endswith("/tree/run/_versions") and path.endswith("12.manifest")


def kill_job(order: Order, options: dict[str, str], killer: Killer) -> None:
    """Run the job in a driver of its own, until that is killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.connector.job"],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    killer.process = process
    try:
        said = json.dumps({"run": order.to_json(), "options": options}).encode()
        output = process.communicate(said, SECONDS)[0]
    finally:
        process.kill()
    assert process.returncode == -signal.SIGKILL, output.decode(errors="replace")[-4000:]


class TestTypes:
    """What it carries, and what it is not trusted with."""

    @pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
    def test_a_round_trip(self, spark: SparkSession, local_place: Place, version: str) -> None:
        """As pylance wrote it, it comes back; pylance reads what the connector appended."""
        table = carried(nulls=version != "2.0")
        lance.write_dataset(table, local_place.uri, data_storage_version=version)
        run = at(spark, local_place)
        run.write(run.read("t"), "t")

        there = local_place.open().to_table()
        assert there.schema == table.schema
        assert there.to_pylist() == [*table.to_pylist(), *table.to_pylist()]

    @pytest.mark.parametrize(
        "column",
        [
            pa.array([1], pa.uint8()),
            pa.array([b"x"], pa.large_binary()),
            pa.array([b"x"], pa.binary(1)),
            pa.array([0], pa.timestamp("us", "Europe/Paris")),
        ],
        ids=lambda column: str(column.type),
    )
    def test_columns_that_it_cannot_write_are_told(
        self, spark: SparkSession, local_place: Place, column: pa.Array
    ) -> None:
        """It would write them as another type; the table is as it was."""
        lance.write_dataset(pa.table({"c": column}), local_place.uri)
        run = at(spark, local_place)
        with pytest.raises(InvalidInputError, match=r"cannot write to main of .*`c` should have"):
            run.write(run.read("t"), "t")

        assert local_place.open().version == 1
        assert len(local_place.store()._dataset.storage.list("data/")) == 1

    @pytest.mark.parametrize(
        ("column", "said"),
        [
            (pa.array(["x"]).dictionary_encode(), "c is int and has to be string"),
            (pa.array([2**64 - 1], pa.uint64()), "c is bigint and has to be decimal"),
            (pa.array([0], pa.time64("us")), "Unsupported arrow type Time"),
        ],
        ids=["dictionary", "uint64", "time"],
    )
    def test_columns_that_it_misreads_are_refused(
        self, spark: SparkSession, local_place: Place, column: pa.Array, said: str
    ) -> None:
        """Wrong values would be worse than none."""
        lance.write_dataset(pa.table({"c": column, "n": [7]}), local_place.uri)
        run = at(spark, local_place)
        with pytest.raises(InvalidInputError, match=said):
            run.read("t")
        if "has to be" in said:
            assert numbers(run.read("t", columns=["n"])) == [7]


class TestRefusals:
    """What is told in a sentence."""

    def test_wrong_calls(self, spark: SparkSession, by_hand: LanceRun) -> None:
        """Typed errors, as of the other engine; and merging, which only that one does."""
        for call, said in (
            (lambda: by_hand.read("orders", columns=["m"]), "no column 'm'"),
            (lambda: by_hand.write(spark.sql("select 'x' n"), "orders"), "has to be bigint"),
            (lambda: by_hand.merge(frame(spark, 1), "orders", on=["n"]), "cannot merge"),
        ):
            with pytest.raises(InvalidInputError, match=said):
                call()

    def test_a_branch_that_is_not_there(self, spark: SparkSession, local_place: Place) -> None:
        """At once, and not by the first read."""
        local_place.create()
        with pytest.raises(RefNotFoundError, match="no branch 'nope'"):
            LanceRun.open(local_place.uri, "nope", spark=spark, engine=CONNECTOR)

    def test_our_own_engine_needs_a_newer_spark(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """What a module that is missing would not say."""
        with pytest.raises(InvalidInputError, match=r"use Spark 4\.2, or the engine 'connector'"):
            LanceRun.open(local_place.create().uri, spark=spark)


def carried(*, nulls: bool) -> pa.Table:
    """A column of each type that makes the way there and back."""
    utc = datetime.UTC
    rows: dict[pa.DataType, list[Any]] = {
        pa.bool_(): [True, False],
        pa.int8(): [1, -1],
        pa.int16(): [2, -2],
        pa.int32(): [3, -3],
        pa.int64(): [4, -4],
        pa.float32(): [0.5, -0.5],
        pa.float64(): [0.25, -0.25],
        pa.string(): ["a", "ä"],
        pa.binary(): [b"a", b"\x00"],
        pa.date32(): [datetime.date(2026, 1, 1), datetime.date(1969, 1, 1)],
        pa.timestamp("us"): [datetime.datetime(2026, 1, 1, 1), datetime.datetime(1969, 1, 1)],
        pa.timestamp("us", "UTC"): [datetime.datetime(2026, 1, n, tzinfo=utc) for n in (1, 2)],
        pa.decimal128(10, 2): [decimal.Decimal("1.25"), decimal.Decimal("-1.25")],
        pa.list_(pa.int32()): [[1, 2], []],
        pa.list_(pa.float32(), 2): [[1.0, 2.0], [3.0, 4.0]],
        pa.list_(pa.struct([("a", pa.list_(pa.string()))])): [[{"a": ["x"]}], []],
        pa.struct([("a", pa.int32()), ("b", pa.list_(pa.int64()))]): [
            {"a": 1, "b": [1]},
            {"a": 2, "b": []},
        ],
    }
    missing = [None] if nulls else []
    columns = [pa.array([*values, *missing], kind) for kind, values in rows.items()]
    return pa.table(columns, names=[f"c{number}" for number in range(len(columns))])
