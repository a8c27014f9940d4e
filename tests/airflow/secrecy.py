"""Looking for secrets in everything that Airflow keeps and in everything that a machine shows."""

from __future__ import annotations

import base64
import contextlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.airflow.processes import all_processes, command_line

PAUSE = 0.05


def spellings(mark: str) -> set[bytes]:
    """A mark as it is, and as it looks inside of base64 wherever it starts there."""
    raw = mark.encode()
    shifted = (base64.b64encode(b"\0" * shift + raw)[4 if shift else 0 : -4] for shift in range(3))
    return {raw, *shifted}


def marked_files(folder: Path, marks: Iterable[str]) -> list[str]:
    """The files below a folder that hold a mark: logs, the database, whatever is there."""
    wanted = {mark: spellings(mark) for mark in marks}
    found = []
    for path in sorted(folder.rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        found += [
            f"{path.relative_to(folder)}: {mark[:4]}..."
            for mark, forms in wanted.items()
            if any(form in data for form in forms)
        ]
    return found


def marked_cells(database: Path, marks: Iterable[str]) -> list[str]:
    """The tables and columns that hold a mark; says where, which a search of bytes cannot."""
    wanted = [form for mark in marks for form in spellings(mark)]
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        names = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        return [
            f"{name}.{column}"
            for name in names
            for column, value in _cells(connection, name)
            if any(form in value for form in wanted)
        ]


def _cells(connection: sqlite3.Connection, table: str) -> Iterator[tuple[str, bytes]]:
    cursor = connection.execute(f'SELECT * FROM "{table}"')
    columns = [description[0] for description in cursor.description]
    for row in cursor:
        for column, value in zip(columns, row, strict=True):
            if isinstance(value, str | bytes):
                yield column, value.encode() if isinstance(value, str) else value


@dataclass
class Onlooker:
    """Somebody who runs `ps` all the time."""

    marks: tuple[str, ...]
    seen: set[int] = field(default_factory=set)
    found: set[str] = field(default_factory=set)

    def look(self) -> None:
        for process in all_processes():
            line = command_line(process.pid)
            self.seen.add(process.pid)
            if any(mark in line for mark in self.marks):
                self.found.add(line)


@contextlib.contextmanager
def onlooker(*marks: str) -> Iterator[Onlooker]:
    """Read every process's command line in a thread for as long as this lasts."""
    one, over = Onlooker(marks), threading.Event()

    def watch() -> None:
        while not over.wait(PAUSE):
            one.look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield one
    finally:
        over.set()
        thread.join()
