"""A table for triggers to look at, and the pauses that they make."""

from __future__ import annotations

import pytest

from airflow_provider_lancerefs.triggers import polling
from tests.airflow.triggers.asking import Arguments, arguments
from tests.tables import Place


@pytest.fixture
def table(place: Place, monkeypatch: pytest.MonkeyPatch) -> tuple[Place, Arguments]:
    """A table of two versions, and how a trigger gets there."""
    return place.create([1]).append(2), arguments(monkeypatch, place)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses after failures, as they are made.

    The real `pause` runs inside one that listens, for a loop tells nobody how long it waits.
    """
    made: list[float] = []
    pause = polling.pause

    def noted(interval: float, failures: int) -> float:
        seconds = pause(interval, failures)
        if failures:
            made.append(seconds)
        return seconds

    monkeypatch.setattr(polling, "pause", noted)
    return made
