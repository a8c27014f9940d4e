"""The processes in which each way runs, how much memory they take, and tables to write to."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import lance
import psutil

from airflow_provider_lancerefs.refstore import RefStore
from tests.bench.spark_rows import Table, schema
from tests.bench.spark_ways import BRANCH, Way

REPOSITORY = Path(__file__).parents[2]
HEAP = "2g"
CONNECTOR = "org.lance:lance-spark-3.5_2.12:0.4.0"
CONNECTOR_PYSPARK = "3.5.9"
_INTERPRETER = "LANCEREFS_BENCH_SPARK35"
_HOME = REPOSITORY / "build" / "connector"
_EVERY = 0.2  # seconds between two looks at the memory


@dataclass(frozen=True)
class Setup:
    """Which Python a way runs in, and how its Spark is set up."""

    way: Way
    python: str = sys.executable
    settings: Mapping[str, str] = field(default_factory=dict)


class NoConnectorError(RuntimeError):
    """The connector cannot be had on this machine."""


class EndedError(RuntimeError):
    """A way's process is no more."""


def connector() -> Setup:
    """The connector in the newest Spark that it is made for, whose Python is made if missing.

    The variable LANCEREFS_BENCH_SPARK35 names a Python that has that pyspark already.
    """
    python = os.environ.get(_INTERPRETER) or _new_python()
    settings = {"spark.jars.packages": CONNECTOR, "spark.jars.ivy": str(_HOME / "ivy")}
    return Setup(Way.CONNECTOR, python, settings)


def _new_python() -> str:
    python = _HOME / "venv" / "bin" / "python"
    if not (_HOME / "ready").exists():
        _run(sys.executable, "-m", "venv", "--clear", str(_HOME / "venv"))
        _run(str(python), "-m", "pip", "install", "-q", f"pyspark=={CONNECTOR_PYSPARK}")
        (_HOME / "ready").touch()
    return str(python)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise NoConnectorError(f"pyspark {CONNECTOR_PYSPARK} could not be installed: {last}")


class Worker:
    """One way in a process of its own, with a JVM and Python workers of its own."""

    def __init__(self, setup: Setup, scratch: Path) -> None:
        self.way = setup.way
        self._log = scratch / f"{setup.way.name}.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [setup.python, "-m", "tests.bench.spark_ways"],
                cwd=REPOSITORY,
                env=_environment(setup.python),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        usual = {
            "spark.driver.memory": HEAP,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.local.dir": str(scratch / "local"),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        }
        self._send({"way": setup.way, "settings": usual | dict(setup.settings)})

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        family = _family(self._process.pid)
        self._process.stdin.close()  # type: ignore[union-attr]
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait(20)
            self._process.stdout.close()  # type: ignore[union-attr]
        for one in psutil.wait_procs(family, timeout=20)[1]:
            one.kill()

    def wait(self) -> bool:
        """Until Spark is there, which is then true."""
        return self._reply() == {}

    def ask(self, order: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
        """What one task took and found, and the most memory of all processes meanwhile."""
        with _Gauge(self._process.pid) as gauge:
            self._send(order)
            reply = self._reply()
        return reply, gauge.most

    def _send(self, line: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            ended = f"The process of {self.way} ended with {self._process.wait(20)}"
            raise EndedError(f"{ended}:\n{self._log.read_text()[-4000:]}")
        reply: dict[str, Any] = json.loads(line)
        return reply


def _environment(python: str) -> dict[str, str]:
    foreign = ("AIRFLOW", "AWS", "SPARK", "PYSPARK", "PYTHONPATH")
    others = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    return {
        **others,
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONWARNINGS": "ignore",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def _family(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


class _Gauge:
    """Looks again and again at what a process and all below it hold in memory."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.most = 0

    def __enter__(self) -> _Gauge:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self.most = max(self.most, self._now())
            if self._done.wait(_EVERY):
                return

    def _now(self) -> int:
        total = 0
        for one in _family(self._pid):
            try:
                total += one.memory_full_info().pss
            except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
                continue
        return total


def build(folder: Path, way: Way, table: Table) -> str:
    """A place to write to: for Lance an empty table, with a branch where a branch is written."""
    folder.mkdir()
    uri = str(folder / "t")
    if way is not Way.PARQUET:
        lance.write_dataset(schema(table).empty_table(), uri)
    if way is Way.OURS:
        RefStore.open(uri).create_branch(BRANCH)
    return uri


def remove(uri: str) -> None:
    if uri:
        shutil.rmtree(uri, ignore_errors=True)
