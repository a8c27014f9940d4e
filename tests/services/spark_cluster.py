"""A standalone Spark cluster on loopback: one master, and two workers with room for two each.

Every process of it belongs to a session of its own, by which it is killed with all that it
started: executors, drivers and their Python workers.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.airflow.processes import Process, members, send
from tests.airflow.waiting import until

HOSTS = ("127.0.0.2", "127.0.0.3")  # two, for Spark starts no speculative twin on one's own host
MASTER_HOST = "127.0.0.1"
START_SECONDS = 240
STOP_SECONDS = 30
_URL = re.compile(r"Starting Spark master at (spark://\S+)")
_PORTS = {
    "web": re.compile(r"MasterWebUI: .* started at http://\S+:(\d+)"),
    "rest": re.compile(r"Started REST server for submitting applications on \S+ with port (\d+)"),
}


@dataclass
class Daemon:
    """The master or a worker, and all that descends from it."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def family(self) -> list[Process]:
        return members({self.process.pid})

    def said(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.search(self.log.read_text(errors="replace"))
        return found[1] if found else None

    def kill(self) -> None:
        """Kill -9 it and everything that it started."""

        def dead() -> bool:
            for one in self.family:
                send(one.pid, signal.SIGKILL)
            return not self.family

        until(dead, f"the death of {self.log.stem}", STOP_SECONDS)
        self.process.wait(STOP_SECONDS)


@dataclass
class SparkCluster:
    """A running cluster: where to submit to, and its workers, to kill one of."""

    folder: Path
    environment: Mapping[str, str] = field(repr=False)
    daemons: dict[str, Daemon] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where jobs are submitted."""
        return str(self.daemons["master"].said(_URL))

    @property
    def rest_port(self) -> int:
        """Where the state of a driver in the cluster is asked for."""
        return int(str(self.daemons["master"].said(_PORTS["rest"])))

    @property
    def workers(self) -> list[Daemon]:
        return [one for name, one in self.daemons.items() if name != "master"]

    @property
    def processes(self) -> list[Process]:
        """The daemons, and all drivers, executors and Python workers that they started."""
        return [process for one in self.daemons.values() for process in one.family]

    def state(self) -> dict[str, Any]:
        """What the master tells everybody."""
        port = self.daemons["master"].said(_PORTS["web"])
        with urllib.request.urlopen(f"http://{MASTER_HOST}:{port}/json/", timeout=30) as reply:
            found: dict[str, Any] = json.load(reply)
        return found

    def start(self) -> None:
        """Start what is not running, and wait until all of it is at work."""
        if "master" not in self.daemons:
            self._launch("master", ["master.Master", "--host", MASTER_HOST, "--port", "0"])
            for pattern in (_URL, *_PORTS.values()):
                self._wait_for("master", pattern)
        for number, host in enumerate(HOSTS):
            name = f"worker-{number}"
            if name not in self.daemons or self.daemons[name].process.poll() is not None:
                size = ["--cores", "2", "--memory", "1200m"]
                home = ["--work-dir", str(self.folder / f"{name}.work")]
                at = ["--host", host, "--port", "0", self.url]
                self._launch(name, ["worker.Worker", *size, *home, *at], host)
        until(self._complete, "Spark's workers", START_SECONDS)

    def stop(self) -> None:
        for one in self.daemons.values():
            one.kill()

    def _launch(self, name: str, command: list[str], host: str = MASTER_HOST) -> None:
        import pyspark

        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    str(Path(pyspark.__file__).parent / "bin" / "spark-class"),
                    f"org.apache.spark.deploy.{command[0]}",
                    *["--webui-port", "0", *command[1:]],
                ],
                cwd=self.folder,
                env=self._environ(host),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.daemons[name] = Daemon(process, log)

    def _environ(self, host: str) -> dict[str, str]:
        """Nothing of the tests' own Airflow, AWS or search path for modules is in it."""
        foreign = ("AIRFLOW", "AWS", "PYTHONPATH", "SPARK", "PYSPARK")
        inherited = {key: os.environ[key] for key in os.environ if not key.startswith(foreign)}
        options = {
            "spark.master.rest.enabled": "true",
            "spark.master.rest.host": MASTER_HOST,
            "spark.master.rest.port": "0",
            "spark.worker.cleanup.enabled": "false",
        }
        return {
            **inherited,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_JAVA_OPTS": " ".join(f"-D{key}={one}" for key, one in options.items()),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_LOCAL_IP": host,
            **self.environment,
        }

    def _wait_for(self, name: str, pattern: re.Pattern[str]) -> None:
        until(lambda: self._check() or self.daemons[name].said(pattern), name, START_SECONDS)

    def _complete(self) -> bool:
        self._check()
        alive = [one for one in self.state()["workers"] if one["state"] == "ALIVE"]
        return len(alive) == len(HOSTS)

    def _check(self) -> None:
        for one in self.daemons.values():
            if one.process.poll() is not None:
                tail = one.log.read_text(errors="replace")[-4000:]
                raise RuntimeError(f"Spark's {one.log.stem} ended:\n{tail}")


@contextlib.contextmanager
def spark_cluster(folder: Path, environment: Mapping[str, str]) -> Iterator[SparkCluster]:
    """Start a cluster whose logs and files are in a folder, and end every process of it."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = SparkCluster(folder, environment)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
