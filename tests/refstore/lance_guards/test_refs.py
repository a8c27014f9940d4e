"""How pylance writes, reads and refuses refs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lance import LanceDataset

from tests.refstore.lance_guards.looking import (
    BRANCH,
    NIL_IDENTIFIER,
    OLD_BRANCH,
    SNAKE_BRANCH,
    SNAKE_TAG,
    TAG,
    files,
    manifest_file,
    put_ref,
    read_ref,
    ref_file,
    rows,
    sweep,
    write,
)

BAD_NAMES = ["", ".", "a..b", "a b", "a+b", "a%2Fb", "a/", "a//b", "🙂", "a.lock"]


def test_ref_files_are_camel_case(parent: LanceDataset) -> None:
    """pylance writes camelCase keys, its times as below, and the size of the source's manifest."""
    parent.create_branch("b")
    parent.tags.create("t", 2)
    branch, tag = read_ref(parent, "branches", "b"), read_ref(parent, "tags", "t")
    size = manifest_file(parent.uri).stat().st_size
    [[version, life]] = branch.pop("identifier")["version_mapping"]
    assert version == 2
    assert re.fullmatch("[0-9a-f]{32}", life)
    assert isinstance(branch.pop("createAt"), int)
    assert branch == {
        "parentBranch": None,
        "parentVersion": 2,
        "manifestSize": size,
        "metadata": {},
    }
    updated = tag.pop("updatedAt")
    assert tag.pop("createdAt") == updated
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", updated)
    assert tag == {"branch": None, "version": 2, "manifestSize": size, "metadata": {}}


def test_children_are_found_by_identifier(parent: LanceDataset) -> None:
    """A child is known by an identifier that is its parent's plus one (version, life) pair."""
    write(parent.create_branch("p").uri, 7)
    parent.create_branch("c", ("p", None))
    outer, inner = (read_ref(parent, "branches", name) for name in "pc")
    lives = inner["identifier"]["version_mapping"]
    assert lives[:-1] == outer["identifier"]["version_mapping"]
    assert lives[-1][0] == inner["parentVersion"] == 3
    with pytest.raises(OSError, match="Branch p is referenced by"):
        parent.branches.delete("p")
    put_ref(parent, "branches", "c", {**inner, "identifier": {"version_mapping": lives[1:]}})
    parent.branches.delete("p")


@pytest.mark.parametrize(
    ("name", "changes", "life"),
    [
        ("old", {}, "a04512096bed5ee91b674366368a0130"),
        ("old", {"identifier": NIL_IDENTIFIER}, "a04512096bed5ee91b674366368a0130"),
        ("old", {"manifestSize": 1, "metadata": {"k": "v"}}, "a04512096bed5ee91b674366368a0130"),
        ("other", {}, "0930a031e3e544087f803214bbc250a5"),
        ("old", {"parentBranch": "x"}, "3678bb87430b63537d32bef724fba7d8"),
        ("old", {"parentVersion": 2}, "d348cd7aed822fb6ad872d58b4c2c61f"),
        ("old", {"createAt": 1_700_000_001}, "a04511096bed5d361b674466368a02e3"),
    ],
)
def test_synthetic_identifier(
    parent: LanceDataset, name: str, changes: dict[str, Any], life: str
) -> None:
    """A branch file without identifier gets version 0 and a hash of name, parent and time."""
    put_ref(parent, "branches", name, {**OLD_BRANCH, **changes})
    assert parent.branches.list()[name]["branch_identifier"] == [(0, life)]


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("branches", SNAKE_BRANCH, "missing field `parentVersion`"),
        ("tags", SNAKE_TAG, "missing field `manifestSize`"),
        ("branches", {**BRANCH, "metadata": {"k": 1}}, "expected a string"),
        ("tags", {**TAG, "metadata": {"k": 1}}, "expected a string"),
    ],
)
def test_bodies_refused(parent: LanceDataset, kind: str, body: object, text: str) -> None:
    """Snake_case keys and metadata that is not all strings make listing raise."""
    put_ref(parent, kind, "r", body)
    with pytest.raises(RuntimeError, match=text):
        getattr(parent, kind).list()


