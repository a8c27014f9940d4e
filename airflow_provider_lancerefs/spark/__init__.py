"""The job side: a data source for Spark, and the handle by which a job finds its run's branch.

Needs no Airflow. Executors need pyspark, pyarrow and pylance alone; the driver also needs what the
ref store does. So the names below are loaded when they are asked for: an executor, which imports
modules of this package, never asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_lancerefs.spark.registering import register
    from airflow_provider_lancerefs.spark.run import LanceRun

__all__ = ["LanceRun", "register"]


def __getattr__(name: str) -> object:
    if name == "LanceRun":
        from airflow_provider_lancerefs.spark.run import LanceRun

        return LanceRun
    if name == "register":
        from airflow_provider_lancerefs.spark.registering import register

        return register
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
