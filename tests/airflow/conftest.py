from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.airflow.connecting import Connect, connector
from tests.airflow.gates import Gates
from tests.airflow.sharing import shared
from tests.airflow.world import World, airflow_world

# Airflow reads these when it is first imported into the process of the tests.
HOME = tempfile.mkdtemp(prefix="lancerefs-airflow-")
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
os.environ.update({"AIRFLOW_HOME": HOME, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"})

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


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Makes connections."""
    return connector(monkeypatch)
