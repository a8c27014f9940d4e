from __future__ import annotations

import io
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_lancerefs.refstore import (
    AlreadyExistsError,
    BranchState,
    ConflictError,
    DatasetNotFoundError,
    ErrorKind,
    InvalidInputError,
    InvalidRefNameError,
    RefNotFoundError,
    RefStore,
    RefusedError,
    VersionNotFoundError,
    branching,
    committing,
    deleting,
    refs,
)
from tests.tables import Place

NO_TIME = timedelta(0)


def files_below(place: Place, prefix: str) -> list[str]:
    storage = place.store()._dataset.storage
    return [entry.path for entry in storage.list(prefix)]


class TestCreate:
    def test_a_branch_starts_from_the_head_of_main(self, place: Place) -> None:
        """Without a source a branch forks main's newest version, and shares its rows."""
        place.create([1, 2]).append(3)
        branch = place.store().create_branch("run/1", metadata={"owner": "ann"})
        assert (branch.parent, branch.parent_version) == ("main", 2)
        assert branch.metadata["owner"] == "ann"
        assert branch.state is BranchState.OPEN
        assert place.branch("run/1").values() == [1, 2, 3]

    @pytest.mark.parametrize(
        ("source", "parent", "number", "rows"),
        [
            ("main@1", "main", 1, [1]),
            ("branch:a", "a", 3, [1, 2, 10]),
            ("branch:a@2", "a", 2, [1, 2]),
            ("tag:v1", "main", 1, [1]),
            ("tag:on-a", "a", 3, [1, 2, 10]),
        ],
    )
    def test_any_revision_can_be_a_source(
        self, place: Place, source: str, parent: str, number: int, rows: list[int]
    ) -> None:
        """A version, a branch's head or older version, or a tag: the fork is exactly that."""
        place.create([1]).append(2)
        store = place.store()
        store.create_tag("v1", "main@1")
        store.create_branch("a")
        place.branch("a").append(10)
        store.create_tag("on-a", "branch:a")
        branch = store.create_branch("b", source)
        assert (branch.parent, branch.parent_version) == (parent, number)
        assert place.branch("b").values() == rows

    def test_writes_stay_on_the_branch(self, place: Place) -> None:
        """Main does not see what a branch writes, nor a branch what main writes later."""
        place.create([1])
        place.store().create_branch("a")
        place.branch("a").append(2)
        place.append(3)
        assert place.values() == [1, 3]
        assert place.branch("a").values() == [1, 2]

    def test_a_retry_returns_the_first_try_s_branch(self, place: Place) -> None:
        """The same call again finds its own branch, even after main has moved on."""
        place.create([1])
        store = place.store()
        first = store.create_branch("a")
        place.append(2)
        assert store.create_branch("a") == first
        assert store.create_branch("a", "main@1") == first

    def test_a_retry_after_writes_returns_the_branch_as_it_is(self, place: Place) -> None:
        """Creating again harms nothing that was written meanwhile, cleaned up or not."""
        place.create([1])
        store = place.store()
        first = store.create_branch("a")
        place.branch("a").append(2).append(3)
        assert store.create_branch("a") == first
        assert place.branch("a").values() == [1, 2, 3]

    def test_a_retry_after_a_cleanup_returns_the_branch_as_it_is(self, local_place: Place) -> None:
        """Where the fork was cleaned away, versions younger than the ref are the branch's."""
        local_place.create([1])
        store = local_place.store()
        first = store.create_branch("a")
        local_place.branch("a").append(2).append(3)
        local_place.branch("a").open().cleanup_old_versions(older_than=NO_TIME)
        assert store.create_branch("a") == first
        assert local_place.branch("a").values() == [1, 2, 3]

    @pytest.mark.parametrize("source", ["main@1", "branch:b", "tag:v1"])
    def test_the_same_name_from_another_source_is_refused(self, place: Place, source: str) -> None:
        """A name belongs to one source; the branch that has it stays as it is."""
        place.create([1]).append(2)
        store = place.store()
        store.create_tag("v1", "main@1")
        store.create_branch("b", "main@1")
        first = store.create_branch("a", "main@2")
        with pytest.raises(AlreadyExistsError, match="'a' exists already, forked from main@2"):
            store.create_branch("a", source)
        assert store.branch("a") == first
        assert place.branch("a").values() == [1, 2]

    def test_a_branch_cut_short_is_completed(self, place: Place) -> None:
        """A ref without a head gets its head when the same call is made again."""
        place.create([1]).append(2)
        store = place.store()
        first = store.create_branch("a")
        storage = store._dataset.storage
        storage.delete_many(storage.list("tree/a/"))
        place.append(3)
        assert store.create_branch("a") == first
        assert place.branch("a").values() == [1, 2]

    def test_a_branch_cut_short_whose_source_is_gone_says_so(self, place: Place) -> None:
        """When the version to fork was cleaned away meanwhile, the error names it."""
        place.create([1]).append(2)
        store = place.store()
        store.create_branch("a", "main@1")
        storage = store._dataset.storage
        storage.delete_many(storage.list("tree/a/"))
        place.open().cleanup_old_versions(older_than=NO_TIME, delete_unverified=True)
        with pytest.raises(VersionNotFoundError, match="main@1"):
            store.create_branch("a", "main")
        assert store.delete_branch("a")
        assert store.create_branch("a").parent_version == 2

    @pytest.mark.parametrize(
        ("source", "error"),
        [
            ("main@9", VersionNotFoundError),
            ("branch:none", RefNotFoundError),
            ("branch:none@1", VersionNotFoundError),
            ("tag:none", RefNotFoundError),
            ("trunk", InvalidInputError),
        ],
    )
    def test_a_source_that_is_not_there_changes_nothing(
        self, place: Place, source: str, error: type[Exception]
    ) -> None:
        """A wrong source is said before anything is written."""
        place.create([1])
        before = files_below(place, "")
        with pytest.raises(error):
            place.store().create_branch("a", source)
        assert files_below(place, "") == before

    def test_a_dangling_tag_as_source_takes_the_name_back(self, place: Place) -> None:
        """A tag to a version that is gone fails the fork, and no ref is left behind."""
        place.create([1]).append(2)
        store = place.store()
        store.create_tag("v1", "main@1")
        storage = store._dataset.storage
        storage.delete_many(
            entry for entry in storage.list("_versions/") if "614.manifest" in entry.path
        )
        with pytest.raises(VersionNotFoundError):
            store.create_branch("a", "tag:v1")
        assert store.branch_names() == []

    def test_no_dataset_no_branch(self, place: Place) -> None:
        """Where no dataset stands the error says so, and nothing is made."""
        with pytest.raises(DatasetNotFoundError):
            place.store().create_branch("a")
        assert files_below(place, "") == []

    def test_metadata_of_the_store_s_own_is_refused(self, place: Place) -> None:
        """A caller cannot set a branch's state by its metadata."""
        place.create([1])
        with pytest.raises(InvalidInputError, match="the store's own"):
            place.store().create_branch("a", metadata={"lancerefs.state": "published"})
        assert place.store().branch_names() == []

    def test_a_name_in_another_branch_s_folder_is_refused(self, place: Place) -> None:
        """No branch is made whose folder is one where another branch keeps its files."""
        place.create([1])
        with pytest.raises(InvalidRefNameError, match="'data'"):
            place.store().create_branch("a/data")

    def test_residue_of_a_dead_life_is_reclaimed_when_it_is_old(self, place: Place) -> None:
        """Files without a ref stand in the way for the grace time, and not for longer."""
        place.create([1]).append(2)
        store = place.store()
        first = store.create_branch("a", "main@1")
        place.branch("a").append(5)
        refs.remove(store._dataset.storage, first)
        with pytest.raises(ConflictError, match="another life"):
            store.create_branch("a")
        assert store.branch_names() == []
        patient = place.store(grace=NO_TIME)
        assert patient.create_branch("a").parent_version == 2
        assert place.branch("a").values() == [1, 2]
        assert patient.check().clean

    def test_the_same_fork_of_another_life_is_not_taken_over(self, place: Place) -> None:
        """A fork of the same version may have rows of a dead life on top: it is no head of ours."""
        place.create([1])
        store = place.store()
        refs.remove(store._dataset.storage, store.create_branch("a"))
        place.branch("a").append(666)
        with pytest.raises(ConflictError, match="another life"):
            store.create_branch("a")
        assert place.store(grace=NO_TIME).create_branch("a").parent_version == 1
        assert place.branch("a").values() == [1]

    def test_another_tool_s_branch_is_found_by_its_source(self, place: Place) -> None:
        """A branch that pylance made is the one asked for if its source is."""
        place.create([1]).append(2)
        place.open().create_branch("theirs", 1)
        assert place.store().create_branch("theirs", "main@1").parent_version == 1
        with pytest.raises(AlreadyExistsError):
            place.store().create_branch("theirs", "main@2")

    def test_a_creator_that_slept_through_its_branch_s_end_cleans_up(self, place: Place) -> None:
        """A clone that lands in a later life of the name is taken away, and not called made."""
        place.create([1]).append(2).append(3)
        store = place.store()
        sleeper = store.create_branch("a", "main@3")
        dataset = store._dataset
        store.delete_branch("a")
        store.create_branch("a", "main@2")
        storage = dataset.storage
        hidden = storage.list("tree/a/")
        bodies = {entry.path: storage.read(entry.path).data for entry in hidden}
        storage.delete_many(hidden)
        committing.clone(dataset, sleeper.source, dataset, "a", branching.identity(sleeper))
        for path, data in bodies.items():
            storage.upload(path, io.BytesIO(data))
        assert place.branch("a").values() == [1, 2, 3]
        with pytest.raises(ConflictError, match="deleted by somebody else"):
            branching._confirm(dataset, sleeper)
        assert place.branch("a").values() == [1, 2]
        assert store.check().clean

    def test_a_fork_of_another_branch_is_not_taken_over(self, place: Place) -> None:
        """A version number alone says nothing: the source branch must be the same."""
        place.create([1])
        store = place.store()
        store.create_branch("other")
        place.branch("other").append(7)
        place.append(2)
        refs.remove(store._dataset.storage, store.create_branch("a", "branch:other"))
        with pytest.raises(ConflictError, match="another life"):
            store.create_branch("a", "main@2")


