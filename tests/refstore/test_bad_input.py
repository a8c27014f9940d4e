"""Bad input: one clear, typed error each, and nothing changed.

Whatever is wrong (the call, the files, the store), a call ends in a LanceRefsError with a sentence
for a person, and the storage holds byte for byte what it held before.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import multiprocessing
import os
import shutil
import stat
import struct
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import s3fs

from airflow_provider_lancerefs.refstore import (
    Branch,
    BrokenRef,
    ConflictError,
    DatasetNotFoundError,
    ErrorKind,
    FormatError,
    InvalidInputError,
    InvalidRefNameError,
    LanceRefsError,
    NotFoundError,
    RefNotFoundError,
    RefStore,
    RefusedError,
    Revision,
    StorageError,
    Tag,
    UnsupportedStoreError,
    Version,
    layout,
)
from airflow_provider_lancerefs.refstore._proto import lance_table_pb2 as pb
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.names import file_name
from airflow_provider_lancerefs.refstore.storage import open_storage
from airflow_provider_lancerefs.refstore.storage.options import s3fs_arguments
from tests.refstore.strategies import HOSTILE_NAMES
from tests.services.proxy import Fault, Request, S3Proxy
from tests.services.seaweed import BUCKET, S3Server, s3_server
from tests.tables import Place

NOBODY = 65534
READ_ONLY_BUCKET = "readonly"
OURS = {layout.LOCK, layout.PROBE}

Call = Callable[[], object]


@dataclass(frozen=True)
class Table:
    """A dataset with two versions, a branch of it, one of that, and tags; and its refs as read."""

    place: Place
    branch: Branch
    tag: Tag

    @staticmethod
    def make(place: Place) -> Table:
        place.create().append(4)
        store = place.store()
        branch = store.create_branch("b")
        store.create_branch("b/c", "branch:b")
        store.create_tag("kept", "branch:b/c")
        return Table(place, branch, store.create_tag("t", "main@1"))

    @property
    def elsewhere(self) -> str:
        return self.place.beside("elsewhere").uri

    def reads(self, store: RefStore) -> dict[str, Call]:
        return {
            "branches": store.branches,
            "branch_names": store.branch_names,
            "branch": lambda: store.branch("b"),
            "tags": store.tags,
            "tag_names": store.tag_names,
            "tag": lambda: store.tag("t"),
            "resolve head": lambda: store.resolve("main"),
            "resolve number": lambda: store.resolve("main@1"),
            "resolve tag": lambda: store.resolve("tag:t"),
            "files": store.files,
            "manifest": store.manifest,
            "check": store.check,
            "expire dry": lambda: store.expire_branches("*", timedelta(0), dry_run=True),
        }

    def writes(self, store: RefStore) -> dict[str, Call]:
        return {
            "create_branch": lambda: store.create_branch("new"),
            "create_branch of branch": lambda: store.create_branch("new", "branch:b"),
            "create_tag": lambda: store.create_tag("new", "main"),
            "create_tag on branch": lambda: store.create_tag("new", "branch:b"),
            "move_tag": lambda: store.move_tag(self.tag, "main@2"),
            "delete_tag": lambda: store.delete_tag("t"),
            "delete_branch": lambda: store.delete_branch("b/c"),
            "set_metadata of branch": lambda: store.set_metadata(self.branch, {"k": "v"}),
            "set_metadata of tag": lambda: store.set_metadata(self.tag, {"k": "v"}),
            "shallow_clone": lambda: store.shallow_clone(self.elsewhere),
        }

    def calls(self, store: RefStore) -> dict[str, Call]:
        return {
            **self.reads(store),
            **self.writes(store),
            "relocate": lambda: store.relocate(self.elsewhere),
            "expire": lambda: store.expire_branches("*", timedelta(0)),
            "repair": lambda: store.check(repair=True),
        }


def contents(place: Place) -> dict[str, bytes]:
    """Every byte at a place and beside it, but for two files of the library's own."""
    if place.uri.startswith("s3://"):
        files = s3fs.S3FileSystem(**s3fs_arguments(place.options), skip_instance_cache=True)
        bucket, _, prefix = place.uri.removeprefix("s3://").partition("/")
        found = {
            path.removeprefix(f"{bucket}/"): data
            for path, data in files.cat(files.find(bucket, prefix=prefix)).items()
        }
    else:
        root = Path(place.uri).parent
        found = {
            str(path.relative_to(root)): path.read_bytes()
            for path in root.rglob("*")
            if path.is_file()
        }
    return {path: data for path, data in found.items() if not path.endswith(tuple(OURS))}


@contextlib.contextmanager
def unchanged(place: Place) -> Iterator[None]:
    before = contents(place)
    yield
    assert contents(place) == before


def error_of(call: Call) -> LanceRefsError:
    """The typed error a call ends in, after looking that it reads as one sentence."""
    with pytest.raises(LanceRefsError) as caught:
        call()
    error = caught.value
    text = str(error)
    assert text.endswith(".")
    assert text.isprintable()
    assert len(text) < 500
    assert isinstance(error.kind, ErrorKind)
    if isinstance(error, StorageError):
        assert error.__cause__ is not None
    return error


def errors_of(calls: dict[str, Call]) -> dict[str, LanceRefsError]:
    return {name: error_of(call) for name, call in calls.items()}


@pytest.fixture
def table(place: Place) -> Table:
    return Table.make(place)


