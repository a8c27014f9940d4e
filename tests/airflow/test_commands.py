"""`airflow lancerefs` is the console command, with datasets named as in a DAG."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.airflow.configuration import REPOSITORY
from tests.airflow.releases import since
from tests.tables import Place

pytestmark = [pytest.mark.airflow, since(3, 2, what="commands of providers")]


def test_a_dataset_is_found_through_the_connection(tmp_path: Path) -> None:
    """A name lies below the root of the connection; the exit code is the command's own."""
    place = Place(str(tmp_path / "root" / "orders")).create()
    place.store().create_branch("run/1")
    connection = {"conn_type": "lancerefs", "host": str(tmp_path / "root")}
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")},
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "AIRFLOW_CONN_ELSEWHERE": json.dumps(connection),
        "PYTHONPATH": str(REPOSITORY),
    }
    command = [sys.executable, "-m", "airflow", "lancerefs", "--lancerefs-conn-id", "elsewhere"]

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    listed = run("branch", "list", "orders", "--json")
    assert listed.returncode == 0, listed.stderr
    assert [one["name"] for one in json.loads(listed.stdout)] == ["run/1"]
    missing = run("branch", "list", "elsewhere")
    assert missing.returncode == 3
    assert "no Lance dataset" in missing.stderr