class TestDelete:
    def test_a_branch_goes_with_all_its_files(self, place: Place) -> None:
        """After a delete neither the ref nor a file under the branch's folder is left."""
        place.create([1])
        store = place.store()
        store.create_branch("a")
        place.branch("a").append(2)
        place.branch("a").delete("n = 1")
        assert store.delete_branch("a")
        assert files_below(place, "tree/") == []
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
            assert files_below(place, "tree/") == []

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


class TestMetadata:
    def test_keys_are_set_and_removed(self, place: Place) -> None:
        """Given keys change, None removes, the others stay; the next change needs the new ref."""
        place.create([1])
        store = place.store()
        first = store.create_branch("a", metadata={"x": "1", "y": "2"})
        second = store.set_metadata(first, {"x": None, "z": "3"})
        assert store.branch("a") == second
        assert {key: value for key, value in second.metadata.items() if key in "xyz"} == {
            "y": "2",
            "z": "3",
        }
        with pytest.raises(ConflictError):
            store.set_metadata(first, {"x": "late"})
        assert store.branch("a") == second

    def test_a_branch_can_be_protected_later(self, place: Place) -> None:
        """The protection key can be set and removed; the state key cannot."""
        place.create([1])
        store = place.store()
        branch = store.set_metadata(store.create_branch("a"), {"lancerefs.protected": "true"})
        assert branch.protected
        with pytest.raises(InvalidInputError):
            store.set_metadata(branch, {"lancerefs.state": "open"})
        store.set_metadata(branch, {"lancerefs.protected": None})
        assert store.delete_branch("a")


