"""What a person or a script gets to see."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from airflow_provider_lancerefs.refstore import LanceRefsError
from airflow_provider_lancerefs.refstore.progress import Progress, silent

_CLEAR_LINE = "\r\x1b[2K"


@dataclass(frozen=True, slots=True)
class Printable:
    """A result twice: as text for people and as data for scripts."""

    text: str
    data: object
    unclean: bool = False


def print_json(data: object) -> None:
    print(json.dumps(data, indent=2, ensure_ascii=False))


def print_error(error: LanceRefsError, *, as_json: bool) -> None:
    if as_json:
        what = {"error": {"kind": error.kind.value, "message": str(error), "ref": error.ref}}
        print(json.dumps(what, ensure_ascii=False), file=sys.stderr)
    else:
        print(f"lancerefs: {error}", file=sys.stderr)


@contextlib.contextmanager
def progress_line() -> Iterator[Progress]:
    """One line that is written over, where a person is watching; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield silent
        return

    def show(doing: str, done: int = 0, total: int = 0) -> None:
        count = f" {done:,}/{total:,}" if total else ""
        print(f"{_CLEAR_LINE}{doing}{count}", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        print(_CLEAR_LINE, end="", file=sys.stderr, flush=True)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], empty: str = "") -> str:
    """Rows in columns as wide as they need to be; the last one runs free."""
    if not rows:
        return empty
    lines = [list(headings), *rows] if headings else list(rows)
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def moment(when: datetime | None) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") if when else ""


def size(count: int | None) -> str:
    """Bytes as a person reads them."""
    if count is None:
        return ""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
