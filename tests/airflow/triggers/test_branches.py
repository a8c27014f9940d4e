from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_lancerefs.triggers.refs import LanceBranchTrigger
from tests.airflow.refs import INTERVAL, first, run, until
from tests.airflow.triggers.asking import Arguments
from tests.tables import Place

pytestmark = pytest.mark.airflow


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