@pytest.fixture
def local_table(local_place: Place) -> Table:
    return Table.make(local_place)


# -- names and arguments ----------------------------------------------------------------------


def naming_calls(table: Table, name: str) -> dict[str, Call]:
    """Every public method that takes a name, with that name in each place for one."""
    store = table.place.store()
    return {
        "branch": lambda: store.branch(name),
        "create_branch": lambda: store.create_branch(name),
        "delete_branch": lambda: store.delete_branch(name),
        "delete_branch forced": lambda: store.delete_branch(name, missing_ok=True, force=True),
        "tag": lambda: store.tag(name),
        "create_tag": lambda: store.create_tag(name, "main"),
        "delete_tag": lambda: store.delete_tag(name),
        "delete_tag forced": lambda: store.delete_tag(name, missing_ok=True, force=True),
        **revision_calls(table, f"branch:{name}"),
        **{f"{call} at": one for call, one in revision_calls(table, f"branch:{name}@1").items()},
        **{f"{call} tag": one for call, one in revision_calls(table, f"tag:{name}").items()},
    }


def revision_calls(table: Table, revision: Any) -> dict[str, Call]:
    """Every public method that takes a revision."""
    store = table.place.store()
    return {
        "resolve": lambda: store.resolve(revision),
        "create_branch from": lambda: store.create_branch("new", revision),
        "create_tag of": lambda: store.create_tag("new", revision),
        "move_tag to": lambda: store.move_tag(table.tag, revision),
        "files of": lambda: store.files(revision),
        "manifest of": lambda: store.manifest(revision),
        "shallow_clone of": lambda: store.shallow_clone(table.elsewhere, revision),
        "relocate of": lambda: store.relocate(table.elsewhere, revision),
    }


@pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES)
def test_hostile_names_are_refused_everywhere(local_table: Table, name: str) -> None:
    """A name that no ref can have is refused by every method that takes one."""
    with unchanged(local_table.place):
        calls = naming_calls(local_table, name)
        if name == "a@1":  # a version of the branch 'a', where a revision is written
            calls = {key: call for key, call in calls.items() if "from" not in key}
            calls = {key: call for key, call in calls.items() if not key.endswith((" of", " to"))}
            calls.pop("resolve")
        for error in errors_of(calls).values():
            assert isinstance(error, InvalidInputError)


@pytest.mark.s3
@pytest.mark.parametrize("name", ["..", "../x", "a\0b", "a" * 10_000], ids=lambda name: name[:4])
def test_hostile_names_do_not_reach_s3(s3_place: Place, s3_proxy: S3Proxy, name: str) -> None:
    """No request is made for a name that no ref can have."""
    table = Table.make(s3_place)
    with s3_proxy.recording() as seen:
        errors_of(naming_calls(table, name))
    assert [str(request) for request in seen.requests] == []


@pytest.mark.parametrize("name", ["a" * 300, "é" * 100, "/".join("a" * 150)], ids=len)
def test_names_longer_than_a_file_name_are_not_there(table: Table, name: str) -> None:
    """A name that is too long for this store's files only is one that nothing has."""
    store = table.place.store()
    with unchanged(table.place):
        assert isinstance(error_of(lambda: store.branch(name)), RefNotFoundError)
        assert isinstance(error_of(lambda: store.resolve(f"branch:{name}")), NotFoundError)
        assert store.delete_branch(name, missing_ok=True) is False
        if "/" not in name:
            assert isinstance(error_of(lambda: store.tag(name)), RefNotFoundError)
            assert store.delete_tag(name, missing_ok=True) is False


@pytest.mark.parametrize("name", ["..", "../x", "../../victim", "a//b", "a/.", "\0"], ids=ascii)
def test_revisions_made_by_hand_keep_the_rules(local_table: Table, name: str) -> None:
    """A Revision or a Version with a branch that cannot be is refused, as its text would be."""
    Place(str(Path(local_table.place.uri).parent / "victim")).create()
    with unchanged(local_table.place):
        for made in (Revision(name), Revision(name, 1), Revision(None, None, name)):
            for error in errors_of(revision_calls(local_table, made)).values():
                assert isinstance(error, InvalidInputError)
        for call in revision_calls(local_table, Version(name, 1, 0)).values():
            assert isinstance(error_of(call), InvalidInputError)


@pytest.mark.parametrize("version", [Version("main", 99, 400), Version("b", 99, 400)], ids=str)
def test_a_version_that_is_not_there_gets_no_tag(table: Table, version: Version) -> None:
    """A Version from long ago, or made by hand, is looked for before a ref is pointed at it."""
    store = table.place.store()
    with unchanged(table.place):
        for call in (
            lambda: store.create_tag("new", version),
            lambda: store.move_tag(table.tag, version),
            lambda: store.shallow_clone(table.elsewhere, version),
            lambda: store.files(version),
            lambda: store.relocate(table.elsewhere, version),
        ):
            assert isinstance(error_of(call), NotFoundError)


@pytest.mark.parametrize("value", [None, 3, 1.5, b"main", ["main"], {"branch": "main"}], ids=repr)
def test_revisions_of_another_type(local_table: Table, value: object) -> None:
    """What is no revision at all is invalid input, whichever method it is given to."""
    with unchanged(local_table.place):
        for error in errors_of(revision_calls(local_table, value)).values():
            assert isinstance(error, InvalidInputError)


