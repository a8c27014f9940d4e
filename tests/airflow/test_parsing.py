"""DAG files are read without storage, for Airflow reads them again and again."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.airflow

REPOSITORY = Path(__file__).parents[2]
PARSE_SECONDS = 120

# Reads every DAG file of a folder as Airflow does, and fails at any connection that is tried. What
# connects is replaced, for a real try could fail unseen.
PARSE = """
import socket, sys
def refuse(*arguments):
    raise AssertionError(f"a DAG file tried to reach {arguments[-1]}")
from tests.airflow.releases import DagBag
socket.socket.connect = socket.socket.connect_ex = refuse
bag = DagBag(sys.argv[1], load_op_links=False)
assert not bag.import_errors, bag.import_errors
print(*sorted(bag.dags))
"""

DAG_FILE = """
from airflow.sdk import DAG, task
from airflow_provider_lancerefs.operators.expire import LanceExpireBranchesOperator
from airflow_provider_lancerefs.runs import lance_run
from airflow_provider_lancerefs.sensors.refs import LanceTagSensor

with DAG("far_away", schedule=None):
    with lance_run("orders", tag="v1", lancerefs_conn_id="far"):
        @task
        def work(): ...
        work()
    LanceTagSensor(task_id="wait", dataset="s3://far/x", tag="v1", lancerefs_conn_id="far")
    LanceExpireBranchesOperator(task_id="sweep", dataset="orders", lancerefs_conn_id="nowhere")
"""


@pytest.fixture
def closed_port() -> Iterator[int]:
    """One at which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield int(one.getsockname()[1])


@pytest.mark.parametrize("where", ["examples", "far away"])
def test_parsing_needs_no_storage(where: str, tmp_path: Path, closed_port: int) -> None:
    """DAG files are read with the storage out of reach, and without even trying to reach it."""
    folder = REPOSITORY / "example_dags" if where == "examples" else tmp_path / "dags"
    if where == "far away":
        folder.mkdir()
        (folder / "far.py").write_text(DAG_FILE)
    extra = {"endpoint": f"http://127.0.0.1:{closed_port}"}
    far = json.dumps({"conn_type": "lancerefs", "host": "s3://far", "extra": extra})
    environ = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/airflow.db",
        "AIRFLOW_CONN_FAR": far,
        "AIRFLOW_CONN_LANCEREFS_DEFAULT": far,
        "PYTHONPATH": f"{REPOSITORY}:{folder}",
    }
    done = subprocess.run(
        [sys.executable, "-c", PARSE, str(folder)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=PARSE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    dags = done.stdout.splitlines()[-1].split()
    assert dags == ["far_away"] if where == "far away" else len(dags) >= 6
