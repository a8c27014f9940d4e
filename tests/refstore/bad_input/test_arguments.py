"""Names, revisions and other arguments that cannot be."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_lancerefs.refstore import (
    ConflictError,
    InvalidInputError,
    InvalidRefNameError,
    NotFoundError,
    RefNotFoundError,
    RefStore,
    Revision,
    UnsupportedStoreError,
    Version,
)
from airflow_provider_lancerefs.refstore.names import file_name
from tests.refstore.bad_input.expecting import (
    OURS,
    Call,
    Table,
    error_of,
    errors_of,
    unchanged,
)
from tests.refstore.strategies import HOSTILE_NAMES
from tests.services.proxy import S3Proxy
from tests.tables import Place


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


def test_names_of_files_here_are_the_librarys() -> None:
    """The files that are left out of comparisons are the two that the store keeps for itself."""
    assert {"_refs/.lancerefs.lock", "_refs/lancerefs.probe"} == OURS
    assert file_name("a/b") == "a%2Fb.json"


def test_invalid_names_are_value_errors() -> None:
    """Who knows nothing of this library catches a bad name as a ValueError."""
    with pytest.raises(ValueError, match="is not a branch name"):
        RefStore.open("/nowhere").branch("a b")
    assert issubclass(InvalidRefNameError, InvalidInputError)
