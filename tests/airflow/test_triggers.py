from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.triggers.base import BaseTrigger

from airflow_provider_lancerefs.triggers import cursor as cursors
from airflow_provider_lancerefs.triggers import polling, snapshots
from airflow_provider_lancerefs.triggers.refs import (
    LanceBranchTrigger,
    LanceTagTrigger,
    LanceTagWatchTrigger,
)
from tests.airflow.connections import variable
from tests.airflow.refs import INTERVAL, Kept, KeptBlocking, Watched, connect, first, run, until
from tests.services.proxy import S3Proxy
from tests.tables import Place

Arguments = dict[str, Any]

pytestmark = pytest.mark.airflow


@pytest.fixture
def table(place: Place, monkeypatch: pytest.MonkeyPatch) -> tuple[Place, Arguments]:
    """A table of two versions, and how a trigger gets there."""
    return place.create([1]).append(2), arguments(monkeypatch, place)


def arguments(monkeypatch: pytest.MonkeyPatch, place: Place) -> Arguments:
    return {
        "dataset": place.uri,
        "lancerefs_conn_id": connect(monkeypatch, place),
        "poke_interval": INTERVAL,
    }


EVERY_ARGUMENT: list[tuple[type[BaseTrigger], Arguments]] = [
    (LanceTagTrigger, {"dataset": "a", "tag": "v1", "pattern": "v*", "min_version": 3}),
    (
        LanceBranchTrigger,
        {
            "dataset": "a",
            "branch": "b",
            "until": "published",
            "after_version": 3,
            "seen": {"parent": "main", "parent_version": 1, "identifier": [[1, "00"]]},
        },
    ),
    (LanceTagWatchTrigger, {"dataset": "a", "pattern": "v*"}),
]


@pytest.mark.parametrize(("trigger_class", "given"), EVERY_ARGUMENT, ids=["tag", "branch", "watch"])
def test_a_trigger_comes_back_as_it_was(trigger_class: type[BaseTrigger], given: Arguments) -> None:
    """What is serialised is every argument, in plain JSON, and makes the same trigger."""
    trigger = trigger_class(**given, lancerefs_conn_id="c", poke_interval=7.0)
    path, kwargs = trigger.serialize()
    assert path == f"{trigger_class.__module__}.{trigger_class.__qualname__}"
    assert kwargs == {**given, "lancerefs_conn_id": "c", "poke_interval": 7.0}
    assert set(kwargs) == set(inspect.signature(trigger_class).parameters)
    assert trigger_class(**json.loads(json.dumps(kwargs))).serialize() == (path, kwargs)


def test_a_tag_that_is_there_fires(table: tuple[Place, Arguments]) -> None:
    """The event is plain JSON: which tag, what it names, and a key."""
    place, given = table
    tag = place.store().create_tag("v1", "main@2")
    assert tag.updated_at is not None
    moved = tag.updated_at.isoformat()
    event = run(first(LanceTagTrigger(**given, tag="v1")))
    assert json.loads(json.dumps(event)) == {
        "status": "success",
        "dataset": place.uri,
        "tag": "v1",
        "branch": "main",
        "version": 2,
        "updated_at": moved,
        "key": f"{place.uri}#v1=main@2/{moved}",
    }


@pytest.mark.parametrize("wanted", [{"tag": "v1"}, {"pattern": "v*"}], ids=["name", "pattern"])
def test_a_tag_is_waited_for(table: tuple[Place, Arguments], wanted: Arguments) -> None:
    """Neither another tag nor an older version will do; a tag moved far enough does."""
    place, given = table
    store = place.store()
    store.create_tag("w1", "main@2")
    store.create_tag("v1", "main@1")

    async def work() -> dict[str, Any]:
        waiting = asyncio.create_task(first(LanceTagTrigger(**given, **wanted, min_version=2)))
        assert (await asyncio.wait([waiting], timeout=5 * INTERVAL))[1] == {waiting}
        await asyncio.to_thread(store.move_tag, store.tag("v1"), "main@2")
        return await waiting

    event = run(work())
    assert (event["tag"], event["version"]) == ("v1", 2)


