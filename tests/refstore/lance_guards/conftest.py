"""A table to look at."""

from __future__ import annotations

from pathlib import Path

import pytest
from lance import LanceDataset

from tests.refstore.lance_guards.looking import write


@pytest.fixture
def parent(tmp_path: Path) -> LanceDataset:
    write(str(tmp_path / "table"), 0, 1, 2, mode="create")
    return write(str(tmp_path / "table"), 3, 4, 5)
