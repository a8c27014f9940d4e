"""Points in a task where a test can act: the task says that it is there, and waits to be let on.

A gate is two files in a folder that the test and the task share. A test names the gates that shall
hold in the run's conf; all others are open. A gate that was opened stays open for later tries.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAUSE = 0.05
LONGEST = 120
FOLDER_KEY = "gates"
HELD_KEY = "hold"


@dataclass(frozen=True)
class Gate:
    """One point; its files stand in `folder`."""

    folder: Path
    name: str

    @property
    def _arrived(self) -> Path:
        return self.folder / f"{self.name}.arrived"

    @property
    def _opened(self) -> Path:
        return self.folder / f"{self.name}.opened"

    def pass_through(self) -> None:
        """The task's side: note who is here, and wait; a test that forgot us fails this task."""
        passing = self._arrived.with_suffix(f".{os.getpid()}")
        passing.write_text(str(os.getpid()))
        passing.replace(self._arrived)
        deadline = time.monotonic() + LONGEST
        while not self._opened.exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"Nobody opened the gate {self.name!r}")
            time.sleep(PAUSE)

    @property
    def arrived(self) -> bool:
        """Whether a task has come here since the gate was made or closed again."""
        return self._arrived.exists()

    @property
    def pid(self) -> int:
        """The process that came here last."""
        return int(self._arrived.read_text())

    def open(self) -> None:
        self._opened.touch()

    def close_again(self) -> None:
        """Hold the next task that comes, as if none had been here."""
        self._arrived.unlink(missing_ok=True)
        self._opened.unlink(missing_ok=True)


@dataclass(frozen=True)
class Gates:
    """A test's gates, all in one folder."""

    folder: Path

    def __getitem__(self, name: str) -> Gate:
        return Gate(self.folder, name)

    def holding(self, *names: str) -> dict[str, Any]:
        """The part of a run's conf that makes these gates hold."""
        return {FOLDER_KEY: str(self.folder), HELD_KEY: list(names)}


def pass_gate(conf: Mapping[str, Any], name: str) -> None:
    """For tasks: stop at a gate, if the run's conf says that it holds."""
    if name in conf.get(HELD_KEY, ()):
        Gate(Path(conf[FOLDER_KEY]), name).pass_through()
