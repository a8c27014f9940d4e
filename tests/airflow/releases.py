"""What an older Airflow does not have, or calls otherwise; `make test-airflow` runs on one."""

from __future__ import annotations

import pytest
from airflow import __version__
from packaging.version import Version

__all__ = ["RELEASE", "DagBag", "DagSerialization", "since"]

RELEASE = Version(__version__).release[:2]

if RELEASE >= (3, 2):
    from airflow.dag_processing.dagbag import DagBag
    from airflow.serialization.serialized_objects import DagSerialization
else:
    from airflow.models.dagbag import DagBag
    from airflow.serialization.serialized_objects import SerializedDAG as DagSerialization


def since(*release: int, what: str) -> pytest.MarkDecorator:
    """Skips a test where Airflow is older than what the test is about."""
    return pytest.mark.skipif(RELEASE < release, reason=f"Airflow has no {what} yet")
