from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_lancerefs.triggers import cursor as cursors
from tests.airflow.connections import variable
from tests.airflow.refs import INTERVAL, Kept, KeptBlocking, Watched, run, until
from tests.airflow.triggers.asking import Arguments, watcher
from tests.tables import Place

pytestmark = pytest.mark.airflow


def test_a_watcher_says_what_is_new_or_moved(table: tuple[Place, Arguments]) -> None:
    """Tags that stood before, that don't match, or whose metadata alone changed, say nothing."""
    place, given = table
    store = place.store()
    store.create_tag("v0", "main@1")
    kept = Kept()

    async def work() -> list[dict[str, Any]]:
        change = asyncio.to_thread
        async with (
            Watched(watcher(given, kept, pattern="v*")) as some,
            Watched(watcher(given, kept)) as all_tags,
        ):
            await until(lambda: len(kept.values) == 2)
            await change(store.create_tag, "v1", "main@1")
            await some.says(("v1", 1))
            await change(store.create_tag, "w1", "main@1")
            await all_tags.says(("v1", 1), ("w1", 1))
            await change(store.move_tag, store.tag("v1"), "main@2")
            await some.says(("v1", 1), ("v1", 2))
            await change(store.set_metadata, store.tag("v0"), {"by": "me"})
            await change(store.delete_tag, "v1")
            await change(store.move_tag, store.tag("w1"), "main@2")
            await all_tags.says(("v1", 1), ("w1", 1), ("v1", 2), ("w1", 2))
            await change(store.create_tag, "v1", "main@2")
            await some.says(("v1", 1), ("v1", 2), ("v1", 2))
            return some.payloads

    payloads = run(work())
    assert len({payload["key"] for payload in payloads}) == 3
    assert "status" not in payloads[0]


@pytest.mark.parametrize("of", [lambda kept: kept, KeptBlocking], ids=["async", "blocking"])
def test_a_watcher_takes_up_where_it_was(
    table: tuple[Place, Arguments], of: Callable[[Kept], object]
) -> None:
    """What was made, moved or made again while it was away is said, and nothing else."""
    place, given = table
    store = place.store()
    for name in ("stays", "moves", "goes"):
        store.create_tag(name, "main@1")
    kept = Kept()

    async def before() -> None:
        async with Watched(watcher(given, of(kept))) as watched:
            await until(lambda: bool(kept.values))
            assert watched.said == []

    async def after() -> None:
        async with Watched(watcher(given, of(kept))) as watched:
            await watched.says(("new", 2), ("moves", 2))

    run(before())
    store.create_tag("new", "main@2")
    store.move_tag(store.tag("moves"), "main@2")
    store.delete_tag("goes")
    run(after())


def test_an_event_is_said_again_until_airflow_has_had_time_to_keep_it(
    table: tuple[Place, Arguments], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed right after an event, the watcher repeats it, with the same key; later it does not.

    How long Airflow is given is replaced for the later time, for it is a constant of seconds.
    """
    place, given = table
    store, kept = place.store(), Kept()

    async def watch(*said: tuple[str, int], until_kept: bool = False) -> list[str]:
        async with Watched(watcher(given, kept)) as watched:
            await until(lambda: bool(kept.values))
            before = dict(kept.values)
            if not store.tag_names():
                await asyncio.to_thread(store.create_tag, "v1", "main@2")
            await watched.says(*said)
            if until_kept:
                await until(lambda: kept.values != before)
            return [payload["key"] for payload in watched.payloads]

    first_time = run(watch(("v1", 2)))
    again = run(watch(("v1", 2)))
    assert first_time == again
    monkeypatch.setattr(cursors, "HANDED_OVER_SECONDS", INTERVAL)
    assert run(watch(("v1", 2), until_kept=True)) == again
    assert run(watch()) == []


def test_each_watcher_of_an_asset_keeps_its_own(table: tuple[Place, Arguments]) -> None:
    """Watchers with other patterns don't take each other's place; another interval is no other."""
    place, given = table
    kept = Kept()

    async def start(**more: Any) -> None:
        before = len(kept.values)
        async with Watched(watcher({**given, **more}, kept)):
            await until(lambda: len(kept.values) > before)

    run(start(pattern="a*"))
    run(start(pattern="b*"))
    place.store().create_tag("a1", "main@1")

    async def again() -> None:
        slower = {**given, "poke_interval": INTERVAL * 1.5}
        async with (
            Watched(watcher(slower, kept, pattern="a*")) as first_one,
            Watched(watcher(slower, kept, pattern="b*")) as second,
        ):
            await first_one.says(("a1", 1))
            assert second.said == []

    run(again())


def test_a_watcher_that_cannot_ask_where_it_was_waits(table: tuple[Place, Arguments]) -> None:
    """It takes nothing for granted, and says what is new once it can ask."""
    place, given = table
    store, kept = place.store(), Kept()

    async def start() -> None:
        async with Watched(watcher(given, kept)):
            await until(lambda: bool(kept.values))

    async def again() -> None:
        async with Watched(watcher(given, kept)) as watched:
            await asyncio.sleep(3 * INTERVAL)
            assert watched.said == []
            kept.broken = False
            await watched.says(("v1", 2))

    run(start())
    store.create_tag("v1", "main@2")
    kept.broken = True
    run(again())


def test_a_watcher_goes_on_where_nothing_can_be_kept(table: tuple[Place, Arguments]) -> None:
    """Events are not lost for want of a place to keep the cursor."""
    place, given = table
    kept = Kept()

    class Several(Kept):
        """As Airflow's, of a watcher of two assets."""

        async def aget(self, key: str, default: Any = None) -> Any:
            raise ValueError("Task has 2 concrete inlets and outlets")

    async def work() -> None:
        async with (
            Watched(watcher(given, kept)) as failing,
            Watched(watcher(given, Several())) as shared,
        ):
            await until(lambda: bool(kept.values))
            kept.broken = True
            await asyncio.to_thread(place.store().create_tag, "v1", "main@2")
            await failing.says(("v1", 2))
            await shared.says(("v1", 2))

    run(work())


def test_a_watcher_of_an_unknown_connection_waits_for_it(
    table: tuple[Place, Arguments], monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    """An event would start DAGs, and an error would start the watcher anew: it does neither."""
    place, given = table
    name = variable(given["lancerefs_conn_id"])
    known, kept = os.environ[name], Kept()
    monkeypatch.delenv(name)

    async def work() -> None:
        async with Watched(watcher(given, kept)) as watched:
            await until(lambda: len(pauses) >= 2)
            assert not kept.values
            monkeypatch.setenv(name, known)
            await until(lambda: bool(kept.values))
            await asyncio.to_thread(place.store().create_tag, "v1", "main@2")
            await watched.says(("v1", 2))

    run(work())
