from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_provider_lancerefs.refstore import (
    BranchState,
    ConflictError,
    ErrorKind,
    RefNotFoundError,
    RefStore,
    RefusedError,
    deleting,
    refs,
)
from tests.tables import Place


class TestDelete:
    def test_a_branch_goes_with_all_its_files(self, place: Place) -> None:
        """After a delete neither the ref nor a file under the branch's folder is left."""
        place.create([1])
        store = place.store()
        store.create_branch("a")
        place.branch("a").append(2)
        place.branch("a").delete("n = 1")
        assert store.delete_branch("a")
        assert place.files_below("tree/") == []
        assert store.branch_names() == []
        assert place.values() == [1]

    def test_what_is_gone_can_be_deleted_when_asked_so(self, place: Place) -> None:
        """Deleting twice is an error, unless the caller does not mind."""
        place.create([1])
        store = place.store()
        with pytest.raises(RefNotFoundError):
            store.delete_branch("a")
        assert store.delete_branch("a", missing_ok=True) is False

    def test_the_name_is_free_again(self, place: Place) -> None:
        """After a delete the name can be taken by a branch of any source."""
        place.create([1]).append(2)
        store = place.store()
        first = store.create_branch("a")
        place.branch("a").append(9)
        store.delete_branch("a")
        second = store.create_branch("a", "main@1")
        assert second.identifier != first.identifier
        assert place.branch("a").values() == [1]

    def test_a_tagged_branch_is_kept(self, place: Place) -> None:
        """A tag keeps its branch; the refusal names the tag, and the branch stays open."""
        place.create([1])
        store = place.store()
        store.create_branch("a")
        store.create_tag("v1", "branch:a")
        with pytest.raises(RefusedError, match="needed by tag 'v1'") as refusal:
            store.delete_branch("a", force=True)
        assert refusal.value.kind is ErrorKind.IN_USE
        assert refusal.value.blockers == ("tag 'v1'",)
        assert store.branch("a").state is BranchState.OPEN
        assert place.branch("a").values() == [1]
        store.delete_tag("v1")
        assert store.delete_branch("a")

    def test_a_parent_is_kept(self, place: Place) -> None:
        """A child keeps its parent; a grandchild does not keep its grandparent's name."""
        place.create([1])
        store = place.store()
        store.create_branch("a")
        store.create_branch("b", "branch:a")
        with pytest.raises(RefusedError, match="needed by branch 'b'"):
            store.delete_branch("a")
        assert place.branch("b").values() == [1]
        store.delete_branch("b")
        assert store.delete_branch("a")

    def test_a_branch_of_the_same_name_as_a_dead_parent_is_no_parent(self, place: Place) -> None:
        """A child of an earlier life does not keep a later one."""
        place.create([1])
        store = place.store()
        store.create_branch("a")
        child = store.create_branch("b", "branch:a")
        storage = store._dataset.storage
        refs.remove(storage, store.branch("a"))
        storage.delete_many(storage.list("tree/a/"))
        store.create_branch("a")
        assert not child.is_child_of(store.branch("a"))
        assert store.delete_branch("a")

    def test_a_nested_branch_keeps_its_files(self, place: Place) -> None:
        """'a' and 'a/b' share a folder; deleting one leaves the other whole, either way."""
        place.create([1])
        store = place.store()
        for outer, inner in (("a", "a/b"), ("c/d", "c")):
            store.create_branch(outer)
            store.create_branch(inner)
            place.branch(outer).append(2)
            place.branch(inner).append(3)
            store.delete_branch(outer)
            assert place.branch(inner).values() == [1, 3]
            assert store.check().clean
            store.create_branch(outer)
            assert place.branch(outer).values() == [1]

    def test_a_protected_branch_needs_force(self, place: Place) -> None:
        """Protection is a metadata key; only force deletes past it."""
        place.create([1])
        store = place.store()
        store.create_branch("a", metadata={"lancerefs.protected": "true"})
        with pytest.raises(RefusedError) as refusal:
            store.delete_branch("a")
        assert refusal.value.kind is ErrorKind.PROTECTED
        assert store.delete_branch("a", force=True)

    def test_a_branch_being_published_is_kept(self, place: Place) -> None:
        """Publishing and deleting exclude each other."""
        place.create([1])
        store = place.store()
        branch = store.create_branch("a")
        refs.move_state(store._dataset.storage, branch, BranchState.PUBLISHING)
        with pytest.raises(RefusedError, match="being published"):
            store.delete_branch("a", force=True)

    def test_refs_of_a_copied_dataset_are_read(self, local_place: Place, tmp_path: Path) -> None:
        """A copy has new file times in any order; a tag there still keeps its branch."""
        local_place.create([1])
        store = local_place.store()
        store.create_branch("a")
        store.create_tag("v1", "branch:a")
        copy = tmp_path / "copy"
        shutil.copytree(Path(local_place.uri, "_refs"), copy / "_refs")
        shutil.copytree(Path(local_place.uri, "_versions"), copy / "_versions")
        shutil.copytree(Path(local_place.uri, "tree"), copy / "tree")
        with pytest.raises(RefusedError):
            RefStore.open(copy).delete_branch("a")

    def test_a_delete_cut_short_is_finished_by_the_next(self, place: Place) -> None:
        """A branch that somebody began to delete is deleted by the same call."""
        place.create([1])
        store = place.store()
        for state in (BranchState.DELETING, BranchState.REMOVING):
            branch = store.create_branch("a")
            refs.move_state(store._dataset.storage, branch, state)
            with pytest.raises(ConflictError, match="being deleted"):
                store.create_branch("a")
            assert store.delete_branch("a")
            assert place.files_below("tree/") == []

    def test_a_deleter_that_was_paused_harms_no_later_life(self, place: Place) -> None:
        """Whoever marked a branch and slept through its end finds a stranger, and leaves it be."""
        place.create([1]).append(2)
        store = place.store()
        sleeper = deleting._mark(store._dataset, store.create_branch("a"))
        assert store.delete_branch("a")
        store.create_branch("a", "main@1")
        place.branch("a").append(5)
        outcome = deleting.delete_branches(store._dataset, [sleeper])
        assert isinstance(outcome["a"], ConflictError)
        removing = refs.move_state(store._dataset.storage, store.branch("a"), BranchState.OPEN)
        outcome = deleting.delete_branches(store._dataset, [sleeper])
        assert isinstance(outcome["a"], ConflictError)
        assert store.branch("a") == removing
        assert place.branch("a").values() == [1, 5]

    def test_a_broken_ref_does_not_stop_others(self, place: Place) -> None:
        """One unreadable tag or branch file hides nothing and blocks no delete."""
        place.create([1])
        store = place.store()
        storage = store._dataset.storage
        store.create_branch("a")
        storage.put_new("_refs/tags/broken.json", b"{")
        storage.put_new("_refs/branches/broken.json", b"\xff")
        assert [one.broken is not None for one in store.branches()] == [False, True]
        assert store.delete_branch("a")
        assert store.delete_branch("broken", force=True)
        assert store.delete_tag("broken", force=True)
        assert store.branch_names() == store.tag_names() == []

    def test_a_broken_child_keeps_its_parent(self, place: Place) -> None:
        """While a child's ref cannot be read, what its manifest points to is kept."""
        place.create([1])
        store = place.store()
        store.create_branch("a")
        child = store.create_branch("b", "branch:a")
        storage = store._dataset.storage
        storage.replace("_refs/branches/b.json", b"{", expected=child.token)
        with pytest.raises(RefusedError, match="needed by branch 'b'"):
            store.delete_branch("a")
        assert store.branch("a").state is BranchState.OPEN
