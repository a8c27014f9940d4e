from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from airflow_provider_lancerefs.triggers import polling, snapshots
from airflow_provider_lancerefs.triggers.refs import LanceTagTrigger, LanceTagWatchTrigger
from tests.airflow.refs import INTERVAL, Kept, Watched, first, run, until
from tests.airflow.triggers.asking import Arguments, arguments, watcher
from tests.services.proxy import S3Proxy
from tests.tables import Place

pytestmark = pytest.mark.airflow


@pytest.mark.s3
def test_any_number_share_one_request(
    s3_place: Place, s3_proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many sensors and watchers, each look that finds no change is one request."""
    s3_place.create([1]).store().create_tag("v1", "main@1")
    given = arguments(monkeypatch, s3_place)

    async def work() -> None:
        sensors = [
            asyncio.create_task(first(LanceTagTrigger(**given, pattern=f"{number}*")))
            for number in range(20)
        ]
        watchers = [Watched(LanceTagWatchTrigger(**given)) for _ in range(20)]
        with s3_proxy.recording() as recording:
            await until(lambda: recording.kinds["LIST"] >= 2)
            assert recording.kinds == {"LIST": recording.kinds["LIST"], "GET": 1}
        with s3_proxy.recording() as recording:
            await until(lambda: recording.kinds["LIST"] >= 3)
            assert len(recording) == recording.kinds["LIST"]
            await asyncio.to_thread(s3_place.store().create_tag, "7", "main@1")
        assert (await sensors[7])["tag"] == "7"
        for one in watchers:
            await one.says(("7", 1))
            await one.__aexit__()
        for waiting in sensors:
            waiting.cancel()
        await asyncio.wait(sensors)

    run(work())


@pytest.mark.s3
def test_errors_are_waited_out(
    s3_place: Place,
    s3_proxy: S3Proxy,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    pauses: list[float],
) -> None:
    """While the server is away nothing is raised, and it is asked ever less often."""
    store = s3_place.create([1]).store()
    given = arguments(monkeypatch, s3_place)
    kept = Kept()

    async def work() -> dict[str, Any]:
        async with Watched(watcher(given, kept)) as watched:
            waiting = asyncio.create_task(first(LanceTagTrigger(**given, tag="v1")))
            await until(lambda: bool(kept.values))
            with s3_proxy.breaking(lambda request: "drop request"):
                await until(lambda: len(pauses) >= 3)
            assert not waiting.done()
            await asyncio.to_thread(store.create_tag, "v1", "main@1")
            await watched.says(("v1", 1))
            return await waiting

    with caplog.at_level(logging.INFO, polling.__name__):
        assert run(work())["tag"] == "v1"
    assert INTERVAL <= pauses[0] <= 2 * INTERVAL <= pauses[1] <= 4 * INTERVAL <= pauses[2]
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) <= 2


@pytest.mark.parametrize("failures", [1, 5, 16, 17, 10_000])
def test_pauses_grow_to_an_end(failures: int) -> None:
    """Never under the interval, never over five minutes or the interval, never all the same."""
    for interval, longest in ((0.1, 300.0), (60.0, 300.0), (900.0, 900.0)):
        pauses = [polling.pause(interval, failures) for _ in range(20)]
        assert interval <= min(pauses) <= max(pauses) <= longest
        assert interval == longest or len(set(pauses)) > 1


def test_those_who_leave_take_nothing_from_those_who_stay(
    table: tuple[Place, Arguments],
) -> None:
    """Of three that share a listing two are cancelled; the last is served; then nothing is left."""
    place, given = table

    def polls() -> list[str]:
        names = (task.get_name() for task in asyncio.all_tasks())
        return [name for name in names if name.startswith("lancerefs-poll")]

    async def work() -> None:
        waiting = [asyncio.create_task(first(LanceTagTrigger(**given, tag="v1"))) for _ in range(3)]
        await until(lambda: len(polls()) == 1)
        await asyncio.sleep(3 * INTERVAL)
        assert len(polls()) == 1
        for task in waiting[:2]:
            task.cancel()
        await asyncio.wait(waiting[:2])
        assert [task.cancelled() for task in waiting] == [True, True, False]
        await asyncio.to_thread(place.store().create_tag, "v1", "main@1")
        assert (await waiting[2])["tag"] == "v1"

    run(work())


def test_connections_are_asked_for_once(
    table: tuple[Place, Arguments], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look takes the store of the look before, until that is old.

    The age at which it is old is replaced, for it is a constant of minutes.
    """
    _, given = table

    async def stores_of(looks: int) -> int:
        source = snapshots.RefSource(snapshots.TAGS, given["lancerefs_conn_id"], given["dataset"])
        stores = [(await source.look()).store for _ in range(looks)]
        return len({id(store) for store in stores})

    assert run(stores_of(5)) == 1
    monkeypatch.setattr(snapshots, "CONNECTION_SECONDS", 0.0)
    assert run(stores_of(5)) == 5