class TestExpire:
    def test_only_old_and_free_branches_go(self, place: Place) -> None:
        """Matching branches that nothing needs go; the others stay, each with its reason."""
        place.create([1])
        store = place.store()
        for name in ("run/free", "run/tagged", "run/parent", "other"):
            store.create_branch(name)
        store.create_branch("run/kept", metadata={"lancerefs.protected": "true"})
        store.create_branch("child", "branch:run/parent")
        store.create_tag("v1", "branch:run/tagged")
        tried = store.expire_branches("run/*", NO_TIME, dry_run=True)
        assert {one.branch: one.due for one in tried} == {
            "run/free": True,
            "run/kept": False,
            "run/parent": False,
            "run/tagged": False,
        }
        assert len(store.branch_names()) == 6
        swept = store.expire_branches("run/*", NO_TIME)
        assert [one.branch for one in swept if one.deleted] == ["run/free"]
        assert {one.branch: one.reason for one in swept if not one.deleted} == {
            "run/kept": "protected",
            "run/parent": "needed by branch 'child'",
            "run/tagged": "needed by tag 'v1'",
        }
        assert store.branch_names() == ["child", "other", "run/kept", "run/parent", "run/tagged"]
        assert store.check().clean

    def test_young_branches_stay(self, place: Place) -> None:
        """A branch that was written to lately is not swept."""
        place.create([1])
        store = place.store()
        store.create_branch("a")
        (kept,) = store.expire_branches("*", timedelta(hours=1))
        assert (kept.due, kept.reason) == (False, "too young")

    @pytest.mark.parametrize(("pattern", "age"), [("", NO_TIME), ("*", -timedelta(days=1))])
    def test_nonsense_is_refused(self, place: Place, pattern: str, age: timedelta) -> None:
        """An empty pattern or a negative age sweeps nothing."""
        place.create([1])
        with pytest.raises(InvalidInputError):
            place.store().expire_branches(pattern, age)
