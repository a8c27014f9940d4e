"""A Spark job: it puts a day's orders where its run has them, and need not know where that is."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from airflow_provider_lancerefs.spark import LanceRun


def main(day: str, count: str, wrong: str = "0", dies: str = "") -> None:
    spark = SparkSession.builder.getOrCreate()
    run = LanceRun.current(spark)
    number = f.col("id")
    orders = spark.range(int(count)).select(
        f.concat(f.lit(f"{day}/"), number.cast("string")).alias("order"),
        f.lit(day).alias("day"),
        f.when(number < int(wrong), -1.0).otherwise(number + 10.0).alias("amount"),
    )
    print(run.write(orders, "orders"))  # once: a retry finds what an earlier try wrote
    if dies:  # as `make demo` asks, to show a retry
        sys.exit("This try dies after it has written.")


if __name__ == "__main__":
    main(*sys.argv[1:])
