"""The ways to bring a branch's new rows into main. Importing this loads all that they need."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import warnings
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

import lance
import s3fs  # noqa: F401  # so that no call's time holds its import

from airflow_provider_lancerefs.refstore import RefStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BRANCH = "work"
LAST_OLD_FRAGMENT = 0  # of the version that the branch is forked from
NEW = "n0 >= 0"  # holds for the new rows alone


def publish(uri: str, options: Mapping[str, str]) -> int:
    """Publish the branch; how many files that copied."""
    return RefStore.open(uri, options).publish(BRANCH).files_copied


def append(uri: str, options: Mapping[str, str]) -> int:
    """Read the branch's new fragments as a stream, and append that to main.

    That is the least that can be done without publishing: nothing but what is new is read, nothing
    is held in memory, and nobody asks whether main has moved on, or has the rows already.
    """
    main = lance.dataset(uri, storage_options=dict(options))
    branch = lance.dataset(f"{uri}/tree/{BRANCH}", storage_options=dict(options))
    new = [one for one in branch.get_fragments() if one.fragment_id > LAST_OLD_FRAGMENT]
    rows = branch.scanner(fragments=new).to_reader()
    lance.write_dataset(rows, main, mode="append", storage_options=dict(options))
    return 0


def has_java() -> bool:
    """Whether there is what Spark runs on."""
    return "JAVA_HOME" in os.environ or shutil.which("java") is not None


def insert_select(uri: str, options: Mapping[str, str]) -> int:
    """INSERT INTO main SELECT the new rows FROM the branch, in one Spark on all cores."""
    from airflow_provider_lancerefs.spark import register

    spark = _spark()
    register(spark, {uri: options})
    branch = spark.read.format("lancerefs").option("branch", BRANCH).load(uri)
    branch.where(NEW).write.format("lancerefs").mode("append").save(uri)
    return 0


@cache
def _spark() -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    logging.getLogger("py4j").setLevel(logging.ERROR)
    builder = SparkSession.builder.master("local[*]").appName("bench")
    for key, value in {
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark forks to start the JVM, of which pylance warns
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
