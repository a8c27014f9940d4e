"""Both ways with pylance: what one writes the other reads, lists, writes to and deletes."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from airflow_provider_lancerefs.refstore import Branch, Tag
from tests.tables import Place

NAMES = ["plain", "with/slash", "v1.2-rc_3", "é/日本", "a/b/c", "x.y/z"]


@pytest.mark.parametrize("name", NAMES)
def test_our_branch_is_pylance_s_branch(place: Place, name: str) -> None:
    """pylance lists, checks out, writes to, tags and deletes a branch that we made."""
    place.create([1]).append(2)
    store = place.store()
    branch = store.create_branch(name, metadata={"dag": "d"})
    dataset = place.open()
    (listed,) = dataset.branches.list().values()
    assert listed["parent_branch"] is None
    assert listed["parent_version"] == 2
    assert listed["branch_identifier"] == [tuple(pair) for pair in branch.identifier]
    assert listed["metadata"]["dag"] == "d"
    checked_out = dataset.checkout_version((name, None))
    assert sorted(checked_out.to_table()["n"].to_pylist()) == [1, 2]
    place.branch(name).append(3)
    dataset.tags.create("here", (name, None))
    assert store.tag("here").target == store.resolve(f"branch:{name}")
    dataset.tags.delete("here")
    place.open().branches.delete(name)
    assert store.branch_names() == []
    assert store.check().clean


@pytest.mark.parametrize("name", NAMES)
def test_pylance_s_branch_is_our_branch(place: Place, name: str) -> None:
    """We list, read, fork, tag, change and delete a branch that pylance made."""
    place.create([1]).append(2)
    place.open().create_branch(name, 1)
    store = place.store()
    (branch,) = store.branches()
    assert isinstance(branch, Branch)
    assert (branch.name, branch.parent, branch.parent_version) == (name, "main", 1)
    assert store.create_branch(name, "main@1") == branch
    store.set_metadata(branch, {"seen": "yes"})
    assert place.open().branches.list()[name]["metadata"]["seen"] == "yes"
    child = store.create_branch("child", f"branch:{name}")
    assert child.identifier[:-1] == branch.identifier
    store.create_tag("t", f"branch:{name}")
    assert place.open().tags.list()["t"]["branch"] == name
    assert store.check().clean
    store.delete_tag("t")
    store.delete_branch("child")
    assert store.delete_branch(name)
    assert place.open().branches.list() == {}
    assert [entry.path for entry in store._dataset.storage.list("tree/")] == []


def test_branches_of_branches_mix(place: Place) -> None:
    """A chain of branches made in turn by both has one lineage, and protects its parents."""
    place.create([0])
    store = place.store()
    store.create_branch("b0")
    for step in range(1, 5):
        place.branch(f"b{step - 1}").append(step)
        if step % 2:
            place.open().create_branch(f"b{step}", (f"b{step - 1}", None))
        else:
            store.create_branch(f"b{step}", f"branch:b{step - 1}")
    assert place.branch("b4").values() == [0, 1, 2, 3, 4]
    assert [len(store.branch(f"b{step}").identifier) for step in range(5)] == [1, 2, 3, 4, 5]
    with pytest.raises(Exception, match="b1"):
        place.open().branches.delete("b0")
    assert store.check().clean
    for step in reversed(range(5)):
        if step % 2:
            store.delete_branch(f"b{step}")
        else:
            place.open().branches.delete(f"b{step}")
    assert store._dataset.storage.list("tree/") == []


def test_tags_go_both_ways(place: Place) -> None:
    """Tags made, moved and deleted by one are seen so by the other."""
    place.create([1]).append(2)
    store = place.store()
    dataset = place.open()
    store.create_tag("ours", "main@1", metadata={"k": "v"})
    dataset.tags.create("theirs", 1)
    theirs = store.tag("theirs")
    assert (theirs.branch, theirs.version, theirs.manifest_size) == (
        "main",
        1,
        store.resolve("main@1").manifest_size,
    )
    assert dataset.tags.get_version("ours") == 1
    dataset.tags.update("ours", 2)
    moved = store.tag("ours")
    assert (moved.version, moved.metadata) == (2, {"k": "v"})
    store.move_tag(store.tag("theirs"), "main@2")
    assert dataset.tags.list()["theirs"]["version"] == 2
    dataset.tags.delete("ours")
    store.delete_tag("theirs")
    assert store.tags() == []
    assert dataset.tags.list() == {}


def test_stable_row_ids_survive_a_fork(place: Place) -> None:
    """A branch of a dataset with stable row ids keeps the ids of its rows."""
    place.create([1, 2, 3], enable_stable_row_ids=True)
    place.store().create_branch("a")
    place.branch("a").append(4)
    rows = place.branch("a").open().to_table(with_row_id=True)
    assert rows["_rowid"].to_pylist() == [0, 1, 2, 3]
    assert place.store().check().clean


def test_indices_answer_on_a_branch(place: Place) -> None:
    """A branch made by us uses its parent's index, and its check finds the index files."""
    place.create(range(200))
    place.open().create_scalar_index("n", "BTREE")
    store = place.store()
    store.create_branch("a")
    branch = place.branch("a").open()
    assert "ScalarIndexQuery" in branch.scanner(filter="n = 7").explain_plan()
    assert branch.to_table(filter="n = 7")["n"].to_pylist() == [7]
    assert store.check().clean


