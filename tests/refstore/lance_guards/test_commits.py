"""What of two commits pylance lets through, and what it makes of files and row ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import pytest
from lance import LanceDataset
from lance.commit import CommitConflictError
from lance.fragment import RowIdSequence

from tests.refstore.lance_guards.looking import (
    branch_in_root,
    files,
    fragments,
    manifest,
    message,
    new_fragments,
    rebased,
    rows,
    sweep,
    update,
    versions,
    write,
)


@pytest.mark.parametrize("published", [True, False])
def test_root_files_of_a_branch(parent: LanceDataset, published: bool) -> None:
    """A branch keeps its files in the root alive, and after it an Update without base id does."""
    branch, before = branch_in_root(parent, 100), files(parent.uri, "data")
    assert fragments(branch.uri)[-1].files[0].base_id == 0
    sweep(parent.uri)
    assert (rows(branch.uri)[-1], files(branch.uri, "data")) == (100, set())
    if published:
        update(parent.uri, 2, rebased(fragments(branch.uri)[2:], None))
    parent.branches.delete("b")
    sweep(parent.uri)
    assert (files(parent.uri, "data") == before, 100 in rows(parent.uri)) == (published, published)


@pytest.mark.parametrize(("given", "kept"), [(0, 3), (3, 3), (50, 50)])
def test_explicit_fragment_ids(parent: LanceDataset, given: int, kept: int) -> None:
    """A new fragment keeps the id it carries, id 0 takes the next, and one in use is refused."""
    write(parent.uri, 9)
    [fragment] = new_fragments(parent.uri, 100)
    with pytest.raises(OSError, match="would produce two fragments with id 2"):
        update(parent.uri, 2, [replace(fragment, id=2)])
    update(parent.uri, 2, [replace(fragment, id=given)])
    write(parent.uri, 101)
    assert [one.id for one in fragments(parent.uri)] == [0, 1, 2, kept, kept + 1]


PARENT_DOES: dict[str, Callable[[str], object]] = {
    "append": lambda root: write(root, 9),
    "delete elsewhere": lambda root: lance.dataset(root).delete("a = 4"),
    "index": lambda root: lance.dataset(root).create_scalar_index("a", "BTREE"),
    "config": lambda root: lance.dataset(root).update_config({"k": "v"}),
    "delete": lambda root: lance.dataset(root).delete("a = 1"),
    "compact": lambda root: lance.dataset(root).optimize.compact_files(),
    "add column": lambda root: lance.dataset(root).add_columns({"b": "a + 1"}),
    "overwrite": lambda root: write(root, 9, mode="overwrite"),
    "restore": lambda root: lance.dataset(root, version=1).restore(),
}
CONFLICTS = {
    "adding": {"add column", "overwrite", "restore"},
    "deleting": {"add column", "overwrite", "restore", "delete", "compact"},
}


def update_from_fork(parent: LanceDataset, kind: str) -> list[int]:
    if kind == "adding":
        update(parent.uri, 2, new_fragments(parent.uri, 100))
    else:
        update(parent.uri, 2, [], parent.get_fragments()[0].delete("a = 0"))
    return rows(parent.uri)


@pytest.mark.parametrize("change", PARENT_DOES)
@pytest.mark.parametrize("kind", CONFLICTS)
def test_update_conflicts(parent: LanceDataset, change: str, kind: str) -> None:
    """An Update is held against every commit since its read_version, and these are conflicts."""
    PARENT_DOES[change](parent.uri)
    if change in CONFLICTS[kind]:
        with pytest.raises(CommitConflictError):
            update_from_fork(parent, kind)
    else:
        found = update_from_fork(parent, kind)
        assert (0 in found, 100 in found) == ((True, True) if kind == "adding" else (False, False))


@pytest.mark.parametrize(
    ("change", "kind", "outcome"),
    [
        ("delete", "deleting", [1, 2, 3, 4, 5, 8]),
        ("compact", "deleting", [0, 1, 2, 3, 4, 5, 8]),
        ("overwrite", "adding", [8, 9, 100]),
    ],
)
def test_cleaned_history_loses_changes_silently(
    parent: LanceDataset, change: str, kind: str, outcome: list[int]
) -> None:
    """Where cleanup took the versions since read_version, conflicts land and lose changes."""
    parent.create_branch("b")
    PARENT_DOES[change](parent.uri)
    write(parent.uri, 8)
    sweep(parent.uri)
    assert versions(parent.uri)[0] == 2
    assert update_from_fork(parent, kind) == outcome


@pytest.mark.parametrize(("carried", "row_id"), [(None, 3), (1, 1)])
def test_row_ids_of_rewritten_rows(tmp_path: Path, carried: int | None, row_id: int) -> None:
    """With stable row ids, a rewritten row keeps its id only if row_id_meta hands it on."""
    dataset = write(str(tmp_path), 1, 2, 3, mode="create", enable_stable_row_ids=True)
    assert (manifest(tmp_path)[9], manifest(tmp_path)[14]) == ([2], [3])
    assert {5, 7, 9} <= set(message(manifest(tmp_path)[2][0]))
    [fragment] = new_fragments(dataset.uri, 20)
    if carried is not None:
        fragment.row_id_meta = RowIdSequence([carried]).to_inline_metadata()
    made = update(dataset.uri, 1, [fragment], dataset.get_fragments()[0].delete("a = 2"))
    assert made.to_table(with_row_id=True)["_rowid"].to_pylist() == [0, 2, row_id]
    meta = fragments(dataset.uri)[-1].row_id_meta
    assert RowIdSequence.from_inline_metadata(meta).to_pyarrow().to_pylist() == [row_id]


def test_target_bases_breaks_a_branch(parent: LanceDataset) -> None:
    """write_dataset with target_bases on a branch writes to the root and records no base id."""
    branch = write(parent.create_branch("b").uri, 9, target_bases=[parent.uri])
    assert fragments(branch.uri)[-1].files[0].base_id is None
    with pytest.raises(ValueError, match="Not found"):
        rows(branch.uri)


def test_indices_are_forked_but_not_published(parent: LanceDataset) -> None:
    """A fork has the parent's indices; one made on the branch does not come with an Update."""
    parent.create_scalar_index("a", "BTREE", name="old")
    branch = branch_in_root(lance.dataset(parent.uri), 100)
    branch.create_scalar_index("a", "BITMAP", name="new")
    assert {one.name for one in branch.describe_indices()} == {"old", "new"}
    made = update(parent.uri, 3, rebased(fragments(branch.uri)[2:], None))
    assert {one.name for one in made.describe_indices()} == {"old"}
