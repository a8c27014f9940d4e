"""The changes that Python makes to files below a folder, told just before each one happens.

What pylance changes is not among them: it writes from Rust.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any


def before_each_change(folder: str, act: Callable[[], None]) -> None:
    """Call `act` before each change below `folder`, for as long as this process lives."""

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        change = _CHANGES.get(event)
        if change is not None and change(folder, *arguments):
            act()

    sys.addaudithook(watch)


def _below(folder: str, path: object) -> bool:
    return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(folder)  # type: ignore[arg-type]


def _creates(folder: str, path: object, mode: object, flags: int) -> bool:
    writes = flags & (os.O_WRONLY | os.O_RDWR)
    return bool(writes) and _below(folder, path) and not os.path.exists(path)  # type: ignore[arg-type]


_CHANGES: Mapping[str, Callable[..., bool]] = {
    "open": _creates,
    "os.link": lambda folder, source, target, *_: _below(folder, target),
    "os.rename": lambda folder, source, target, *_: _below(folder, target),
    "os.remove": lambda folder, path, *_: _below(folder, path) and os.path.exists(path),
    "os.mkdir": lambda folder, path, *_: _below(folder, path) and not os.path.exists(path),
    "os.rmdir": lambda folder, path, *_: _below(folder, path) and not os.listdir(path),
}