@pytest.mark.parametrize(
    "metadata",
    [
        "text",
        3,
        ["k"],
        [("k", "v")],
        {"k": 1},
        {"k": b"v"},
        {"k": ["v"]},
        {1: "v"},
        {None: "v"},
        {"": "v"},
        {"lancerefs.state": "removing"},
        {"lancerefs.anything": "v"},
        {"k": "\ud800"},
        {"\ud800": "v"},
    ],
    ids=ascii,
)
def test_metadata_of_another_type(local_table: Table, metadata: Any) -> None:
    """Metadata is a map of strings that can be written down, without the store's own keys."""
    store = local_table.place.store()
    with unchanged(local_table.place):
        for call in (
            lambda: store.create_branch("new", metadata=metadata),
            lambda: store.create_tag("new", "main", metadata=metadata),
            lambda: store.set_metadata(local_table.branch, metadata),
            lambda: store.set_metadata(local_table.tag, metadata),
        ):
            assert isinstance(error_of(call), InvalidInputError)


@pytest.mark.parametrize("ref", [None, "t", 3, {"name": "t"}], ids=repr)
def test_refs_of_another_type(local_table: Table, ref: Any) -> None:
    """A tag is moved, and metadata set, on a ref as it was read, and on nothing else."""
    store = local_table.place.store()
    with unchanged(local_table.place):
        assert isinstance(error_of(lambda: store.move_tag(ref, "main")), InvalidInputError)
        assert isinstance(error_of(lambda: store.set_metadata(ref, {})), InvalidInputError)


def test_a_branch_is_no_tag(local_table: Table) -> None:
    """A branch cannot be moved as a tag can."""
    store: Any = local_table.place.store()
    with unchanged(local_table.place):
        error = error_of(lambda: store.move_tag(local_table.branch, "main"))
        assert isinstance(error, InvalidInputError)


@pytest.mark.parametrize("name", ["..", "../x", "nobody"])
def test_refs_with_another_name(table: Table, name: str) -> None:
    """A ref whose name was changed by hand changes nothing under any name."""
    store = table.place.store()
    tag, branch = replace(table.tag, name=name), replace(table.branch, name=name)
    with unchanged(table.place):
        for call in (
            lambda: store.move_tag(tag, "main"),
            lambda: store.set_metadata(tag, {"k": "v"}),
            lambda: store.set_metadata(branch, {"k": "v"}),
        ):
            assert isinstance(error_of(call), ConflictError | NotFoundError | InvalidInputError)


@pytest.mark.parametrize(
    ("pattern", "age"),
    [
        (None, timedelta(0)),
        ("", timedelta(0)),
        (3, timedelta(0)),
        ("*", None),
        ("*", 7),
        ("*", "7d"),
        ("*", timedelta(-1)),
    ],
)
def test_what_cannot_expire(local_table: Table, pattern: Any, age: Any) -> None:
    """A sweep takes a pattern and an age, and deletes nothing where it is given neither."""
    store = local_table.place.store()
    with unchanged(local_table.place):
        for dry_run in (True, False):
            error = error_of(lambda dry=dry_run: store.expire_branches(pattern, age, dry_run=dry))
            assert isinstance(error, InvalidInputError)


@pytest.mark.parametrize(
    "moves", [["x"], "text", 3, {"": "/x"}, {None: "/x"}, {"/x": ""}], ids=repr
)
def test_bases_of_another_type(local_table: Table, moves: Any) -> None:
    """The bases to move are a map of places."""
    store = local_table.place.store()
    with unchanged(local_table.place):
        error = error_of(lambda: store.relocate(local_table.elsewhere, bases=moves))
        assert isinstance(error, InvalidInputError)


@pytest.mark.parametrize("base", ["/nowhere", "s3://bucket/x", "gs://bucket/x"])
def test_bases_that_the_version_does_not_have(local_table: Table, base: str) -> None:
    """A base to move that the version does not have is refused with those that it has."""
    store = local_table.place.store()
    with unchanged(local_table.place):
        error = error_of(lambda: store.relocate(local_table.elsewhere, bases={base: "/x"}))
        assert isinstance(error, InvalidInputError)
        assert str(error) == f"{base} is not a base path of this version; it has: none."


NO_PLACES = ["", "a\0b", "s3://", "s3:///x", "memory://", "file://", "s3://b/../c", "\ud800"]
NOT_PLACES = [None, 3, b"/tmp/x", ["/tmp/x"]]
UNPROVEN = [
    "gs://b/x",
    "az://c/x",
    "abfss://c@a/x",
    "http://h/x",
    "hdfs://h/x",
    "ftp://h/x",
    "x://y",
]


@pytest.mark.parametrize("uri", [*NO_PLACES, *NOT_PLACES], ids=ascii)
def test_what_is_no_place(local_table: Table, uri: Any) -> None:
    """What names no place for a dataset is invalid input, to open and as a target."""
    store = local_table.place.store()
    with unchanged(local_table.place):
        for call in (
            lambda: RefStore.open(uri),
            lambda: store.shallow_clone(uri),
            lambda: store.relocate(uri),
        ):
            assert isinstance(error_of(call), InvalidInputError)


