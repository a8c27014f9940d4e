"""The data source on its two sides: in Spark's JVM, and in Spark's Python workers.

A session has one of them. The tests' own has a JVM, and so the other one by another name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_lancerefs.spark import register
from airflow_provider_lancerefs.spark.options import FORMAT, Storages
from airflow_provider_lancerefs.spark.source import LanceRefsSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN_JVM, IN_PYTHON = FORMAT, f"{FORMAT}_in_python"


def register_both(spark: SparkSession, storages: Storages) -> None:
    """Make both known to a session, and to both these storages."""
    register(spark, storages)
    bound = type(
        "InPython",
        (LanceRefsSource,),
        {
            "storages": storages,
            "name": classmethod(lambda _: IN_PYTHON),
            "__module__": "__main__",  # so it is pickled with all that it holds
        },
    )
    spark.dataSource.register(bound)