def test_v1_manifests_are_read(place: Place) -> None:
    """Datasets with the older manifest naming resolve, fork, tag, and pass a check."""
    place.create([1], enable_v2_manifest_paths=False)
    for value in range(2, 13):
        place.append(value)
    store = place.store()
    assert store.resolve("main").number == 12
    assert store.resolve("main@2").number == 2
    store.create_branch("a", "main@9")
    assert place.branch("a").values() == list(range(1, 10))
    store.create_tag("v1", "main")
    assert place.open().tags.get_version("v1") == 12
    assert len(store.files("main")) == 12
    assert store.check().clean
    place.open().migrate_manifest_paths_v2()
    assert store.resolve("main").number == 12
    assert store.check().clean


def test_a_ref_without_identifier_gets_pylance_s_own(place: Place) -> None:
    """For a ref of an older Lance both see the same identifier, and our next write keeps it."""
    place.create([1])
    store = place.store()
    storage = store._dataset.storage
    branch = store.create_branch("old")
    path = "_refs/branches/old.json"
    body = json.loads(storage.read(path).data)
    del body["identifier"]
    storage.replace(path, json.dumps(body).encode(), expected=branch.token)
    seen = [tuple(pair) for pair in store.branch("old").identifier]
    assert place.open().branches.list()["old"]["branch_identifier"] == seen
    place.open().create_branch("theirs", ("old", None))
    store.create_branch("ours", "branch:old")
    for child in ("theirs", "ours"):
        assert store.branch(child).is_child_of(store.branch("old"))
        with pytest.raises(Exception, match=child):
            store.delete_branch("old")
        store.delete_branch(child)
    store.set_metadata(store.branch("old"), {"x": "y"})
    assert "identifier" in json.loads(storage.read(path).data)
    assert place.open().branches.list()["old"]["branch_identifier"] == seen


def test_snake_case_refs_are_read_and_mended(place: Place) -> None:
    """Files with the keys of the format's table are read, and written as pylance reads them."""
    place.create([1]).append(2)
    store = place.store()
    storage = store._dataset.storage
    created = store.create_branch("a", "main@1")
    spelt = {
        "parent_branch": None,
        "parent_version": 1,
        "create_at": int(created.created_at.timestamp()),
        "manifest_size": created.manifest_size,
        "future": {"kept": True},
    }
    storage.replace("_refs/branches/a.json", json.dumps(spelt).encode(), expected=created.token)
    storage.put_new(
        "_refs/tags/t.json",
        json.dumps({"branch": None, "version": 1, "manifest_size": 9}).encode(),
    )
    tag = store.tag("t")
    assert isinstance(tag, Tag)
    assert (store.branch("a").parent_version, tag.version, tag.manifest_size) == (1, 1, 9)
    store.set_metadata(store.branch("a"), {"x": "y"})
    store.move_tag(tag, "main@2")
    written = json.loads(storage.read("_refs/branches/a.json").data)
    assert written["parentVersion"] == 1
    assert written["future"] == {"kept": True}
    assert "parent_version" not in written
    assert set(place.open().branches.list()) == {"a"}
    assert place.open().tags.get_version("t") == 2


def test_pylance_s_cleanup_spares_what_our_refs_name(place: Place) -> None:
    """Fork versions and tagged versions outlive cleanup, because pylance reads our refs."""
    place.create([1]).append(2).append(3)
    store = place.store()
    store.create_branch("a", "main@1")
    store.create_tag("v2", "main@2")
    place.overwrite(9)
    place.clean_up()
    assert place.branch("a").values() == [1]
    assert sorted(place.open().checkout_version("v2").to_table()["n"].to_pylist()) == [1, 2]
    assert store.check().clean


def test_merge_insert_and_compaction_on_a_branch(place: Place) -> None:
    """The folder of a branch of ours is an ordinary dataset for every pylance write."""
    place.create([1, 2]).append(3)
    store = place.store()
    store.create_branch("a")
    branch = place.branch("a").open()
    branch.merge_insert("n").when_not_matched_insert_all().execute(pa.table({"n": [3, 4]}))
    branch.optimize.compact_files()
    assert place.branch("a").values() == [1, 2, 3, 4]
    assert place.values() == [1, 2, 3]
    assert store.check().clean