@pytest.mark.parametrize("uri", UNPROVEN)
def test_stores_that_are_not_proven(local_table: Table, uri: str) -> None:
    """A scheme whose conditional writes nobody has proven is refused, to open and as a target."""
    store = local_table.place.store()
    with unchanged(local_table.place):
        for call in (
            lambda: RefStore.open(uri),
            lambda: store.shallow_clone(uri),
            lambda: store.relocate(uri),
        ):
            error = error_of(call)
            assert isinstance(error, UnsupportedStoreError)
            assert str(error).startswith(f"{uri.partition(':')[0]}:// has no conditional writes")


@pytest.mark.parametrize(
    "options", ["text", 3, ["a"], {"aws_region": 1}, {"aws_region": None}, {1: "x"}], ids=repr
)
def test_storage_options_of_another_type(options: Any) -> None:
    """Storage options are a map of strings, and are looked at when the store is opened."""
    assert isinstance(error_of(lambda: RefStore.open("s3://b/x", options)), InvalidInputError)


def test_targets_inside_each_other(table: Table) -> None:
    """A clone or a copy that would lie inside its source, or around it, is refused."""
    store, uri = table.place.store(), table.place.uri
    with unchanged(table.place):
        for target in (uri, f"{uri}/", f"{uri}/tree/b", f"{uri}/data", uri.rpartition("/")[0]):
            for call in (store.shallow_clone, store.relocate):
                assert isinstance(error_of(lambda c=call, t=target: c(t)), InvalidInputError)


# -- missing datasets -------------------------------------------------------------------------


@pytest.fixture(
    params=["nothing", "empty folder", "file", "memory", pytest.param("s3", marks=pytest.mark.s3)]
)
def missing(request: pytest.FixtureRequest, local_place: Place) -> Place:
    """A place where no dataset stands."""
    path = Path(local_place.uri)
    if request.param == "empty folder":
        path.mkdir()
    elif request.param == "file":
        path.write_text("no dataset")
    elif request.param == "memory":
        return Place(f"memory://missing/{path.parent.name}")
    elif request.param == "s3":
        chosen: Place = request.getfixturevalue("s3_place")
        return chosen
    return local_place


def test_missing_datasets(missing: Place, local_place: Place, tmp_path: Path) -> None:
    """Where no dataset stands, what needs one says so, nothing is listed, and nothing is made."""
    table = Table.make(Place(str(tmp_path / "another")))
    store = missing.store()
    target = str(tmp_path / "target")
    before = contents(local_place)
    for call in (
        lambda: store.resolve("main"),
        store.files,
        store.manifest,
        store.check,
        lambda: store.check(repair=True),
        lambda: store.create_branch("new"),
        lambda: store.create_tag("new", "main"),
        lambda: store.shallow_clone(target),
        lambda: store.relocate(target),
    ):
        error = error_of(call)
        assert isinstance(error, DatasetNotFoundError)
        assert str(error) == f"There is no Lance dataset at {missing.uri}."
    for call in (
        lambda: store.branch("b"),
        lambda: store.tag("t"),
        lambda: store.resolve("branch:b"),
        lambda: store.resolve("tag:t"),
        lambda: store.resolve("main@1"),
        lambda: store.delete_branch("b"),
        lambda: store.delete_tag("t"),
        lambda: store.create_tag("new", Version("main", 1, 400)),
        lambda: store.move_tag(table.tag, Version("main", 1, 400)),
        lambda: store.set_metadata(table.tag, {"k": "v"}),
        lambda: store.set_metadata(table.branch, {"k": "v"}),
    ):
        assert isinstance(error_of(call), NotFoundError | ConflictError)
    assert store.branches() == store.tags() == []
    assert store.expire_branches("*", timedelta(0)) == []
    assert store.delete_branch("b", missing_ok=True) is False
    assert store.delete_tag("t", missing_ok=True) is False
    assert contents(local_place) == before


# -- corrupt refs -----------------------------------------------------------------------------

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


def put(place: Place, path: str, data: bytes) -> None:
    """Write past the library."""
    if place.uri.startswith("s3://"):
        files = s3fs.S3FileSystem(**s3fs_arguments(place.options))
        files.pipe(f"{place.uri}/{path}", data)
    else:
        target = Path(place.uri, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


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


# -- ref files with hostile names -------------------------------------------------------------

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


# -- damaged heads ----------------------------------------------------------------------------


def edited(change: Callable[[pb.Manifest], object]) -> Callable[[bytes], bytes]:
    def edit(data: bytes) -> bytes:
        [position] = struct.unpack_from("<q", data, len(data) - 16)
        [size] = struct.unpack_from("<I", data, position)
        message = pb.Manifest.FromString(data[position + 4 : position + 4 + size])
        change(message)
        body = message.SerializeToString()
        return data[:position] + struct.pack("<I", len(body)) + body + data[-16:]

    return edit


def flag(reader: int, writer: int) -> Callable[[bytes], bytes]:
    def change(message: pb.Manifest) -> None:
        message.reader_feature_flags |= reader
        message.writer_feature_flags |= writer

    return edited(change)


UNREADABLE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "without its end": lambda data: data[:-1],
    "foreign": lambda data: b"\x89PNG\r\n\x1a\n" * 50,
    "text": lambda data: b"this is no manifest\n" * 20,
    "newer for readers": flag(1 << 40, 0),
    "newer for all": flag(1 << 40, 1 << 40),
}
NEWER = {"newer for readers", "newer for all"}


def head_path(place: Place) -> Path:
    return min(Path(place.uri, "_versions").glob("*.manifest"))


