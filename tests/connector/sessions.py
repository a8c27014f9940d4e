"""Spark 3.5 with the JVM connector, whose jar Spark fetches by its coordinate."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPOSITORY = Path(__file__).parents[2]
PACKAGE = "org.lance:lance-spark-3.5_2.12:0.4.0"


def connector_session(**settings: str) -> SparkSession:
    """A local session; the jars of the first one are kept for all that follow."""
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("tests")
    usual = {
        "spark.driver.memory": "1g",
        "spark.jars.ivy": str(REPOSITORY / "build" / "connector" / "ivy"),
        "spark.jars.packages": PACKAGE,
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(REPOSITORY / "build" / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for key, value in {**usual, **settings}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


if __name__ == "__main__":  # so that the jars are there before they are needed
    connector_session().stop()
