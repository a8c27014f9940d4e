from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.airflow.connecting import Connect, connector
from tests.airflow.gates import Gates
from tests.airflow.postgres import postgres, programs
from tests.airflow.row import Row
from tests.airflow.sharing import shared
from tests.airflow.tables import SEED
from tests.airflow.world import World, airflow_world
from tests.services.seaweed import BUCKET, S3Server
from tests.tables import Place

# Airflow reads these when it is first imported into the process of the tests.
HOME = tempfile.mkdtemp(prefix="lancerefs-airflow-")
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
os.environ.update({"AIRFLOW_HOME": HOME, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"})

DAGS = Path(__file__).parent / "dags"


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One Airflow for all tests of the session, on PostgreSQL if that is installed."""
    start = _start(tmp_path_factory.mktemp("airflow"))
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with shared(folder / "shared-airflow", start) as world:
        yield world


@contextlib.contextmanager
def _start(home: Path) -> Iterator[World]:
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(postgres()) if programs() else None
        yield stack.enter_context(airflow_world(home, [DAGS], database=database))


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


@pytest.fixture
def rows(airflow: World, tmp_path: Path) -> Callable[[], Row]:
    """Makes datasets on local disk for runs to write to."""
    numbers = itertools.count()

    def make() -> Row:
        folder = tmp_path / f"row-{next(numbers)}"
        gates = Gates(folder / "gates")
        gates.folder.mkdir(parents=True)
        place = Place(str(folder / "orders.lance")).create(SEED)
        return Row(airflow, gates, place, place.uri)

    return make


@pytest.fixture
def row(rows: Callable[[], Row]) -> Row:
    """One of them."""
    return rows()


@pytest.fixture
def s3_row(airflow: World, gates: Gates, s3: S3Server) -> Row:
    """A dataset on S3, named by its place below the root of a connection of its own."""
    root = f"s3://{BUCKET}/{uuid.uuid4().hex}"
    conn_id = f"lancerefs_{uuid.uuid4().hex}"
    airflow.api.add_connection(
        conn_id,
        "lancerefs",
        host=root,
        login=s3.access_key,
        password=s3.secret_key,
        extra=json.dumps(
            {
                "endpoint": f"http://127.0.0.1:{s3.port}",
                "region": "us-east-1",
                "allow_http": True,
            }
        ),
    )
    place = Place(f"{root}/orders.lance", s3.storage_options()).create(SEED)
    return Row(airflow, gates, place, "orders.lance", conn_id)
