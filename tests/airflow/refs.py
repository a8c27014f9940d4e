"""What the tests of sensors and triggers are made of: connections, waiting, and events."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

import pytest
from airflow.triggers.base import BaseTrigger, TriggerEvent

from tests.airflow.connections import connection, variable
from tests.tables import Place

INTERVAL = 0.1
SECONDS = 30

_Result = TypeVar("_Result")


def connect(monkeypatch: pytest.MonkeyPatch, place: Place) -> str:
    """A connection by which the place is reached; its id."""
    conn_id = f"lancerefs_{uuid.uuid4().hex}"
    monkeypatch.setenv(variable(conn_id), connection(place.options))
    return conn_id


def run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run in an event loop of its own, and see that nothing is left in it."""

    async def guarded() -> _Result:
        result = await asyncio.wait_for(work, SECONDS)
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
        return result

    return asyncio.run(guarded())


async def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition, for so long as `run` gives."""
    while not holds():  # noqa: ASYNC110  # what holds is on a server, or another thread's
        await asyncio.sleep(INTERVAL / 10)


async def first(trigger: BaseTrigger) -> dict[str, Any]:
    """The payload of a trigger's one event, after which it is at its end."""
    events = [event.payload async for event in trigger.run()]
    assert len(events) == 1, events
    payload: dict[str, Any] = events[0]
    return payload


class Watched:
    """A watcher that runs beside the test, and what it has said."""

    def __init__(self, trigger: BaseTrigger) -> None:
        self.payloads: list[dict[str, Any]] = []
        self._task = asyncio.create_task(self._run(trigger))

    async def __aenter__(self) -> Watched:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        assert self._task.cancelled(), self._task

    async def _run(self, trigger: BaseTrigger) -> None:
        events: AsyncIterator[TriggerEvent] = trigger.run()
        async with aclosing(events) as open_events:  # type: ignore[type-var]
            async for event in open_events:
                self.payloads.append(event.payload)

    @property
    def said(self) -> list[tuple[str, int]]:
        return [(payload["tag"], payload["version"]) for payload in self.payloads]

    async def says(self, *expected: tuple[str, int]) -> None:
        await until(lambda: len(self.said) >= len(expected))
        assert self.said == list(expected)


class Kept:
    """A fake of `asset_state_store`, for the real one asks the API server through a triggerer.

    `tests.airflow.test_watching` runs the same watchers inside one.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.broken = False

    async def aget(self, key: str, default: Any = None) -> Any:
        if self.broken:
            raise RuntimeError("the API server is away")
        return json.loads(self.values[key]) if key in self.values else default

    async def aset(self, key: str, value: Any) -> None:
        if self.broken:
            raise RuntimeError("the API server is away")
        self.values[key] = json.dumps(value)


class KeptBlocking:
    """As `Kept`, with the calls that Airflow 3.3.0 has."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept

    def get(self, key: str, default: Any = None) -> Any:
        return asyncio.run(self._kept.aget(key, default))

    def set(self, key: str, value: Any) -> None:
        asyncio.run(self._kept.aset(key, value))