def test_of_several_tags_the_last_is_taken(table: tuple[Place, Arguments]) -> None:
    """What was made or moved last counts, whatever its name or version."""
    place, given = table
    store = place.store()
    store.create_tag("a-2", "main@2")
    store.create_tag("a-1", "main@1")
    assert run(first(LanceTagTrigger(**given, pattern="a-*")))["tag"] == "a-1"
    store.move_tag(store.tag("a-2"), "main@1")
    assert run(first(LanceTagTrigger(**given, pattern="a-*")))["tag"] == "a-2"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tag": "a/b"}, "'a/b' is not a tag name"),
        ({}, "either the name of a tag or a pattern"),
        ({"tag": "a", "pattern": "b"}, "either the name of a tag or a pattern"),
        ({"tag": "a", "min_version": 0}, "min_version is a version, counted from 1, not 0"),
        ({"tag": "a", "dataset": "gs://bucket/a"}, "gs:// has no conditional writes"),
        ({"tag": "a", "lancerefs_conn_id": "nobody"}, "`nobody` isn't defined"),
    ],
)
def test_what_never_can_come_true_is_an_error(tmp_path: Path, wrong: Arguments, said: str) -> None:
    """An event says so at once, in a sentence, and the trigger ends."""
    event = run(first(LanceTagTrigger(**{"dataset": str(tmp_path), **wrong})))
    assert event["status"] == "error"
    assert said in event["message"]


def test_a_dataset_that_is_not_there_is_waited_for(
    local_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may yet make it."""
    given = arguments(monkeypatch, local_place)

    async def work() -> dict[str, Any]:
        waiting = asyncio.create_task(first(LanceTagTrigger(**given, tag="v1")))
        assert (await asyncio.wait([waiting], timeout=3 * INTERVAL))[1] == {waiting}
        await asyncio.to_thread(lambda: local_place.create().store().create_tag("v1", "main"))
        return await waiting

    assert run(work())["version"] == 1


def test_a_broken_tag_hides_no_other(local_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for until it is mended, and others are found meanwhile."""
    store = local_place.create().store()
    store.create_tag("v2", "main")
    torn = Path(local_place.uri, "_refs", "tags", "v1.json")
    whole = torn.with_name("v2.json").read_bytes()
    torn.write_bytes(whole[:10])
    given = arguments(monkeypatch, local_place)

    async def work() -> list[str]:
        waiting = asyncio.create_task(first(LanceTagTrigger(**given, tag="v1")))
        other = await first(LanceTagTrigger(**given, pattern="v*"))
        assert not waiting.done()
        await asyncio.to_thread(torn.write_bytes, whole)
        return [other["tag"], (await waiting)["tag"]]

    assert run(work()) == ["v2", "v1"]


def test_a_branch_is_waited_for(table: tuple[Place, Arguments]) -> None:
    """It appears, gets a version of its own, and passes the one that was named."""
    place, given = table
    store = place.store()

    async def work() -> list[dict[str, Any]]:
        waiting = [
            asyncio.create_task(first(LanceBranchTrigger(**given, branch="a/b", **wanted)))
            for wanted in (
                {},
                {"until": "advanced"},
                {"until": "advanced", "after_version": 3},
            )
        ]
        await asyncio.to_thread(store.create_branch, "a/b")
        events = [await waiting[0]]
        for number in (1, 2):
            assert not waiting[number].done()
            await asyncio.to_thread(place.branch("a/b").append, 3)
            events.append(await waiting[number])
        return events

    events = run(work())
    branch = store.branch("a/b")
    assert [event["version"] for event in events] == [2, 3, 4]
    for event in events:
        assert (event["branch"], event["parent"], event["life"]) == ("a/b", "main", branch.life)


def test_main_is_waited_for(table: tuple[Place, Arguments]) -> None:
    """It fires when main is past a version."""
    place, given = table

    async def work() -> dict[str, Any]:
        passed = await first(
            LanceBranchTrigger(**given, branch="main", until="advanced", after_version=1)
        )
        assert passed["version"] == 2
        waiting = asyncio.create_task(
            first(LanceBranchTrigger(**given, branch="main", until="advanced", after_version=2))
        )
        assert (await asyncio.wait([waiting], timeout=3 * INTERVAL))[1] == {waiting}
        await asyncio.to_thread(place.append, 3)
        return await waiting

    assert run(work())["version"] == 3


def wait_for_publication(
    table: tuple[Place, Arguments], end: Callable[[Place], object]
) -> dict[str, Any]:
    """The event of a trigger that saw a branch, which ended while the trigger could not look."""
    place, given = table
    store = place.store()
    store.create_branch("a")
    place.branch("a").append(3)

    async def work() -> dict[str, Any]:
        trigger = LanceBranchTrigger(**given, branch="a", until="published")
        waiting = asyncio.create_task(first(trigger))
        await until(lambda: trigger.seen is not None)
        waiting.cancel()
        await asyncio.wait([waiting])
        await asyncio.to_thread(end, place)
        return await first(LanceBranchTrigger(**trigger.serialize()[1]))

    return run(work())


def test_a_published_branch_fires(table: tuple[Place, Arguments]) -> None:
    """The version is the parent's."""
    event = wait_for_publication(table, lambda place: place.store().publish("a"))
    assert (event["status"], event["parent"]) == ("success", "main")
    assert table[0].values(event["version"]) == [1, 2, 3]


def test_a_branch_that_was_published_and_deleted_fires(table: tuple[Place, Arguments]) -> None:
    """A run publishes its branch and deletes it, faster than anybody looks."""

    def end(place: Place) -> None:
        place.store().publish("a")
        place.store().delete_branch("a")
        place.store().create_branch("a")

    event = wait_for_publication(table, end)
    assert event["status"] == "success"
    assert table[0].values(event["version"]) == [1, 2, 3]


def test_a_branch_that_was_deleted_unpublished_is_an_error(
    table: tuple[Place, Arguments],
) -> None:
    """Nobody waits for what cannot come any more."""
    event = wait_for_publication(table, lambda place: place.store().delete_branch("a"))
    assert event["status"] == "error"
    assert "'a' of" in event["message"]
    assert "deleted without being published" in event["message"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"branch": "a//b"}, "'a//b' is not a branch name"),
        ({"branch": "a", "until": "gone"}, "until 'exists', 'advanced', 'published', not"),
        ({"branch": "main"}, "main is always there"),
        ({"branch": "main", "until": "advanced"}, "say after which version"),
        ({"branch": "a", "until": "advanced", "after_version": "x"}, "after_version is a version"),
    ],
)
def test_what_never_can_be_of_a_branch_is_an_error(
    tmp_path: Path, wrong: Arguments, said: str
) -> None:
    """An event says so at once, in a sentence, and the trigger ends."""
    event = run(first(LanceBranchTrigger(dataset=str(tmp_path), **wrong)))
    assert event["status"] == "error"
    assert said in event["message"]


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


