from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.airflow.gates import Gates
from tests.airflow.sharing import shared
from tests.airflow.world import World, airflow_world

DAGS = Path(__file__).parent / "dags"


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One Airflow for all tests of the session, with the DAGs of this folder."""
    start = airflow_world(tmp_path_factory.mktemp("airflow"), [DAGS])
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with shared(folder / "shared-airflow", start) as world:
        yield world


@pytest.fixture
def gates(tmp_path: Path) -> Gates:
    """The gates of one test."""
    folder = tmp_path / "gates"
    folder.mkdir()
    return Gates(folder)
