from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.connector.sessions import connector_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session with the connector for all tests, where `make connector` runs them."""
    pyspark = pytest.importorskip("pyspark")
    if not pyspark.__version__.startswith("3.5."):
        pytest.skip(f"the connector's jar is one for Spark 3.5, not {pyspark.__version__}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the fork that starts the JVM, and of an old pyspark
        session = connector_session()
    yield session
    session.stop()
