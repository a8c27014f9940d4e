"""Jars that a service of the tests is made of, fetched by Spark as it does those of a job."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

HOST = "127.0.0.1"


def fetch(ivy: Path, packages: Iterable[str], in_spark: Iterable[str]) -> None:
    """Put packages below a folder, without those that Spark brings itself."""
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = HOST
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.jars.excludes": ",".join(in_spark),
        "spark.jars.ivy": str(ivy),
        "spark.jars.packages": ",".join(packages),
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[1]").appName("tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    builder.getOrCreate().stop()
