from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_lancerefs.triggers.refs import LanceTagTrigger
from tests.airflow.refs import INTERVAL, first, run
from tests.airflow.triggers.asking import Arguments, arguments
from tests.tables import Place

pytestmark = pytest.mark.airflow


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
