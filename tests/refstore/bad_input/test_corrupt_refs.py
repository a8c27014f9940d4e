"""Ref files that say nothing, or lead elsewhere."""

from __future__ import annotations

import contextlib
import json
import time
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_lancerefs.refstore import (
    BrokenRef,
    FormatError,
    LanceRefsError,
    RefStore,
    RefusedError,
    layout,
)
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.storage import open_storage
from tests.refstore.bad_input.expecting import (
    Table,
    contents,
    error_of,
    put,
    unchanged,
)
from tests.tables import Place

CORRUPT = {
    "empty": b"",
    "cut short": b'{"parentBranch": nu',
    "no object": b"[1, 2]",
    "null": b"null",
    "binary": b"\x89PNG\r\n\x1a\n\0\0",
    "bad UTF-8": b'{"parentVersion": 1, "version": 1, "k": "\xff"}',
    "wrong types": b'{"parentVersion": "1", "version": "1"}',
    "no keys": b"{}",
    "deep": b"[" * 100_000,
    "lone surrogate": b'{"parentVersion": 1, "parentBranch": "\\ud800", "version": 1, '
    b'"branch": "\\ud800"}',
    "path for a name": b'{"parentVersion": 1, "parentBranch": "../../victim", "version": 1, '
    b'"branch": "../../victim"}',
}


@pytest.fixture(params=CORRUPT)
def corrupt(request: pytest.FixtureRequest, local_table: Table) -> Table:
    """A dataset in which one branch's and one tag's file cannot be read."""
    spoil(local_table.place, CORRUPT[request.param])
    return local_table


def spoil(place: Place, data: bytes) -> None:
    place.store().create_branch("bad")
    place.store().create_tag("bad", "branch:bad")
    for path in (layout.branch_ref("bad"), layout.tag_ref("bad")):
        put(place, path, data)


def test_corrupt_refs_are_listed_as_broken(corrupt: Table) -> None:
    """A ref that cannot be read is in the list, with what is wrong, and hides no other."""
    store = corrupt.place.store()
    branches = {one.name: one for one in store.branches()}
    tags = {one.name: one for one in store.tags()}
    assert list(branches) == store.branch_names() == ["b", "b/c", "bad"]
    assert list(tags) == store.tag_names() == ["bad", "kept", "t"]
    for bad in (branches["bad"], tags["bad"]):
        assert isinstance(bad, BrokenRef)
        assert bad.broken.startswith(f"The file of {bad.kind} 'bad' ")
        assert bad.broken.endswith(".")
    assert branches["b"] == store.branch("b")
    assert tags["t"] == store.tag("t")


def test_corrupt_refs_are_format_errors(corrupt: Table) -> None:
    """Whatever needs the ref itself says that its file is damaged, and changes nothing."""
    store = corrupt.place.store()
    with unchanged(corrupt.place):
        for call in (
            lambda: store.branch("bad"),
            lambda: store.tag("bad"),
            lambda: store.resolve("tag:bad"),
            lambda: store.files("tag:bad"),
            lambda: store.create_branch("bad"),
            lambda: store.create_branch("new", "tag:bad"),
            lambda: store.create_branch("new", "branch:bad"),
            lambda: store.create_tag("bad", "main"),
            lambda: store.create_tag("new", "tag:bad"),
            lambda: store.move_tag(corrupt.tag, "tag:bad"),
            lambda: store.delete_branch("bad"),
            lambda: store.delete_branch("bad", missing_ok=True),
            lambda: store.delete_tag("bad"),
            lambda: store.delete_tag("bad", missing_ok=True),
        ):
            error = error_of(call)
            assert isinstance(error, FormatError)
            assert error.ref == "bad"


def test_corrupt_refs_stop_nothing_else(corrupt: Table) -> None:
    """Everything that does not need the damaged refs goes on as if they were not there."""
    store = corrupt.place.store()
    assert store.create_branch("new").name == "new"
    assert store.create_branch("new/er", "branch:b").name == "new/er"
    assert store.create_tag("new", "branch:new").branch == "new"
    assert store.move_tag(store.tag("t"), "main@2").version == 2
    assert store.delete_tag("new")
    assert store.delete_branch("new")
    assert store.delete_branch("new/er")
    assert store.set_metadata(store.branch("b"), {"k": "v"}).metadata["k"] == "v"
    swept = {one.branch: one for one in store.expire_branches("*", timedelta(0))}
    assert not swept["bad"].deleted
    assert swept["bad"].reason == "its ref cannot be read: run fsck"
    found = {(one.code, one.subject) for one in store.check(repair=True).findings}
    assert {("unreadable-ref", "branch bad"), ("unreadable-ref", "tag bad")} <= found
    assert {"bad"} <= set(store.branch_names()) & set(store.tag_names())


