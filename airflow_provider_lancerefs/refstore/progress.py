"""How long work tells somebody where it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    def __call__(self, doing: str, done: int = 0, total: int = 0) -> None: ...


def silent(doing: str, done: int = 0, total: int = 0) -> None:
    """Tells nobody."""
