from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def spark_environment() -> Iterator[None]:
    """Python workers of Spark are this Python, and find this repository."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(REPOSITORY), *sys.path[1:2]]))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        yield


@pytest.fixture(scope="session")
def spark(
    spark_environment: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """One local Spark for the session: two cores, and three more tries for a failed task."""
    from pyspark.sql import SparkSession

    from airflow_provider_lancerefs.spark import register

    builder = SparkSession.builder.master("local[2,4]").appName("tests")
    settings = {
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark forks to start the JVM, of which pylance warns
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    register(session)
    yield session
    session.stop()
