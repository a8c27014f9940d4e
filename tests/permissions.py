"""Files as somebody sees them to whom permissions apply."""

from __future__ import annotations

import importlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from airflow_provider_lancerefs.refstore.storage import open_storage

_NOBODY = 65534


def as_nobody() -> None:
    """Drop root, to which no permission applies, once what is imported late is imported."""
    importlib.import_module(f"{open_storage.__module__}.local")
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)


def set_modes(root: Path, *, folders: int, files: int) -> None:
    """Set the mode of all there is, so that what lies deeper comes before what leads to it."""
    for path in sorted([root, *_walk(root)], reverse=True):
        path.chmod(folders if stat.S_ISDIR(path.stat().st_mode) else files)


def _walk(root: Path) -> Iterator[Path]:
    root.chmod(0o755)
    for path in root.iterdir():
        yield path
        if path.is_dir():
            yield from _walk(path)
