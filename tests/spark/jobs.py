"""A Spark job as a user would write it, run as a driver of its own, which somebody may kill.

Its configuration comes by stdin, for it holds credentials.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from airflow_provider_lancerefs.spark import LanceRun


def main() -> None:
    order = json.load(sys.stdin)
    builder = SparkSession.builder.appName("job")
    for key, value in order["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    frame = spark.range(0, order["rows"], 1, order["parts"]).selectExpr("id + 100 as n")
    LanceRun.current(spark).write(frame, "orders")
    print("written", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
