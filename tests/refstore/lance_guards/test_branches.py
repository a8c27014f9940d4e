"""How pylance makes, keeps and loses branches and clones."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation

from tests.refstore.lance_guards.looking import (
    BRANCH,
    OLD_BRANCH,
    clone,
    edit_manifest,
    files,
    fragments,
    manifest,
    overwrite_and_sweep,
    put_ref,
    read_ref,
    rows,
    sweep,
    table,
    versions,
    write,
)


def test_a_branch_path_is_a_dataset_of_its_own(parent: LanceDataset) -> None:
    """Every kind of write at tree/<name> lands on that branch and touches nothing of the root."""
    uri = parent.create_branch("b").uri
    before = {one for one in files(parent.uri) if not one.startswith("tree/")}
    write(uri, 9)
    lance.dataset(uri).merge_insert("a").when_not_matched_insert_all().execute(table(9, 10))
    lance.dataset(uri).delete("a = 0")
    lance.dataset(uri).optimize.compact_files()
    assert rows(uri) == [1, 2, 3, 4, 5, 9, 10]
    latest = write(uri, 1, mode="overwrite").version
    assert parent.checkout_version(("b", None)).version == latest
    assert {one for one in files(parent.uri) if not one.startswith("tree/")} == before


def test_create_branch_writes_the_head_before_the_ref(parent: LanceDataset) -> None:
    """create_branch forks its handle's version, and leaves that head where it meets a ref."""
    write(parent.uri, 9)
    assert parent.create_branch("a").version == 2
    put_ref(parent, "branches", "b", BRANCH)
    with pytest.raises(OSError, match="branch b already exists"):
        parent.create_branch("b")
    assert versions(f"{parent.uri}/tree/b") == [2]


def test_a_head_without_a_ref_bricks_the_name(parent: LanceDataset) -> None:
    """A head without a ref can be neither made nor deleted, and keeps no version alive."""
    clone(parent.uri, "b", 1)
    with pytest.raises(OSError, match="Please file a bug report"):
        parent.create_branch("b", 1)
    with pytest.raises(ValueError, match="Branch b does not exist"):
        parent.branches.delete("b")
    sweep(parent.uri)
    assert versions(parent.uri) == [2]


def test_a_ref_without_a_head_harms_nothing(parent: LanceDataset) -> None:
    """A ref without a head stands in no one's way, deletes, and keeps no version alive."""
    put_ref(parent, "branches", "b", BRANCH)
    parent.create_branch("c")
    assert set(parent.branches.list()) == {"b", "c"}
    parent.branches.delete("c")
    sweep(parent.uri)
    assert versions(parent.uri) == [2]
    parent.branches.delete("b")
    assert parent.branches.list() == {}


def test_ref_first_then_clone_makes_a_whole_branch(parent: LanceDataset) -> None:
    """A ref file and then a committed Clone are a branch that opens, is kept alive, and deletes."""
    put_ref(parent, "branches", "b", BRANCH)
    assert clone(parent.uri, "b", 1).version == 1
    sweep(parent.uri)
    assert versions(parent.uri) == [1, 2]
    assert parent.checkout_version(("b", None)).count_rows() == 3
    parent.branches.delete("b")
    assert not Path(parent.uri, "tree", "b").exists()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_clone_refuses_an_existing_head(parent: LanceDataset, version: int) -> None:
    """Committing a Clone where any manifest stands raises OSError and leaves the head alone."""
    write(parent.uri, 9)
    clone(parent.uri, "b", 2)
    with pytest.raises(OSError, match=r"should not enter|was not found"):
        clone(parent.uri, "b", version)
    assert versions(f"{parent.uri}/tree/b") == [2]


def test_clone_reads_its_source_at_ref_path(parent: LanceDataset) -> None:
    """A Clone takes version ref_version at ref_path; ref_name and read_version do not choose it."""
    root, source = parent.uri, write(parent.create_branch("p").uri, 77).uri
    wrong = LanceOperation.Clone(True, "p", 3, root, "wrong")
    with pytest.raises(OSError, match="was not found"):
        LanceDataset.commit(f"{root}/tree/wrong", wrong, read_version=3)
    write(root, 88)
    assert rows(LanceDataset.commit(f"{root}/tree/wrong", wrong, read_version=1).uri)[-1] == 88
    right = LanceOperation.Clone(True, "p", 3, source, "right")
    assert rows(LanceDataset.commit(f"{root}/tree/right", right, read_version=3).uri)[-1] == 77
    with pytest.raises(ValueError, match="read_version is required"):
        LanceDataset.commit(f"{root}/tree/other", right)


def test_a_branch_of_a_branch_has_two_bases(parent: LanceDataset) -> None:
    """create_branch from a branch records the branch's folder as source and as second base."""
    source = write(parent.create_branch("p").uri, 77).uri
    child = parent.create_branch("c", ("p", None))
    expected = LanceOperation.Clone(True, "p", 3, source, "c")
    assert child.read_transaction(3).operation == expected
    bases = {key: (base.path, base.name) for key, base in child.base_paths().items()}
    assert bases == {0: (parent.uri, None), 1: (source, "p")}
    assert [one.files[0].base_id for one in fragments(child.uri)] == [0, 0, 1]


def test_deleting_the_outer_of_two_nested_names(parent: LanceDataset) -> None:
    """Deleting a while a/b lives leaves a's head behind, and a cannot be made again."""
    parent.create_branch("a")
    parent.create_branch("a/b")
    parent.branches.delete("a")
    assert versions(f"{parent.uri}/tree/a") == versions(f"{parent.uri}/tree/a/b") == [2]
    with pytest.raises(OSError, match="Please file a bug report"):
        parent.create_branch("a")


