"""Every call on a table of refs, and what bad input comes to: a sentence, and no byte changed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
import s3fs

from airflow_provider_lancerefs.refstore import (
    Branch,
    ErrorKind,
    LanceRefsError,
    RefStore,
    StorageError,
    Tag,
    layout,
)
from airflow_provider_lancerefs.refstore.storage.options import s3fs_arguments
from tests.tables import Place

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


def put(place: Place, path: str, data: bytes) -> None:
    """Write past the library."""
    if place.uri.startswith("s3://"):
        files = s3fs.S3FileSystem(**s3fs_arguments(place.options))
        files.pipe(f"{place.uri}/{path}", data)
    else:
        target = Path(place.uri, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


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
