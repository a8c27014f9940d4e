from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.airflow.gates import Gates
from tests.airflow.world import World, airflow_world

DAGS = Path(__file__).parent / "dags"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep what shares an Airflow in one process, under `pytest -n 2 --dist loadgroup`."""
    for item in items:
        if {"airflow", "on_postgres"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group("airflow"))


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One Airflow for all tests of the session, with the DAGs of this folder."""
    with airflow_world(tmp_path_factory.mktemp("airflow"), [DAGS]) as world:
        yield world


@pytest.fixture
def gates(tmp_path: Path) -> Gates:
    """The gates of one test."""
    folder = tmp_path / "gates"
    folder.mkdir()
    return Gates(folder)
