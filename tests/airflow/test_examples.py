"""Every example DAG runs as it stands, on a laptop and on S3; only the connection is changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_provider_lancerefs.refstore import RefStore
from tests.airflow.configuration import REPOSITORY
from tests.services.seaweed import BUCKET, S3Server

# The time is for a machine that is busy with something else: Spark is started four times.
pytestmark = [
    pytest.mark.airflow,
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(1800),
]

EXAMPLES = REPOSITORY / "example_dags"
SECONDS = 1500


def run_all(home: Path, connection: Mapping[str, object] | None) -> dict[str, str]:
    """How each ended, in an Airflow of embedded defaults."""
    inherited = {
        key: os.environ[key] for key in os.environ if not key.startswith(("AIRFLOW", "AWS"))
    }
    environment = {
        **inherited,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLES),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
    }
    if connection is not None:
        environment["AIRFLOW_CONN_LANCEREFS_DEFAULT"] = json.dumps(connection)
    for command in (
        ["airflow", "db", "migrate"],
        ["tests.airflow.run_examples", str(EXAMPLES)],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]
    ended: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return ended


def check_orders(ended: Mapping[str, str], store: RefStore) -> None:
    """All ended well; main has what two of them published, and a third one's branch is tagged."""
    assert len(ended) == 7
    assert {*ended.values()} == {"success"}, ended
    published = [one for one in store.log() if one.published_branch and one.step is None]
    assert [one.rows for one in published] == [203, 103]
    tags = {tag.name.partition("-")[0]: tag for tag in store.tags()}
    assert {*tags} == {"clone", "daily", "release"}
    assert store.branch_names() == [tags["daily"].branch]
    sample = store.manifest(f"tag:{tags['daily'].name}").rows
    assert 0 < sample < 203
    assert store.check(repair=False).clean


def test_on_a_laptop(tmp_path: Path) -> None:
    """With nothing but the repository: Airflow's home, sqlite, Spark on this machine."""
    ended = run_all(tmp_path, None)
    check_orders(ended, RefStore.open(tmp_path / "lance" / "orders"))


@pytest.mark.s3
def test_on_s3(tmp_path: Path, s3: S3Server) -> None:
    """The same files, and another connection."""
    options = s3.storage_options()
    root = f"s3://{BUCKET}/{tmp_path.name}"
    connection = {
        "conn_type": "lancerefs",
        "host": root,
        "login": options["aws_access_key_id"],
        "password": options["aws_secret_access_key"],
        "extra": {"endpoint": options["aws_endpoint"], "region": "us-east-1", "allow_http": True},
    }
    ended = run_all(tmp_path, connection)
    check_orders(ended, RefStore.open(f"{root}/orders", options))
