"""Which engine a job reads and writes with, and what is said where it cannot."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from airflow_provider_lancerefs.refstore import InvalidInputError
from airflow_provider_lancerefs.spark import LanceRun
from airflow_provider_lancerefs.spark.committing import commit
from airflow_provider_lancerefs.spark.ordering import (
    CONNECTOR,
    OWN,
    RUN_CONF,
    BranchOf,
    Order,
    check_engine,
)
from airflow_provider_lancerefs.spark.staging import carry_over, stage_for
from tests.spark.attempts import Attempt
from tests.tables import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
class TestWithoutTheJar:
    """A Spark that has no connector."""

    def test_the_package_is_named(self, spark: SparkSession, local_place: Place) -> None:
        """At once, by hand and in a job that was submitted so."""
        uri = local_place.create().uri
        with pytest.raises(InvalidInputError, match=r"packages='org\.lance:lance-spark-"):
            LanceRun.open(uri, spark=spark, engine=CONNECTOR)
        spark.conf.set(RUN_CONF, Order({"t": BranchOf(uri)}, "w", CONNECTOR).to_json())
        try:
            with pytest.raises(InvalidInputError, match="jar on the class path"):
                LanceRun.current(spark)
            assert LanceRun.current(spark, engine=OWN).read("t").count() == 3
        finally:
            spark.conf.unset(RUN_CONF)

    def test_an_engine_that_is_none_is_told(self, spark: SparkSession, local_place: Place) -> None:
        """With the names of those there are."""
        with pytest.raises(InvalidInputError, match="'lancerefs' or 'connector', not 'jvm'"):
            LanceRun.open(local_place.create().uri, spark=spark, engine="jvm")


class TestOrder:
    """The engine as a submitter names it."""

    def test_it_travels_with_the_order(self) -> None:
        """And one without it, of an older submitter, means our own."""
        order = Order({"t": BranchOf("/t")}, "w", CONNECTOR)
        assert Order.from_json(order.to_json()) == order
        assert Order.from_json('{"datasets": {}, "write_id": "w"}').engine == OWN

    def test_a_wrong_name_is_told(self) -> None:
        """Of whatever kind it is."""
        for name in ("", "Connector", None):
            with pytest.raises(InvalidInputError, match="An engine is"):
                check_engine(name)  # type: ignore[arg-type]


class TestStaging:
    """What another writer made, brought in; pylance writes here as the connector would."""

    def test_a_writer_of_another_file_version_is_refused(self, place: Place) -> None:
        """Nothing is committed, and nothing stays once the attempt is given up."""
        place.create(data_storage_version="2.1").store().create_branch("run")
        attempt = Attempt.at(place, "run", "w", [])
        write = attempt.prepare()
        stage = stage_for(write)
        rows = pa.table({"n": [4]})
        lance.write_dataset(
            rows,
            stage,
            mode="overwrite",
            data_storage_version="2.2",
            storage_options=place.options or None,
        )
        with pytest.raises(InvalidInputError, match=r"of version 2\.2 .* give a newer jar"):
            carry_over(write, stage)
        commit(write, [])

        assert place.branch("run").values() == [1, 2, 3]
        assert len(place.store()._dataset.storage.list("data/")) == 1

    def test_a_stage_that_nobody_comes_back_for_is_swept(self, place: Place) -> None:
        """Once it is old; what other features keep in folders below `data/` stays."""
        place.create().store().create_branch("run")
        stage_for(Attempt.at(place, "run", "w", []).prepare())
        store = place.store()
        storage = store._dataset.storage
        storage.put_new("data/somebody/s", b"x")
        before = {one.path for one in storage.list("data/")}
        store.check(repair=True)
        assert {one.path for one in storage.list("data/")} == before
        store.check(repair=True, orphan_age=timedelta(0))

        staged = {path for path in before if ".staged/" in path}
        assert staged
        assert {one.path for one in storage.list("data/")} == before - staged
        assert place.values() == [1, 2, 3]