def watcher(given: Arguments, kept: object, **more: Any) -> LanceTagWatchTrigger:
    trigger = LanceTagWatchTrigger(**given, **more)
    trigger.asset_state_store = kept  # type: ignore[assignment]
    return trigger


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

    How long Airflow is given is replaced, to see both sides of that time without waiting for it.
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
) -> None:
    """While the server is away nothing is raised, and it is asked ever less often.

    The pauses are noted, and not made, for the third one would be seconds long.
    """
    store = s3_place.create([1]).store()
    given = arguments(monkeypatch, s3_place)
    kept = Kept()
    pauses: list[float] = []
    pause = polling.pause

    def noted(interval: float, failures: int) -> float:
        if failures:
            pauses.append(pause(interval, failures))
        return INTERVAL

    monkeypatch.setattr(polling, "pause", noted)

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


def test_a_watcher_of_an_unknown_connection_waits_for_it(
    table: tuple[Place, Arguments], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event would start DAGs, and an error would start the watcher anew: it does neither.

    The pauses are replaced, to count the failures before them.
    """
    place, given = table
    name = variable(given["lancerefs_conn_id"])
    failures: list[int] = []
    monkeypatch.setattr(polling, "pause", lambda interval, so_far: failures.append(so_far) or 0.1)
    known, kept = os.environ[name], Kept()
    monkeypatch.delenv(name)

    async def work() -> None:
        async with Watched(watcher(given, kept)) as watched:
            await until(lambda: failures[:2] == [1, 2])
            assert not kept.values
            monkeypatch.setenv(name, known)
            await until(lambda: bool(kept.values))
            await asyncio.to_thread(place.store().create_tag, "v1", "main@2")
            await watched.says(("v1", 2))

    run(work())


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

    The hook is wrapped, to count how often it is asked; a store's age is replaced, not waited for.
    """
    _, given = table
    asked: list[str] = []
    real = snapshots.LanceRefsHook.aget_store

    async def counted(hook: Any, dataset: str) -> Any:
        asked.append(dataset)
        return await real(hook, dataset)

    monkeypatch.setattr(snapshots.LanceRefsHook, "aget_store", counted)

    async def looks(number: int) -> int:
        source = snapshots.RefSource(snapshots.TAGS, given["lancerefs_conn_id"], given["dataset"])
        asked.clear()
        for _ in range(number):
            await source.look()
        return len(asked)

    assert run(looks(5)) == 1
    monkeypatch.setattr(snapshots, "CONNECTION_SECONDS", 0.0)
    assert run(looks(5)) == 5