def test_deleting_a_branch_deletes_what_else_is_there(parent: LanceDataset) -> None:
    """Deleting branch a/data deletes a's data; deleting c/d takes heads in tree/c without a ref."""
    outer = write(parent.create_branch("a").uri, 9)
    parent.create_branch("a/data")
    parent.create_branch("c/d")
    clone(parent.uri, "c/e", 2)
    parent.branches.delete("a/data")
    parent.branches.delete("c/d")
    assert files(outer.uri, "data") == files(parent.uri, "tree", "c") == set()


@pytest.mark.parametrize("recreated", [False, True])
def test_a_late_write(parent: LanceDataset, recreated: bool) -> None:
    """A write to a deleted branch makes a tree without a ref, or lands in the name's next life."""
    late = parent.create_branch("b")
    parent.branches.delete("b")
    if recreated:
        parent.create_branch("b")
    late.insert(table(9))
    assert versions(late.uri) == ([2, 3] if recreated else [3])
    assert set(parent.branches.list()) == ({"b"} if recreated else set())


@pytest.mark.parametrize("identified", [True, False])
def test_cleanup_keeps_the_fork_version_only(parent: LanceDataset, identified: bool) -> None:
    """Cleanup keeps the version whose files an identified branch uses, and no later one."""
    branch = parent.create_branch("b")
    if not identified:
        body = read_ref(parent, "branches", "b")
        put_ref(parent, "branches", "b", {key: body[key] for key in OLD_BRANCH})
    overwrite_and_sweep(parent.uri, 7, 8)
    assert versions(parent.uri) == ([2, 4] if identified else [4])
    overwrite_and_sweep(branch.uri, 9)
    sweep(parent.uri)
    assert versions(parent.uri) == [4]


def test_cleanup_of_a_branch_keeps_the_fork_version_of_its_child(parent: LanceDataset) -> None:
    """A child branch keeps its fork version in the parent branch alive."""
    uri = write(parent.create_branch("b").uri, 6).uri
    child = parent.create_branch("c", ("b", None))
    overwrite_and_sweep(uri, 7, 8)
    assert versions(uri) == [3, 5]
    assert rows(child.uri) == [0, 1, 2, 3, 4, 5, 6]


def test_one_handle_is_not_for_two_threads(parent: LanceDataset) -> None:
    """A handle used while it is being changed raises "Already borrowed"."""
    caught: list[BaseException | None] = []

    def column() -> Iterator[pa.RecordBatch]:
        with ThreadPoolExecutor() as pool:
            caught.append(pool.submit(parent.tags.create, "t", 1).exception())
        yield pa.record_batch({"b": range(6)})

    schema = pa.schema([("b", pa.int64())])
    parent.add_columns(pa.RecordBatchReader.from_batches(schema, column()))
    assert [str(error) for error in caught] == ["Already borrowed"]


def test_a_moved_branch_works_but_has_no_refs(parent: LanceDataset) -> None:
    """A branch copied to a root path reads and appends; refs and cleanup need field 20 cut out."""
    branch = write(parent.create_branch("moved").uri, 77)
    uri = str(shutil.copytree(branch.uri, f"{parent.uri}-elsewhere"))
    assert write(uri, 78).version == 4
    assert rows(uri) == [0, 1, 2, 3, 4, 5, 77, 78]
    assert manifest(uri)[20] == [b"moved"]
    at, before = lance.dataset(uri), files(uri)
    for call in (
        at.tags.list,
        at.branches.list,
        lambda: at.tags.create("t"),
        lambda: at.tags.create("t", 4),
        lambda: at.create_branch("n"),
        lambda: at.checkout_version(("main", None)),
        lambda: sweep(uri),
    ):
        with pytest.raises((OSError, ValueError), match="Can not find the root location of branch"):
            call()
    assert files(uri) == before
    for path in Path(uri, "_versions").glob("*.manifest"):
        edit_manifest(path, lambda body: body.replace(b"\xa2\x01\x05moved", b""))
    lance.dataset(uri).tags.create("t", 2)
    assert lance.dataset(uri).create_branch("n").count_rows() == 8
    sweep(uri)


def test_clones_of_a_branch_have_no_branch_field(parent: LanceDataset) -> None:
    """shallow_clone and deep_clone of a branch make datasets that take tags."""
    branch = parent.create_branch("b")
    for make in (branch.shallow_clone, branch.deep_clone):
        made = make(f"{parent.uri}-{make.__name__}", 2)
        assert 20 not in manifest(made.uri)
        made.tags.create("t")


def test_memory_does_not_outlive_a_handle() -> None:
    """A memory:// dataset is gone for the next open, a shared-memory:// one can be branched."""
    private, shared = (f"{scheme}://{uuid4().hex}/t" for scheme in ("memory", "shared-memory"))
    write(private, 1, mode="create")
    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(private)
    write(shared, 1, mode="create")
    clone(shared, "b", 1)
    assert rows(f"{shared}/tree/b") == [1]


def test_a_tag_keeps_the_files_of_a_clone_elsewhere(parent: LanceDataset) -> None:
    """A shallow clone elsewhere reads while a tag holds its source version, and breaks without."""
    elsewhere = parent.shallow_clone(f"{parent.uri}-elsewhere", 2).uri
    write(parent.uri, 9, mode="overwrite").tags.create("pin", 2)
    sweep(parent.uri)
    assert rows(elsewhere) == [0, 1, 2, 3, 4, 5]
    parent.tags.delete("pin")
    sweep(parent.uri)
    with pytest.raises(ValueError, match="Not found"):
        rows(elsewhere)
