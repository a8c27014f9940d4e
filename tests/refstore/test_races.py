"""Many processes at once: one owner for each name, and never a wrong head."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from airflow_provider_lancerefs.refstore import (
    AlreadyExistsError,
    Branch,
    ConflictError,
    LanceRefsError,
    NotFoundError,
    RefStore,
    RefusedError,
    Tag,
)
from tests.refstore.racers import Racers
from tests.tables import Place

RACERS = 16
ROUNDS = 300
ROUNDS_ON_S3 = 100


@pytest.fixture(scope="module")
def racers() -> Iterator[Racers]:
    with Racers(RACERS) as started:
        yield started


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def place(request: pytest.FixtureRequest) -> Place:
    """As everywhere, but on S3 around the proxy, which would be the bottleneck."""
    fresh: Place = request.getfixturevalue(f"{request.param}_place")
    if request.param == "local":
        return fresh
    return Place(fresh.uri, request.getfixturevalue("s3").storage_options())


@pytest.mark.slow
def test_a_name_has_one_owner_and_its_head(place: Place, racers: Racers) -> None:
    """Sixteen processes create one name from eight versions, hundreds of times: one owner each
    time, its version at the head, the same branch for who asked for the same, typed errors else.
    """
    place.create([1])
    for value in range(2, 9):
        place.append(value)
    store = place.store()
    wrong: list[str] = []
    for number in range(ROUNDS_ON_S3 if place.options else ROUNDS):
        name = f"race/{number}"
        sources = [f"main@{1 + racer % 8}" for racer in range(RACERS)]
        random.Random(number).shuffle(sources)
        results = racers.run(_create, [(place, name, source) for source in sources])
        wrong += _judge(store, name, sources, results)
    assert wrong == []
    assert store.check().clean


def _create(place: Place, name: str, source: str) -> Branch:
    return place.store().create_branch(name, source)


def _judge(store: RefStore, name: str, sources: list[str], results: list[object]) -> list[str]:
    owner = store.branch(name)
    winning = f"main@{owner.parent_version}"
    wrong = []
    if store.resolve(f"branch:{name}").number != owner.parent_version:
        wrong.append(f"{name}: the head is not {winning}")
    for source, result in zip(sources, results, strict=True):
        if source == winning and result != owner:
            wrong.append(f"{name}: who asked for {source} got {result!r}")
        if source != winning and not isinstance(result, AlreadyExistsError):
            wrong.append(f"{name}: who asked for {source} got {result!r}")
    return wrong


@pytest.mark.slow
def test_a_tag_has_one_maker_and_one_mover(place: Place, racers: Racers) -> None:
    """Of sixteen who create or move a tag to different versions, one succeeds each time."""
    place.create([1])
    for value in range(2, RACERS + 1):
        place.append(value)
    store = place.store()
    for number in range(8 if place.options else 20):
        name = f"t{number}"
        made = racers.run(_tag, [(place, name, f"main@{1 + racer}") for racer in range(RACERS)])
        (first,) = [one for one in made if isinstance(one, Tag)]
        assert store.tag(name) == first
        assert sum(isinstance(one, AlreadyExistsError) for one in made) == RACERS - 1
        moved = racers.run(_move, [(place, first, f"main@{1 + racer}") for racer in range(RACERS)])
        (last,) = [one for one in moved if isinstance(one, Tag)]
        assert store.tag(name) == last
        assert sum(isinstance(one, ConflictError) for one in moved) == RACERS - 1


def _tag(place: Place, name: str, revision: str) -> Tag:
    return place.store().create_tag(name, revision)


def _move(place: Place, tag: Tag, revision: str) -> Tag:
    return place.store().move_tag(tag, revision)


@pytest.mark.slow
def test_a_tag_and_its_branch_s_deletion_exclude_each_other(place: Place, racers: Racers) -> None:
    """While some delete a branch, others tag it or fork from it: whoever is told of success keeps
    what it got, and nothing dangles.
    """
    place.create([1])
    store = place.store()
    for number in range(8 if place.options else 25):
        name = f"b{number}"
        store.create_branch(name)
        jobs = [("delete", "tag", "fork", "create")[racer % 4] for racer in range(RACERS)]
        results = racers.run(
            _contend, [(place, job, name, racer) for racer, job in enumerate(jobs)]
        )
        unexpected = [
            one
            for one in results
            if isinstance(one, Exception)
            and not isinstance(one, ConflictError | RefusedError | NotFoundError)
        ]
        assert unexpected == []
        for job, result in zip(jobs, results, strict=True):
            if job == "tag" and not isinstance(result, LanceRefsError):
                assert store.branch(name)
                assert store.tag(str(result))
            if job == "fork" and not isinstance(result, LanceRefsError):
                assert place.branch(str(result)).values() == [1]
        store.check(repair=True)
        assert [one.code for one in store.check().findings] == []


def _contend(place: Place, job: str, name: str, racer: int) -> str:
    store = place.store()
    if job == "delete":
        store.delete_branch(name, missing_ok=True)
    elif job == "tag":
        return store.create_tag(f"{name}-{racer}", f"branch:{name}").name
    elif job == "fork":
        return store.create_branch(f"{name}-{racer}", f"branch:{name}").name
    else:
        store.create_branch(name)
    return name


@pytest.mark.slow
def test_many_names_at_once(place: Place, racers: Racers) -> None:
    """Sixteen processes that each make, write, tag and delete their own do not disturb anybody."""
    place.create([1])
    results = racers.run(_live, [(place, f"own/{racer}", racer) for racer in range(RACERS)])
    assert results == [[1, racer] for racer in range(RACERS)]
    store = place.store()
    assert store.branch_names() == store.tag_names() == []
    assert store.check().clean
    assert place.values() == [1]


def _live(place: Place, name: str, value: int) -> list[int]:
    store = place.store()
    store.create_branch(name)
    place.branch(name).append(value)
    tag = store.create_tag(name.replace("/", "-"), f"branch:{name}")
    values = place.branch(name).values()
    store.delete_tag(tag.name)
    store.delete_branch(name)
    return [values[0], values[-1]] if value else [1, 0]