@pytest.mark.parametrize(("kind", "least"), [("branches", OLD_BRANCH), ("tags", TAG)])
def test_unknown_keys_are_dropped(parent: LanceDataset, kind: str, least: dict[str, Any]) -> None:
    """pylance reads past unknown keys, and replace_metadata drops them with the old metadata."""
    put_ref(parent, kind, "r", {**least, "unknown": 1, "metadata": {"old": "1"}})
    refs = getattr(parent, kind)
    assert refs.list()["r"]["metadata"] == {"old": "1"}
    refs.replace_metadata("r", {"new": "2"})
    assert "unknown" not in read_ref(parent, kind, "r")
    assert read_ref(parent, kind, "r")["metadata"] == {"new": "2"}


@pytest.mark.parametrize(("name", "text"), [("broken", "expected struct"), ("é", "%25C3%25A9")])
def test_one_unlistable_tag(parent: LanceDataset, name: str, text: str) -> None:
    """One unparsable or non-ASCII tag stops listing tags, deleting any branch, and cleanup."""
    parent.create_branch("b")
    parent.tags.create(name, 2)
    assert parent.tags.get_version(name) == 2
    if name == "broken":
        put_ref(parent, "tags", name, "not an object")
    for call in (parent.tags.list, lambda: parent.branches.delete("b"), lambda: sweep(parent.uri)):
        with pytest.raises((RuntimeError, ValueError, OSError), match=text):
            call()


def test_stray_files_under_refs_disturb_nothing(parent: LanceDataset) -> None:
    """Files of our own in _refs, and files beside the refs not named .json, disturb no call."""
    parent.create_branch("b")
    parent.tags.create("t", 1)
    strays = {".lancerefs.lock", "lancerefs.probe", "branches/x.tmp", "tags/x.tmp"}
    for stray in strays:
        Path(parent.uri, "_refs", stray).write_text("x")
    parent.create_branch("c")
    assert (set(parent.branches.list()), set(parent.tags.list())) == ({"b", "c"}, {"t"})
    parent.branches.delete("c")
    parent.tags.delete("t")
    sweep(parent.uri)
    assert rows(parent.uri) == [0, 1, 2, 3, 4, 5]
    assert files(parent.uri, "_refs") == {"branches/b.json", *strays}


@pytest.mark.parametrize("name", ["feature/é.1", "①", "_refs", "a.lock/b", "main/x"])
def test_branch_names_accepted(parent: LanceDataset, name: str) -> None:
    """A branch's file name is percent-encoded, its folder under tree/ is the bare name."""
    assert parent.create_branch(name).uri == f"{parent.uri}/tree/{name}"
    assert ref_file(parent, "branches", name).is_file()
    assert manifest_file(f"{parent.uri}/tree/{name}").is_file()
    assert set(parent.branches.list()) == {name}


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_refused(parent: LanceDataset, name: str) -> None:
    """A segment that is only '.' passes as a branch name and fails as a path, the rest by rule."""
    with pytest.raises(OSError, match="illegal character" if name == "." else "Ref is invalid"):
        parent.create_branch(name)
    with pytest.raises(OSError, match="Ref is invalid"):
        parent.tags.create(name, 1)


def test_names_of_one_kind_only(parent: LanceDataset) -> None:
    """Only a tag may be called main, only a branch may have inner slashes or dots at its ends."""
    with pytest.raises(OSError, match="reserved for the default branch"):
        parent.create_branch("main")
    for name in ("main", "latest"):
        parent.tags.create(name, 1)
    for name in ("a/b", ".a", "a."):
        parent.create_branch(name)
        with pytest.raises(OSError, match="Ref is invalid"):
            parent.tags.create(name, 1)


ERRORS: dict[str, tuple[Callable[[LanceDataset], object], type[Exception]]] = {
    "tag t already exists": (lambda at: at.tags.create("t", 1), ValueError),
    "tag x does not exist": (lambda at: at.tags.delete("x"), ValueError),
    "version main:99 does not exist": (lambda at: at.tags.create("x", 99), ValueError),
    "Branch x does not exist": (lambda at: at.branches.delete("x"), ValueError),
    "Branch b is referenced by tags": (lambda at: at.branches.delete("b"), OSError),
    "Please file a bug report": (lambda at: at.create_branch("b"), OSError),
    "b/_versions/1.manifest was not found": (lambda at: at.create_branch("b", 1), OSError),
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors_are_told_apart_by_text(parent: LanceDataset, text: str) -> None:
    """Ref errors are bare OSError or ValueError, and a taken branch name is not called taken."""
    parent.create_branch("b")
    parent.tags.create("t", ("b", None))
    call, error = ERRORS[text]
    with pytest.raises(error, match=text) as caught:
        call(parent)
    assert type(caught.value) is error
