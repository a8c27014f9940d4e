"""What a trigger needs to be told to look at a table."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_lancerefs.triggers.refs import LanceTagWatchTrigger
from tests.airflow.refs import INTERVAL, connect
from tests.tables import Place

Arguments = dict[str, Any]


def arguments(monkeypatch: pytest.MonkeyPatch, place: Place) -> Arguments:
    return {
        "dataset": place.uri,
        "lancerefs_conn_id": connect(monkeypatch, place),
        "poke_interval": INTERVAL,
    }


def watcher(given: Arguments, kept: object, **more: Any) -> LanceTagWatchTrigger:
    """A watcher and where it keeps its state, which only a triggerer gives it otherwise."""
    trigger = LanceTagWatchTrigger(**given, **more)
    trigger.asset_state_store = kept  # type: ignore[assignment]
    return trigger
