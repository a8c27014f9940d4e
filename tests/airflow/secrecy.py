"""Looking for secrets in everything that Airflow keeps and in everything that a machine shows."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection, create_engine, inspect, text

from tests.airflow.processes import all_processes, command_line

PAUSE = 0.1


class Marks:
    """Values to look for, as they are and as base64 shows them, wherever they start in it."""

    def __init__(self, *values: str) -> None:
        self._forms = [form for value in values for form in _spellings(value)]

    def within(self, data: bytes) -> bool:
        return any(form in data for form in self._forms)

    def files(self, folder: Path) -> list[str]:
        """The files below a folder that hold one: logs, notes, a database as it lies there."""
        return [
            str(path.relative_to(folder))
            for path in sorted(folder.rglob("*"))
            if path.is_file() and self.within(path.read_bytes())
        ]

    def cells(self, database: str) -> set[str]:
        """The columns of a database that hold one, as `table.column`."""
        engine = create_engine(database)
        try:
            with engine.connect() as connection:
                return {
                    f"{table}.{column}"
                    for table in inspect(engine).get_table_names()
                    for column, value in _cells(connection, table)
                    if self.within(value)
                }
        finally:
            engine.dispose()


def _spellings(value: str) -> list[bytes]:
    raw = value.encode()
    shifted = [base64.b64encode(bytes(shift) + raw) for shift in range(3)]
    return [raw, *(form[4 if shift else 0 : -4] for shift, form in enumerate(shifted))]


def _cells(connection: Connection, table: str) -> Iterator[tuple[str, bytes]]:
    result = connection.execute(text(f'SELECT * FROM "{table}"'))
    columns = list(result.keys())
    for row in result:
        for column, value in zip(columns, row, strict=True):
            yield column, value if isinstance(value, bytes) else _bytes(value)


def _bytes(value: object) -> bytes:
    """A value as text: JSON is a structure by the time that it comes out of PostgreSQL."""
    return bytes(value) if isinstance(value, memoryview) else str(value).encode()


@dataclass
class Onlooker:
    """Somebody who runs `ps` all the time."""

    marks: tuple[str, ...]
    looks: int = 0
    found: set[str] = field(default_factory=set)

    def look(self) -> None:
        lines = [command_line(process.pid) for process in all_processes()]
        self.found.update(line for line in lines if any(mark in line for mark in self.marks))
        self.looks += 1


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
