"""Calls to be killed in, and some that are planted to be found out."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace

from airflow_provider_lancerefs.refstore import (
    Branch,
    BranchState,
    RefStore,
    RefusedError,
    branching,
    deleting,
    refs,
    versions,
)
from airflow_provider_lancerefs.refstore.committing import clone
from airflow_provider_lancerefs.refstore.dataset import Dataset, now
from airflow_provider_lancerefs.refstore.models import STATE_KEY
from tests.refstore.publishing.calls import NO_TIME, PUBLISH_CALLS


def elsewhere(dataset: Dataset) -> str:
    """Where the calls that make another dataset put it."""
    return f"{dataset.uri}-elsewhere"


def _refused_delete(dataset: Dataset) -> None:
    with contextlib.suppress(RefusedError):
        RefStore(dataset).delete_branch("old")
        raise AssertionError("a branch that is needed was deleted")


def _move_tag(dataset: Dataset) -> None:
    store = RefStore(dataset)
    store.move_tag(store.tag("moving"), "branch:kept")


def _set_metadata(dataset: Dataset) -> None:
    store = RefStore(dataset)
    store.set_metadata(store.branch("kept"), {"colour": "red"})
    store.set_metadata(store.tag("kept-main"), {"colour": "red"})


def _clone_then_ref(dataset: Dataset) -> None:
    """Planted: the halves of a create in pylance's order, so a crash leaves a head of nobody's."""
    if refs.find_branch(dataset.storage, "new") is not None:
        return
    source = versions.resolve(dataset.storage, "main")
    branch = Branch(
        name="new",
        parent=source.branch,
        parent_version=source.number,
        created_at=now().replace(microsecond=0),
        manifest_size=source.manifest_size,
        identifier=((source.number, uuid.uuid4().hex),),
        metadata={STATE_KEY: BranchState.OPEN.value},
    )
    clone(dataset, source, dataset, "new", branching.identity(branch))
    refs.create(dataset.storage, branch)


def _ref_then_files(dataset: Dataset) -> None:
    """Planted: a delete without states, whose crash leaves files that no ref speaks of."""
    branch = refs.find_branch(dataset.storage, "old")
    if branch is None:
        return
    entries = deleting.files_below(dataset, "old")
    refs.remove(dataset.storage, branch)
    dataset.storage.delete_many(entries)


CALLS: Mapping[str, Callable[[Dataset], object]] = {
    "create from main": lambda dataset: RefStore(dataset).create_branch(
        "new", metadata={"owner": "ann"}
    ),
    "create from branch": lambda dataset: RefStore(dataset).create_branch("new", "branch:kept"),
    "create from tag": lambda dataset: RefStore(dataset).create_branch("new", "tag:kept-branch"),
    "create over residue": lambda dataset: RefStore(replace(dataset, grace=NO_TIME)).create_branch(
        "new", "main@2"
    ),
    "delete": lambda dataset: RefStore(dataset).delete_branch("old", missing_ok=True),
    "delete refused": _refused_delete,
    "tag main": lambda dataset: RefStore(dataset).create_tag("new", "main@2", {"owner": "ann"}),
    "tag branch": lambda dataset: RefStore(dataset).create_tag("new", "branch:kept"),
    "move tag": _move_tag,
    "delete tag": lambda dataset: RefStore(dataset).delete_tag("old", missing_ok=True),
    "set metadata": _set_metadata,
    "clone": lambda dataset: RefStore(dataset).shallow_clone(elsewhere(dataset), "branch:kept"),
    "relocate": lambda dataset: RefStore(dataset).relocate(elsewhere(dataset), "branch:kept"),
    "expire": lambda dataset: RefStore(dataset).expire_branches("run/*", NO_TIME),
    "repair": lambda dataset: RefStore(replace(dataset, grace=NO_TIME)).check(
        repair=True, orphan_age=NO_TIME
    ),
    "planted create": _clone_then_ref,
    "planted delete": _ref_then_files,
    **PUBLISH_CALLS,
}
