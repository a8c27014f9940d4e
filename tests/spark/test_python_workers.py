"""Sessions whose JVM is out of reach, or takes none of our classes: Python workers do it all."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.spark.conftest import REPOSITORY
from tests.tables import Place

pytestmark = pytest.mark.spark

_CONNECTED = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote("local[1]").getOrCreate()
"""
_REFUSED = """
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from airflow_provider_lancerefs.spark.jvm import telling

def refuse(context):
    raise Py4JError("no such compiler")

telling.java_side = refuse
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
"""
_WORK = """
import sys
from airflow_provider_lancerefs.spark import LanceRun

run = LanceRun.open({"t": sys.argv[1]}, spark=spark)
run.write(spark.sql("select 4L n"), "t")
run.merge(spark.sql("select explode(array(4L, 5L)) n").where("n > 3"), "t", on=["n"])
frame = run.read("t")
frame.where("n > 0").explain()
print(sorted(row.n for row in frame.collect()))
spark.stop()
"""


def test_spark_connect_has_the_data_source(spark_environment: None, local_place: Place) -> None:
    """There is no JVM within reach; rows are appended, read and merged all the same."""
    said = in_python_workers(_CONNECTED, local_place)
    assert "do not take our classes" not in said


def test_a_jvm_that_does_not_take_our_classes(spark_environment: None, local_place: Place) -> None:
    """Said once, and everything works. The failure is made up: no Spark at hand has it."""
    said = in_python_workers(_REFUSED, local_place)
    assert 1 == said.count("This Spark does not take our classes (no such compiler)")


def in_python_workers(session: str, place: Place) -> str:
    """Append, read and merge in a session of that kind; what it said."""
    place.create()
    ended = subprocess.run(
        [sys.executable, "-c", session + _WORK, place.uri],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert "[1, 2, 3, 4, 5]" in ended.stdout, ended.stdout
    assert "(Python)" in ended.stdout, ended.stdout
    assert [1, 2, 3, 4, 5] == place.values()
    return ended.stdout
