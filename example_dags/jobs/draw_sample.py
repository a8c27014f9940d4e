"""A Spark job: it leaves on its run's branch what a release is to hold, four orders in five."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from airflow_provider_lancerefs.spark import LanceRun


def main() -> None:
    run = LanceRun.current(SparkSession.builder.getOrCreate())
    sample = run.read("orders").where(f.crc32("order") % 5 > 0)  # the same ones at every try
    print(run.write(sample, "orders", mode="overwrite"))


if __name__ == "__main__":
    main()
