"""One Airflow for all processes of a test session: whoever needs it first starts it.

The processes of `pytest -n` share a folder. In it stand a lock for starting, a note that says how
to reach what was started, and a lock that each user holds a share of. The starter stops Airflow
when it holds that lock alone; a process that comes later starts another one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from tests.airflow.world import World


@contextlib.contextmanager
def shared(folder: Path, start: AbstractContextManager[World]) -> Iterator[World]:
    """The Airflow that a process of this session has started, or `start`."""
    folder.mkdir(exist_ok=True)
    note = folder / "world.json"
    with (folder / "users").open("w") as users, contextlib.ExitStack() as stack:
        with _locked(folder / "starting"):
            fcntl.flock(users, fcntl.LOCK_SH)
            world = _noted(note)
            if world is None:
                world = stack.enter_context(start)
                stack.enter_context(_note(note, world))
                stack.callback(fcntl.flock, users, fcntl.LOCK_EX)
            else:
                stack.enter_context(contextlib.closing(world.api))
        yield world


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _note(note: Path, world: World) -> Iterator[None]:
    said = {
        "home": str(world.home),
        "url": world.url,
        "password": world.password,
        "sessions": sorted(world.sessions),
        "database": world.database,
    }
    with open(os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(said, file)
    try:
        yield
    finally:
        note.unlink()


def _noted(note: Path) -> World | None:
    if not note.exists():
        return None
    said = json.loads(note.read_text())
    return World(
        Path(said["home"]),
        said["url"],
        said["password"],
        frozenset(said["sessions"]),
        said["database"],
    )
