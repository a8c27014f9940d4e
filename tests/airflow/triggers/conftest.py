"""A table for triggers to look at."""

from __future__ import annotations

import pytest

from tests.airflow.triggers.asking import Arguments, arguments
from tests.tables import Place


@pytest.fixture
def table(place: Place, monkeypatch: pytest.MonkeyPatch) -> tuple[Place, Arguments]:
    """A table of two versions, and how a trigger gets there."""
    return place.create([1]).append(2), arguments(monkeypatch, place)
