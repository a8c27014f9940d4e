"""Processes as the kernel shows them: whose child one is, and which belong to a session.

Airflow gives each task a process group of its own, but never a session: everything that descends
from a component which was started in a new session can be found by that session's id.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from tests.airflow.waiting import until


@dataclass(frozen=True)
class Process:
    """One line of the process table."""

    pid: int
    parent: int
    session: int
    state: str

    @property
    def alive(self) -> bool:
        return self.state != "Z"


def look(pid: int) -> Process | None:
    """A process, or None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold spaces
    return Process(pid, int(fields[1]), int(fields[3]), fields[0])


def all_processes() -> list[Process]:
    """Every process that can be seen."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [process for process in map(look, pids) if process is not None]


def members(sessions: Set[int]) -> list[Process]:
    """The living processes of some sessions."""
    return [one for one in all_processes() if one.session in sessions and one.alive]


def working_in(folder: Path) -> list[Process]:
    """The living processes whose working directory is a folder, or below it."""
    return [one for one in all_processes() if one.alive and _works_in(one.pid, folder)]


def _works_in(pid: int, folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return Path(os.readlink(f"/proc/{pid}/cwd")).is_relative_to(folder)
    return False


def command_line(pid: int) -> str:
    """What `ps` shows of a process; nothing of one that is gone."""
    with contextlib.suppress(OSError):
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    return ""


def environment(pid: int) -> str:
    """A process's environment; nothing of one that is gone, or somebody else's."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    return ""


def family(*marks: str) -> list[Process]:
    """The processes whose command line holds all of some marks, and all that descend from them."""
    everyone = all_processes()
    found = [one for one in everyone if all(mark in command_line(one.pid) for mark in marks)]
    while True:
        pids = {one.pid for one in found}
        more = [one for one in everyone if one.parent in pids and one.pid not in pids]
        if not more:
            return found
        found += more


def send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def kill_task(pid: int) -> None:
    """Kill -9 the process that runs a task; its supervisor lives and notices."""
    send(pid, signal.SIGKILL)
    _until_dead(pid)


def kill_worker(pid: int) -> None:
    """Kill -9 a task and the worker above it, so that only missing heartbeats tell of its death.

    The worker first: it must not live to report how its task ended.
    """
    task = look(pid)
    if task is None:
        raise ProcessLookupError(f"The task's process {pid} is gone already")
    send(task.parent, signal.SIGKILL)
    send(pid, signal.SIGKILL)
    _until_dead(task.parent)
    _until_dead(pid)


def _until_dead(pid: int) -> None:
    def dead() -> bool:
        process = look(pid)
        return process is None or not process.alive

    until(dead, f"the death of process {pid}", 20)