def damage(place: Place, how: Callable[[bytes], bytes]) -> None:
    path = head_path(place)
    path.write_bytes(how(path.read_bytes()))


@pytest.fixture(params=UNREADABLE)
def unreadable(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.parametrize("branch", ["main", "b"])
def test_an_unreadable_head_changes_nothing(
    local_table: Table, unreadable: str, branch: str
) -> None:
    """What needs a head that cannot be read says so of the version, and leaves no trace."""
    place = local_table.place
    damage(place if branch == "main" else place.branch(branch), UNREADABLE[unreadable])
    revision = "main" if branch == "main" else f"branch:{branch}"
    store = place.store()
    with unchanged(place):
        for call in (
            lambda: store.files(revision),
            lambda: store.manifest(revision),
            lambda: store.relocate(local_table.elsewhere, revision),
            lambda: store.create_branch("new", revision),
            lambda: store.shallow_clone(local_table.elsewhere, revision),
        ):
            error = error_of(call)
            assert isinstance(error, FormatError)
            assert f"{revision}@2" in str(error)
            assert (error.kind is ErrorKind.UNSUPPORTED_FEATURE) is (unreadable in NEWER)


@pytest.mark.parametrize("branch", ["main", "b"])
def test_an_unreadable_head_does_not_stop_fsck(
    local_table: Table, unreadable: str, branch: str
) -> None:
    """fsck names a version that cannot be read among its findings, and looks at all the rest."""
    place = local_table.place
    damage(place if branch == "main" else place.branch(branch), UNREADABLE[unreadable])
    put(place, layout.tag_ref("bad"), b"{")
    version = "main@2" if branch == "main" else f"branch:{branch}@2"
    for repair in (False, True):
        found = {(one.code, one.subject) for one in place.store().check(repair=repair).findings}
        assert ("unreadable-version", version) in found
        assert ("unreadable-ref", "tag bad") in found


def test_an_unreadable_head_stops_no_other_ref(local_table: Table, unreadable: str) -> None:
    """Refs are listed, read, tagged, moved and deleted without a look into a damaged head."""
    damage(local_table.place, UNREADABLE[unreadable])
    store = local_table.place.store()
    assert store.resolve("main").number == 2
    assert [one.name for one in store.branches() if not one.broken] == ["b", "b/c"]
    assert store.create_tag("new", "main@1").version == 1
    assert store.move_tag(store.tag("new"), "branch:b").branch == "b"
    assert store.delete_tag("new")
    assert store.delete_tag("kept")
    assert store.delete_branch("b/c")
    assert store.create_branch("old", "main@1").parent_version == 1
    assert store.delete_branch("b")


def test_a_head_that_only_newer_writers_touch(local_table: Table) -> None:
    """A head with an unknown writer flag is read, but neither forked, cloned nor relocated."""
    place = local_table.place
    damage(place, flag(0, 1 << 40))
    store = place.store()
    assert len(store.files()) == 2
    with unchanged(place):
        for call in (
            lambda: store.create_branch("new"),
            lambda: store.shallow_clone(local_table.elsewhere),
            lambda: store.relocate(local_table.elsewhere),
        ):
            error = error_of(call)
            assert isinstance(error, FormatError)
            assert error.kind is ErrorKind.UNSUPPORTED_FEATURE


def test_a_head_that_names_a_base_it_lacks(local_table: Table) -> None:
    """A version whose files cannot be found by its own manifest is damaged, and fsck says so."""
    place = local_table.place
    damage(place, edited(lambda head: setattr(head.fragments[0].files[0], "base_id", 77)))
    store = place.store()
    with unchanged(place):
        for call in (store.files, lambda: store.relocate(local_table.elsewhere)):
            error = error_of(call)
            assert isinstance(error, FormatError)
            assert "names base path 77, which its manifest lacks" in str(error)
        found = {(one.code, one.subject) for one in store.check().findings}
        assert ("unreadable-version", "main@2") in found


def test_a_base_that_cannot_be_reached_does_not_stop_fsck(local_table: Table) -> None:
    """A base path on a store that this library does not know is a finding, and no end of fsck."""
    place = local_table.place
    damage(
        place,
        edited(lambda head: head.base_paths.add(id=7, path="gs://b/x", is_dataset_root=True)),
    )
    put(place, layout.tag_ref("bad"), b"{")
    found = place.store().check().findings
    assert ("unreadable-ref", "tag bad") in {(one.code, one.subject) for one in found}


@pytest.mark.parametrize("path", ["../../outside", "../../../deep/outside", "/tmp/outside"])
def test_a_manifest_with_paths_that_lead_out(local_table: Table, path: str) -> None:
    """A version whose files lie outside its folders is not copied, to nowhere."""
    place = local_table.place
    put(place, "outside", b"secret")
    put(place, "../outside", b"secret")
    damage(place, edited(lambda head: setattr(head.fragments[0].files[0], "path", path)))
    deep = f"{local_table.elsewhere}/a/b"
    with unchanged(place):
        assert isinstance(error_of(lambda: place.store().relocate(deep)), FormatError)


@pytest.mark.parametrize(
    "name",
    [
        f"{2**64 - 1 - 3:020d}.manifest#1",
        f"{2**64 - 1 - 3:020d}.manifest#17",
        f"{2**64 - 1 - 3:020d}.manifest.tmp",
        f"{2**64 - 1 - 3:020d}",
        ".tmpWzC1Ca",
        "99999999999999999999.manifest",
        "00000000000000000000.txt",
        "d123.manifest",
    ],
)
def test_what_a_killed_writer_left_beside_the_manifests(local_table: Table, name: str) -> None:
    """A half-written manifest, as pylance stages one on disk, hides no version and is none."""
    for folder in ("_versions", "tree/b/_versions"):
        put(local_table.place, f"{folder}/{name}", b"")
    store = local_table.place.store()
    assert local_table.place.values() == [1, 2, 3, 4]
    assert store.resolve("main") == replace(
        store.resolve("main@2"), manifest_size=head_path_size(local_table.place)
    )
    assert store.resolve("branch:b").number == 2
    assert store.create_branch("new").parent_version == 2
    assert {one.code for one in store.check().findings} == set()


def head_path_size(place: Place) -> int:
    return Path(place.uri, layout.manifest_path("main", 2)).stat().st_size


# -- stores that say no -----------------------------------------------------------------------


@pytest.fixture
def s3_table(s3_place: Place) -> Table:
    return Table.make(s3_place)


@pytest.mark.s3
@pytest.mark.parametrize(
    "wrong",
    [
        {"aws_access_key_id": "nobody"},
        {"aws_secret_access_key": "not-the-secret"},
        {"aws_session_token": "expired"},
        {"aws_skip_signature": "true"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_wrong_credentials(s3_table: Table, wrong: dict[str, str]) -> None:
    """Whom the server does not know is denied, by every call, in one sentence."""
    options = {**s3_table.place.options, **wrong}
    if "aws_session_token" in wrong:
        options["aws_access_key_id"] = "temporary"
    store = RefStore.open(s3_table.place.uri, options)
    with unchanged(s3_table.place):
        for error in errors_of(s3_table.calls(store)).values():
            assert isinstance(error, StorageError)
            assert error.kind is ErrorKind.ACCESS_DENIED
            assert "check the credentials" in str(error)


@pytest.mark.s3
def test_no_credentials(s3_table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any credentials, given or in the environment, access is denied at once."""
    for key in [key for key in os.environ if key.startswith("AWS_")]:
        monkeypatch.delenv(key)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    options = {key: s3_table.place.options[key] for key in ("aws_endpoint", "aws_region")}
    store = RefStore.open(s3_table.place.uri, options)
    with unchanged(s3_table.place):
        for error in errors_of(s3_table.calls(store)).values():
            assert error.kind is ErrorKind.ACCESS_DENIED


@pytest.mark.s3
def test_a_missing_bucket(s3_table: Table, s3: S3Server) -> None:
    """A bucket that is not there holds no dataset, is named, and is not made."""
    place = Place("s3://nobucket/table", s3.storage_options())
    for name, error in errors_of(s3_table.calls(place.store())).items():
        assert isinstance(error, DatasetNotFoundError | ConflictError), name
        assert "nobucket" in str(error), name
    store = s3_table.place.store()
    with unchanged(s3_table.place):
        for call in (store.shallow_clone, store.relocate):
            error = error_of(lambda call=call: call(place.uri))
            assert isinstance(error, DatasetNotFoundError)
            assert "nobucket" in str(error)
    files = s3fs.S3FileSystem(**s3fs_arguments(s3.storage_options()), skip_instance_cache=True)
    assert "nobucket" not in files.ls("", refresh=True)


@pytest.mark.s3
def test_an_unreachable_endpoint(s3_table: Table) -> None:
    """Where nothing listens, a call ends within seconds."""
    options = {**s3_table.place.options, "aws_endpoint": "http://127.0.0.1:9"}
    store = RefStore.open(s3_table.place.uri, options)
    with unchanged(s3_table.place):
        for call in (
            store.branches,
            lambda: store.create_branch("new"),
            lambda: store.move_tag(s3_table.tag, Version("main", 2, 400)),
            lambda: store.set_metadata(s3_table.branch, {"k": "v"}),
        ):
            began = time.monotonic()
            error = error_of(call)
            assert isinstance(error, StorageError)
            assert error.kind is ErrorKind.STORAGE
            assert time.monotonic() - began < 10


class Page(BaseHTTPRequestHandler):
    """A web page, whatever is asked: what a wrong port or a captive portal answers."""

    protocol_version = "HTTP/1.1"
    status = 200

    def answer(self) -> None:
        page = b"<html><body>Welcome</body></html>"
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.send_response(self.status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture(params=[200, 301, 404])
def page_port(request: pytest.FixtureRequest) -> Iterator[int]:
    handler = type("Handler", (Page,), {"status": request.param})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.mark.s3
def test_a_server_that_speaks_no_s3(s3_table: Table, page_port: int) -> None:
    """A web server that answers with a page is no dataset, and no write to it is believed."""
    options = {**s3_table.place.options, "aws_endpoint": f"http://127.0.0.1:{page_port}"}
    store = RefStore.open(s3_table.place.uri, options)
    with unchanged(s3_table.place):
        for call in s3_table.writes(store).values():
            error_of(call)
        error_of(lambda: store.resolve("main"))
        error_of(lambda: store.tag("t"))


@pytest.fixture(scope="session")
def read_only_bucket(s3: S3Server) -> str:
    """A bucket that everybody may read and list, and only the owner may write to."""
    files = s3fs.S3FileSystem(**s3fs_arguments(s3.storage_options()))
    arn = f"arn:aws:s3:::{READ_ONLY_BUCKET}"
    allow = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": ["s3:GetObject", "s3:ListBucket"],
        "Resource": [arn, f"{arn}/*"],
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
    files.call_s3("create_bucket", Bucket=READ_ONLY_BUCKET)
    files.call_s3("put_bucket_policy", Bucket=READ_ONLY_BUCKET, Policy=policy)
    return READ_ONLY_BUCKET


@pytest.mark.s3
def test_read_only_s3(s3: S3Server, s3_place: Place, read_only_bucket: str) -> None:
    """Who may only read does read, and is denied every write in one sentence."""
    uri = s3_place.uri.replace(BUCKET, read_only_bucket)
    table = Table.make(Place(uri, s3.storage_options()))
    reader = {"aws_endpoint": s3.storage_options()["aws_endpoint"], "aws_skip_signature": "true"}
    store = RefStore.open(uri, reader)
    with unchanged(table.place):
        for call in table.reads(store).values():
            call()
        for error in errors_of(table.writes(store)).values():
            assert isinstance(error, StorageError)
            assert error.kind is ErrorKind.ACCESS_DENIED
        assert store.check(repair=True).clean


def _as_nobody() -> None:
    """Drop root, to which no permission applies, once what is imported late is imported."""
    importlib.import_module(f"{open_storage.__module__}.local")
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def _outcomes(uri: str, branch: Branch, tag: Tag) -> dict[str, Exception | None]:
    table = Table(Place(uri), branch, tag)
    store = table.place.store()
    outcomes: dict[str, Exception | None] = {}
    for name, call in {**table.reads(store), **table.writes(store)}.items():
        try:
            call()
        except Exception as error:
            outcomes[name] = error
        else:
            outcomes[name] = None
    return outcomes


@pytest.fixture
def shared_table() -> Iterator[Table]:
    """A dataset in a folder that another user can get to."""
    folder = Path(tempfile.mkdtemp(prefix="lancerefs-shared-"))
    folder.chmod(0o755)
    try:
        yield Table.make(Place(str(folder / "table")))
    finally:
        set_modes(folder, folders=0o755, files=0o644)
        shutil.rmtree(folder)


def set_modes(root: Path, *, folders: int, files: int) -> None:
    """Set the mode of all there is, so that what lies deeper comes before what leads to it."""
    for path in sorted([root, *walk(root)], reverse=True):
        path.chmod(folders if stat.S_ISDIR(path.stat().st_mode) else files)


def walk(root: Path) -> Iterator[Path]:
    root.chmod(0o755)
    for path in root.iterdir():
        yield path
        if path.is_dir():
            yield from walk(path)


def outcomes_of(table: Table) -> dict[str, Exception | None]:
    """What the calls come to in a process that has no more rights than anybody."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=_as_nobody) as pool:
        return pool.submit(_outcomes, table.place.uri, table.branch, table.tag).result()


def test_read_only_disk(shared_table: Table) -> None:
    """On a disk that may only be read, reads work, and every write is denied in one sentence."""
    set_modes(Path(shared_table.place.uri).parent, folders=0o555, files=0o444)
    with unchanged(shared_table.place):
        outcomes = outcomes_of(shared_table)
    for name in shared_table.reads(shared_table.place.store()):
        assert outcomes.pop(name) is None, name
    for name, error in outcomes.items():
        assert isinstance(error, StorageError), name
        assert error.kind is ErrorKind.ACCESS_DENIED, name
        assert str(error).startswith("Access denied at "), name


@pytest.mark.parametrize(
    ("folders", "files"),
    [(0o000, 0o000), (0o555, 0o000), (0o444, 0o444)],
    ids=["closed", "files closed", "names only"],
)
def test_unreadable_disk(shared_table: Table, folders: int, files: int) -> None:
    """On a disk that may not be read, no call takes what it cannot see for absent."""
    set_modes(Path(shared_table.place.uri), folders=folders, files=files)
    outcomes = outcomes_of(shared_table)
    if folders == 0o555:  # these need no more than the names of files
        for name in ("branch_names", "tag_names", "resolve head", "resolve number"):
            assert outcomes.pop(name) is None, name
    for name, error in outcomes.items():
        assert isinstance(error, StorageError), f"{name}: {error!r}"
        assert error.kind is ErrorKind.ACCESS_DENIED, name


def test_folders_that_show_names_only(shared_table: Table) -> None:
    """A folder whose files may be listed, and not looked at, is one to which access is denied."""
    for folder in (layout.VERSIONS, layout.BRANCH_REFS, layout.TAG_REFS):
        Path(shared_table.place.uri, folder).chmod(0o444)
    for name, error in outcomes_of(shared_table).items():
        assert isinstance(error, StorageError), f"{name}: {error!r}"
        assert error.kind is ErrorKind.ACCESS_DENIED, name


# -- stores without conditional writes --------------------------------------------------------


@pytest.fixture(scope="session")
def open_server() -> Iterator[S3Server]:
    """A real S3 server that takes unsigned requests, so that a proxy may change them."""
    with s3_server(anonymous=True) as server:
        yield server


@pytest.fixture
def careless(open_server: S3Server, s3_place: Place) -> Iterator[tuple[Table, S3Proxy]]:
    """A table on a store that does every write, whatever its conditions."""
    options = open_server.storage_options()
    table = Table.make(Place(s3_place.uri, options))
    with S3Proxy(open_server.port) as proxy:
        proxy.rewrite = without_conditions
        yield table, proxy


def without_conditions(head: bytes) -> bytes:
    lines = head.split(b"\r\n")
    return b"\r\n".join(
        line for line in lines if not line.lower().startswith((b"if-match", b"if-none-match"))
    )


@pytest.mark.s3
def test_a_store_without_conditional_writes(careless: tuple[Table, S3Proxy]) -> None:
    """A store that ignores conditions is refused by every write, before it changes anything."""
    table, proxy = careless
    options = {**table.place.options, "aws_endpoint": f"http://127.0.0.1:{proxy.port}"}
    store = RefStore.open(table.place.uri, options)
    with unchanged(table.place):
        for call in table.reads(store).values():
            call()
        for name, error in errors_of(table.writes(store)).items():
            assert isinstance(error, UnsupportedStoreError), name
            assert "ignores the condition of a " in str(error), name
    bucket = s3fs.S3FileSystem(**s3fs_arguments(table.place.options), skip_instance_cache=True)
    assert not bucket.exists(f"{table.place.uri}/{layout.PROBE}")


@pytest.mark.s3
def test_a_store_that_keeps_one_condition_only(careless: tuple[Table, S3Proxy]) -> None:
    """Each verb is proven by itself: a store that can only create is refused where it replaces."""
    table, proxy = careless
    proxy.rewrite = lambda head: head.replace(b"If-Match:", b"X-Match:").replace(
        b"if-match:", b"x-match:"
    )
    options = {**table.place.options, "aws_endpoint": f"http://127.0.0.1:{proxy.port}"}
    store = RefStore.open(table.place.uri, options)
    assert store.create_tag("new", "main").version == 2
    with unchanged(table.place):
        for call in (
            lambda: store.move_tag(table.tag, "main@2"),
            lambda: store.set_metadata(table.branch, {"k": "v"}),
            lambda: store.delete_branch("b/c"),
            lambda: store.delete_tag("t"),
        ):
            assert isinstance(error_of(call), UnsupportedStoreError)


@pytest.mark.s3
def test_a_careless_store_that_does_not_delete(careless: tuple[Table, S3Proxy]) -> None:
    """Where the probe cannot be removed again either, the call still ends in one typed error."""
    table, proxy = careless
    options = {**table.place.options, "aws_endpoint": f"http://127.0.0.1:{proxy.port}"}
    store = RefStore.open(table.place.uri, options)

    def no_deletes(request: Request) -> Fault | None:
        return "drop request" if request.kind == "DELETE" else None

    with proxy.breaking(no_deletes), unchanged(table.place):
        error_of(lambda: store.create_tag("new", "main"))


# -- secrets ----------------------------------------------------------------------------------


@pytest.mark.s3
def test_secrets_are_nowhere(s3_table: Table, caplog: pytest.LogCaptureFixture) -> None:
    """No repr, no message, no traceback and no log line shows a secret, whatever goes wrong."""
    marked = "MARKED-SECRET-0123456789"
    options = {
        **s3_table.place.options,
        "aws_secret_access_key": marked,
        "aws_session_token": "MARKED-TOKEN-0123456789",
    }
    store = RefStore.open(s3_table.place.uri, options)
    good = s3_table.place.store()
    secrets = [marked, s3_table.place.options["aws_secret_access_key"]]
    with caplog.at_level(logging.DEBUG):
        errors = list(errors_of(s3_table.calls(store)).values())
        unreachable = RefStore.open(
            s3_table.place.uri, {**options, "aws_endpoint": "http://127.0.0.1:9"}
        )
        errors.append(error_of(lambda: unreachable.resolve("main")))
        for call in s3_table.reads(good).values():
            call()
        good.create_tag("new", "main")
    shown = []
    for one in (store, good):
        dataset = one._dataset
        shown += [f"{part!r} {part}" for part in (one, dataset, dataset.storage)]
        shown += [repr(dataset.elsewhere(s3_table.elsewhere))]
    for error in errors:
        shown += [repr(error), str(error), repr(vars(error)), *traceback.format_exception(error)]
    for secret in (*secrets, "MARKED-TOKEN"):
        assert [text for text in shown if secret in text] == []
    logged = [record.getMessage() for record in caplog.records]  # botocore's own shows the token
    for secret in secrets:
        assert [text for text in logged if secret in text] == []


def test_secrets_are_not_in_refused_options() -> None:
    """An error about storage options names the key, and never shows a value."""
    for options in ({"aws_secret_access_key": ["MARKED-SECRET"]}, {1: "MARKED-SECRET"}):
        error = error_of(lambda options=options: RefStore.open("s3://b/x", options))
        assert "MARKED-SECRET" not in "".join(traceback.format_exception(error))


def test_names_of_files_here_are_the_librarys() -> None:
    """The files that are left out of comparisons are the two that the store keeps for itself."""
    assert {"_refs/.lancerefs.lock", "_refs/lancerefs.probe"} == OURS
    assert file_name("a/b") == "a%2Fb.json"


def test_invalid_names_are_value_errors() -> None:
    """Who knows nothing of this library catches a bad name as a ValueError."""
    with pytest.raises(ValueError, match="is not a branch name"):
        RefStore.open("/nowhere").branch("a b")
    assert issubclass(InvalidRefNameError, InvalidInputError)
