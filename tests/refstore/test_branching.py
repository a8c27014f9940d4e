from __future__ import annotations

import io
from datetime import timedelta

import pytest

from airflow_provider_lancerefs.refstore import (
    AlreadyExistsError,
    BranchState,
    ConflictError,
    DatasetNotFoundError,
    InvalidInputError,
    InvalidRefNameError,
    RefNotFoundError,
    VersionNotFoundError,
    branching,
    committing,
    refs,
)
from tests.tables import Place

NO_TIME = timedelta(0)


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
        before = place.files_below("")
        with pytest.raises(error):
            place.store().create_branch("a", source)
        assert place.files_below("") == before

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
        assert place.files_below("") == []

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