def test_corrupt_refs_can_be_deleted_with_force(corrupt: Table) -> None:
    """`force` removes a ref that cannot be read; the branch's files stay for fsck."""
    store = corrupt.place.store()
    assert store.delete_tag("bad", force=True)
    assert store.delete_branch("bad", force=True)
    assert store.branch_names() == ["b", "b/c"]
    assert store.tag_names() == ["kept", "t"]
    assert corrupt.place.branch("bad").values() == [1, 2, 3, 4]


@pytest.mark.s3
def test_corrupt_refs_on_s3(s3_place: Place) -> None:
    """A damaged ref on S3 is listed as broken and hides no other."""
    table = Table.make(s3_place)
    spoil(s3_place, b"{")
    store = s3_place.store()
    assert [one.name for one in store.branches() if one.broken] == ["bad"]
    assert [one.name for one in store.tags() if one.broken] == ["bad"]
    with unchanged(table.place):
        assert isinstance(error_of(lambda: store.delete_branch("bad")), FormatError)


def test_a_corrupt_child_still_protects_its_parent(local_table: Table) -> None:
    """A branch is not deleted while a child whose ref is damaged has its files."""
    put(local_table.place, layout.branch_ref("b/c"), b"{")
    store = local_table.place.store()
    store.delete_tag("kept")
    error = error_of(lambda: store.delete_branch("b"))
    assert isinstance(error, RefusedError)
    assert error.blockers == ("branch 'b/c'",)
    assert store.branch("b").state == "open"


def test_a_corrupt_branch_with_a_corrupt_head(local_table: Table) -> None:
    """Where nobody can tell whether a branch is needed, it is kept, and stays as it was."""
    put(local_table.place, layout.branch_ref("b/c"), b"{")
    for path in Path(local_table.place.branch("b/c").uri, "_versions").glob("*.manifest"):
        path.write_bytes(b"damaged")
    store = local_table.place.store()
    store.delete_tag("kept")
    error = error_of(lambda: store.delete_branch("b"))
    assert isinstance(error, RefusedError)
    assert error.blockers == ("branch 'b/c'",)
    assert store.branch("b").state == "open"


FALSE_FILES = ["...json", "..%2F..%2Fvictim.json", "a%2F..%2F..%2F...json", "main.json", "..json"]


@pytest.mark.parametrize("file", FALSE_FILES)
@pytest.mark.parametrize("state", ["open", "deleting", "removing"])
def test_a_ref_file_with_a_path_for_a_name_leads_nowhere(
    local_table: Table, file: str, state: str
) -> None:
    """No sweep, check or delete reaches a file outside a branch's folder through a ref's name."""
    place = local_table.place
    Place(str(Path(place.uri).parent / "victim")).create()
    body = json.loads(Path(place.uri, layout.branch_ref("b")).read_bytes())
    body["createAt"] = 1_500_000_000
    body["metadata"] = {"lancerefs.state": state, "lancerefs.state_since": "2020-01-01T00:00:00Z"}
    put(place, layout.BRANCH_REFS + file, json.dumps(body).encode())
    store = place.store(grace=timedelta(0))
    kept = {
        path: data
        for path, data in contents(place).items()
        if "tree/" not in path and "_refs/" not in path
    }
    with contextlib.suppress(LanceRefsError):
        store.delete_branch("b")
    store.expire_branches("*", timedelta(0), dry_run=True)
    store.expire_branches("*", timedelta(0))
    store.check(repair=True, orphan_age=timedelta(0))
    now = contents(place)
    assert [path for path, data in kept.items() if now.get(path) != data] == []


@pytest.mark.timeout(30)
def test_a_ref_from_the_future_without_a_head(local_table: Table) -> None:
    """A clock that was wrong when a ref was written lets nobody wait longer than a moment."""
    place = local_table.place
    body = json.loads(Path(place.uri, layout.branch_ref("b/c")).read_bytes())
    for seconds in (60, 10**9, 253_402_300_799):
        body["createAt"] = int(time.time()) + seconds if seconds < 10**10 else seconds
        put(place, layout.branch_ref("late"), json.dumps(body).encode())
        dataset = Dataset(open_storage(place.uri), creation_lease=timedelta(seconds=0.2))
        began = time.monotonic()
        assert RefStore(dataset).delete_branch("late")
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("life", ["", "x", "not a uuid", "\0", "0" * 31, "é" * 32], ids=ascii)
def test_a_ref_with_an_odd_identifier(local_table: Table, life: str) -> None:
    """An identifier of a form that nobody here writes stops no call on any ref."""
    place = local_table.place
    body = json.loads(Path(place.uri, layout.branch_ref("b")).read_bytes())
    body["identifier"] = {"version_mapping": [[2, life]]}
    put(place, layout.branch_ref("b"), json.dumps(body).encode())
    store = place.store()
    assert "b" in store.branch_names()
    store.check()
    store.check(repair=True)
    for call in (lambda: store.create_branch("b"), lambda: store.create_branch("new", "branch:b")):
        with contextlib.suppress(LanceRefsError):
            call()
    store.expire_branches("b*", timedelta(0), dry_run=True)
    with contextlib.suppress(LanceRefsError):
        store.delete_branch("b")
