"""A Spark job: it knows what to write, and leaves it to its run where that goes."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from airflow_provider_lancerefs.spark import LanceRun


def main(day: str, rows: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    run = LanceRun.current(spark)
    orders = spark.range(int(rows)).select(
        f.concat(f.lit(f"{day}/"), f.col("id").cast("string")).alias("order"),
        f.lit(day).alias("day"),
        (f.col("id") + 10.0).alias("amount"),
    )
    print(run.write(orders, "orders"))


if __name__ == "__main__":
    main(*sys.argv[1:])
