"""Airflow's long-lived processes, each a session of its own, so that nothing of them survives."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.airflow.configuration import Configuration
from tests.airflow.processes import members, send
from tests.airflow.waiting import until

COMMANDS = {
    "api-server": ["api-server"],
    "dag-processor": ["dag-processor"],
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
}
STOP_SECONDS = 6
MIGRATE_SECONDS = 240


def migrate(configuration: Configuration) -> None:
    """Make the database's tables."""
    done = subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"],
        env=configuration.environ(),
        cwd=configuration.home,
        capture_output=True,
        timeout=MIGRATE_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"Airflow's database was not made:\n{_tail(done.stdout + done.stderr)}")


class Components:
    """The four processes of one Airflow, and what descends from them."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def sessions(self) -> frozenset[int]:
        """The sessions by which every descendant is found."""
        return frozenset(process.pid for process in self._processes.values())

    def log(self, name: str) -> Path:
        return self._configuration.home / f"{name}.log"

    def start(self) -> None:
        environ = self._configuration.environ()
        for name, command in COMMANDS.items():
            with self.log(name).open("ab") as log:
                self._processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "airflow", *command],
                    env={**environ, **self._configuration.patience(name)},
                    cwd=self._configuration.home,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )

    def check(self) -> None:
        """Raise, with the end of its log, if a component has died."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise RuntimeError(
                    f"Airflow's {name} ended with {process.returncode}:\n"
                    f"{_tail(self.log(name).read_bytes())}"
                )

    def stop(self) -> None:
        """Ask everything to end, then kill what did not."""
        self._signal_all(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            until(lambda: not self._alive(), "the end of Airflow", STOP_SECONDS)
        self._signal_all(signal.SIGKILL)
        for process in self._processes.values():
            process.wait(STOP_SECONDS)
        until(lambda: not self._alive(), "the death of Airflow", STOP_SECONDS)

    def _alive(self) -> bool:
        return bool(members(self.sessions))

    def _signal_all(self, number: signal.Signals) -> None:
        for process in members(self.sessions):
            send(process.pid, number)


@contextlib.contextmanager
def running(configuration: Configuration) -> Iterator[Components]:
    """Start all components, and stop them and their descendants afterwards."""
    components = Components(configuration)
    try:
        components.start()
        yield components
    finally:
        components.stop()


def _tail(output: bytes) -> str:
    return output.decode(errors="replace")[-4000:]
