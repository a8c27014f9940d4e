"""Jobs as drivers of their own, which a test may hold, and kill with all that they started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import sysconfig
import time
import uuid
import venv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from airflow_provider_lancerefs.hooks.job import properties_with
from airflow_provider_lancerefs.spark.ordering import RUN_CONF
from tests.airflow.processes import members, send
from tests.spark.test_kills import orphans_after_a_sweep
from tests.spark.test_run import ordered
from tests.tables import Place

JOB = Path(__file__).with_name("jobs.py")
FIRST = 100  # of the values that jobs write
SECONDS = 300
PAUSE = 0.05


@dataclass(frozen=True)
class Points:
    """Where the tasks of a job can be held; see `tests.spark.jobs`."""

    folder: Path

    def hold(self, name: str) -> None:
        (self.folder / f"{name}.held").touch()

    def release(self, name: str) -> None:
        (self.folder / f"{name}.held").unlink()

    def arrivals(self, name: str) -> int:
        """How many tasks have come there."""
        return len([*self.folder.glob(f"{name}.arrived.*")])

    def arguments(self, rows: int, parts: int, shuffled: bool = False) -> list[str]:
        """What a job is given that is to pass them."""
        kind = "shuffled" if shuffled else "as it is"
        return [str(FIRST), str(FIRST + rows), str(parts), kind, str(self.folder)]


@dataclass(frozen=True)
class Job:
    """A job for the branch 'run' of a place, which makes the same order whenever it is run."""

    conf: Mapping[str, str]
    secrets: Mapping[str, str]
    arguments: list[str]
    folder: Path

    @classmethod
    def of(cls, place: Place, conf: Mapping[str, str], arguments: list[str], folder: Path) -> Job:
        order = {
            RUN_CONF: ordered(place, "dag/run/task/-1").to_json(),
            "spark.driver.memory": "1g",
            "spark.log.level": "ERROR",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.ui.enabled": "false",
        }
        return cls({**order, **conf}, place.options, arguments, folder)

    @contextlib.contextmanager
    def running(self) -> Iterator[Driver]:
        """Submit it; what is left of it when this ends is killed.

        What it says goes to a file: Spark's Python daemon outlives a driver, and would hold a pipe.
        """
        log = self.folder / f"{uuid.uuid4().hex}.log"
        conf = [part for key, one in self.conf.items() for part in ("--conf", f"{key}={one}")]
        spark_submit = str(Path(sys.executable).with_name("spark-submit"))
        with log.open("wb") as said, properties_with(self.secrets, None) as file:
            secrets = ["--properties-file", file] if file else []
            process = subprocess.Popen(
                [spark_submit, *secrets, *conf, str(JOB), *self.arguments],
                cwd=self.folder,
                env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            driver = Driver(process, log)
            try:
                yield driver
            finally:
                driver.kill()

    def run(self) -> str:
        """Run it to its good end; what it said."""
        with self.running() as driver:
            return driver.ends()


@dataclass(frozen=True)
class Driver:
    """A driver under way."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def reaches(self, holds: Callable[[], object], what: str, pause: float = PAUSE) -> None:
        """Wait for a moment before the driver's end."""

        deadline = time.monotonic() + SECONDS
        while not holds():
            if self.process.poll() is not None:
                raise RuntimeError(f"The job ended before {what}:\n{self.said[-4000:]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"Waited {SECONDS} s for {what}:\n{self.said[-4000:]}")
            time.sleep(pause)

    def ends(self) -> str:
        """Wait for its good end."""
        if self.process.wait(SECONDS):
            raise RuntimeError(self.said[-4000:])
        return self.said

    def kill(self) -> None:
        """Kill -9 all of it; Python workers leave its process group, but not its session."""
        while alive := members({self.process.pid}):
            for one in alive:
                send(one.pid, signal.SIGKILL)
        self.process.wait(SECONDS)


def bare_programs(home: Path) -> Path:
    """Those of an environment that has all but this package, and a `spark-submit` of it."""
    venv.create(home, with_pip=False)
    there = sysconfig.get_path("purelib", vars={"base": str(home)})
    Path(there, "others.pth").write_text(sysconfig.get_path("purelib"))  # its own .pth are not read
    spark_submit = home / "bin" / "spark-submit"
    real = Path(sys.executable).with_name("spark-submit")
    spark_submit.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec {real} "$@"\n')
    spark_submit.chmod(0o755)
    return home / "bin"


def check_written_once(place: Place, branch: str, rows: int) -> None:
    """A branch has all rows of one job, main is as it was, and gets them without a byte copied."""
    assert orphans_after_a_sweep(place) == set()
    written = place.branch(branch).open().to_table()["n"]
    assert len(written) == pc.count_distinct(written).as_py() == rows + 3
    assert pc.max(written).as_py() == FIRST + rows - 1
    assert place.values() == [1, 2, 3]
    assert place.store().plan_publish(branch).bytes_to_copy == 0
    place.store().publish(branch)
    assert place.open().to_table()["n"].equals(written)
