"""DAG files import the faces again and again: it is cheap, and loads nothing heavy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.airflow

PACKAGE = "airflow_provider_lancerefs"
REPOSITORY = Path(__file__).parents[2]
MILLISECONDS = 50
HEAVY = {"aiobotocore", "boto3", "fastapi", "lance", "pyarrow", "pyspark", "s3fs"}
TRIES = 5

# Airflow's own modules come first, for every DAG file pays for them anyway.
PROGRAM = """
import importlib, json, sys, time
import airflow.sdk, airflow.triggers.base, airflow.providers.common.compat.triggers
import airflow.providers.apache.spark.operators.spark_submit
from airflow.providers.common.compat.sdk import (
    AirflowFailException, Asset, BaseHook, BaseOperator, BaseSensorOperator, conf
)
conf.getboolean("operators", "default_deferrable", fallback=False)  # reads every provider's info
there, start = set(sys.modules), time.process_time()
for name in sys.argv[1:]:
    importlib.import_module(name)
seconds = time.process_time() - start
print(json.dumps([seconds * 1000, sorted(set(sys.modules) - there), sorted(sys.modules)]))
"""


@dataclass(frozen=True)
class Cost:
    """What an import cost over Airflow itself, and all that is loaded after it."""

    milliseconds: float
    modules: frozenset[str]
    packages: set[str]


def faces() -> list[str]:
    """Every module that a DAG file or Airflow itself may import."""
    root = REPOSITORY / PACKAGE
    alone = ["assets", "get_provider_info", "runs"]
    folders = ["hooks", "operators", "sensors", "triggers"]
    found = [path for folder in folders for path in (root / folder).glob("*.py")]
    below = [".".join(path.relative_to(root).with_suffix("").parts) for path in found]
    return [f"{PACKAGE}.{name.removesuffix('.__init__')}" for name in sorted([*alone, *below])]


def cost_of(modules: list[str], home: Path) -> Cost:
    """Import in a process of its own; what it costs is the processor's time, not the clock's."""
    environ = {**os.environ, "AIRFLOW_HOME": str(home), "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *modules],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    milliseconds, added, loaded = json.loads(done.stdout.splitlines()[-1])
    return Cost(milliseconds, frozenset(added), {name.partition(".")[0] for name in loaded})


@pytest.mark.parametrize("face", ["runs", "operators.spark", "sensors.refs", "assets"])
def test_a_face_is_cheap(face: str, tmp_path: Path) -> None:
    """Those that import the most of the others stay in the budget, at the best of some tries."""
    costs = []
    for _ in range(TRIES):
        costs.append(cost_of([f"{PACKAGE}.{face}"], tmp_path).milliseconds)
        if costs[-1] < MILLISECONDS:
            return
    pytest.fail(f"importing it takes {min(costs):.0f} ms of processor time")


def test_faces_load_nothing_heavy(tmp_path: Path) -> None:
    """All of them together load neither what reads tables nor what serves pages."""
    assert len(faces()) > 10
    cost = cost_of(faces(), tmp_path)
    assert {f"{PACKAGE}.runs", f"{PACKAGE}.triggers.refs"} <= cost.modules
    assert not cost.packages & HEAVY
    assert not {name for name in cost.modules if name.startswith("google.protobuf")}


def test_heavy_modules_would_be_seen(tmp_path: Path) -> None:
    """The measure sees what it is there for."""
    cost = cost_of(["lance"], tmp_path)
    assert {"lance", "pyarrow"} <= cost.packages & HEAVY
    assert cost.milliseconds > MILLISECONDS


def test_provider_info_stands_alone() -> None:
    """Airflow reads the provider's info before its own configuration is ready."""
    program = f"""
import sys
there = set(sys.modules)
import {PACKAGE}.get_provider_info
print(*sorted(name.partition(".")[0] for name in set(sys.modules) - there))
"""
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True
    )
    assert {*done.stdout.split()} - sys.stdlib_module_names == {PACKAGE}
