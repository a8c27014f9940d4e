"""What is refused leaves both sides as they were; a plan says so before."""

from __future__ import annotations

import pytest

from airflow_provider_lancerefs.refstore import (
    BranchState,
    PublishRefusedError,
    PublishStep,
    RefNotFoundError,
    RefStore,
    RefusalCode,
    UnsupportedStoreError,
    versions,
)
from tests.refstore.publishing.acts import (
    Act,
    adds_another_column,
    adds_column,
    appends,
    both,
    casts,
    cleans,
    compacts,
    contents,
    deletes,
    fills_column,
    indexes_empty_column,
    nothing,
    renames,
    replaces_schema,
    start,
    updates,
)
from tests.tables import Place

REFUSED: dict[str, tuple[Act, Act]] = {
    "row_conflict": (deletes("n = 1"), deletes("n = 1")),
    "fragment_gone": (deletes("n = 1"), compacts),
    "fragment_rewritten": (adds_column, adds_column),
    "schema_diverged": (adds_column, appends(7)),
    "parent_replaced": (appends(10), lambda place: place.overwrite(8)),
    "parent_history_gone": (appends(10), both(compacts, cleans)),
    "rename_with_rows": (both(renames, deletes("k = 1")), nothing),
    "replaced_with_deletions": (both(replaces_schema, deletes("x = 'b'")), nothing),
    "cast_with_removed_rows": (both(casts, deletes("n < 4")), nothing),
    "values_with_schema_change": (both(adds_another_column, fills_column), nothing),
}
STARTS = {
    "cast_with_removed_rows": adds_column,
    "values_with_schema_change": indexes_empty_column,
}


class TestRefusals:
    @pytest.mark.parametrize("code", list(REFUSED))
    def test_a_refusal_leaves_both_sides_as_they_were(self, place: Place, code: str) -> None:
        """The plan says it before, the error after; nothing was written, and the branch is open."""
        ours, theirs = REFUSED[code]
        store, branch = start(place, before=STARTS.get(code, nothing))
        ours(branch)
        theirs(place)
        plan = store.plan_publish("b")
        before = contents(place)
        with pytest.raises(PublishRefusedError) as refused:
            store.publish("b")
        assert plan.refusal is not None
        assert refused.value.plan == plan
        assert refused.value.code == plan.refusal.code == code
        assert str(refused.value) == plan.refusal.reason
        assert contents(place) == before
        assert store.branch("b").state is BranchState.OPEN

    def test_a_refusal_names_version_operation_fragment_and_rows(self, place: Place) -> None:
        """What to look at is in the sentence."""
        store, branch = start(place)
        branch.delete("n in (1, 2)")
        place.append(7)
        place.delete("n in (2, 3)")
        refusal = store.plan_publish("b").refusal
        assert refusal is not None
        for part in ("1 of the same rows", "fragment 0", "main@4", "delete"):
            assert part in refusal.reason

    def test_required_writers(self, place: Place) -> None:
        """Until each has noted itself on the branch, nothing is published."""
        store, branch = start(place)
        branch.append(10)
        store.set_metadata(store.branch("b"), {"lancerefs.writers": "load, clean"})
        with pytest.raises(PublishRefusedError, match="score did not write") as refused:
            store.publish("b", require_writers=["load", "score"])
        assert refused.value.code is RefusalCode.WRITERS_MISSING
        store.set_metadata(store.branch("b"), {"lancerefs.writers": '["load", "score"]'})
        assert store.publish("b", require_writers=["load", "score"]).published

    def test_what_came_after_a_publish_needs_a_new_branch(self, place: Place) -> None:
        """A branch is published once; the same version again is the first result."""
        store, branch = start(place)
        branch.append(10)
        store.publish("b")
        branch.append(11)
        with pytest.raises(PublishRefusedError, match="needs a new branch") as refused:
            store.publish("b")
        assert refused.value.code is RefusalCode.ALREADY_PUBLISHED
        assert place.values() == [1, 2, 3, 4, 5, 6, 10]

    def test_a_missing_file(self, place: Place) -> None:
        """A data file that is not there is found before anything is written."""
        store, branch = start(place)
        branch.append(10)
        storage = store._dataset.storage
        storage.delete_many(storage.list("tree/b/data/"))
        with pytest.raises(PublishRefusedError) as refused:
            store.publish("b")
        assert refused.value.code is RefusalCode.MISSING_FILE

    def test_a_fork_that_is_gone_on_both_sides(self, place: Place) -> None:
        """Without the fork nobody knows what the branch changed."""
        store, branch = start(place)
        branch.append(10)
        place.append(7)
        storage = store._dataset.storage
        for name in ("main", "b"):
            storage.delete_many([versions.list_manifests(storage, name)[2]])
        with pytest.raises(PublishRefusedError) as refused:
            store.publish("b")
        assert refused.value.code is RefusalCode.FORK_GONE

    def test_a_store_that_lance_cannot_reach(self) -> None:
        """Memory is this process's own."""
        with pytest.raises(UnsupportedStoreError):
            RefStore.open("memory://somewhere").publish("b")
        with pytest.raises(RefNotFoundError):
            RefStore.open("memory://somewhere").plan_publish("b")


class TestPlans:
    def test_a_plan_writes_nothing(self, place: Place) -> None:
        """Not one object differs afterwards, refs included."""
        store, branch = start(place)
        both(updates("n = 1"), appends(10))(branch)
        before = contents(place, but="!")
        plan = store.plan_publish("b")
        assert contents(place, but="!") == before
        assert (plan.step, plan.refusal, plan.published) == (PublishStep.UPDATE, None, None)
        assert (plan.difference.rows_added, plan.difference.rows_removed) == (2, 1)
        assert plan.difference.fragments_changed == 1
        assert plan.files_to_copy == len(plan.difference.files_added) == 2
        assert plan.bytes_to_copy > 0

    def test_a_plan_of_what_is_published_says_so(self, place: Place) -> None:
        """The parent's version, and no refusal."""
        store, branch = start(place)
        branch.append(10)
        result = store.publish("b")
        plan = store.plan_publish("b")
        assert (plan.published, plan.refusal) == (result.version, None)

    def test_diff(self, place: Place) -> None:
        """Fragments, files, rows and columns of any two versions."""
        store, branch = start(place)
        assert not store.diff("main", "branch:b")
        adds_column(branch)
        difference = store.diff("main", "branch:b")
        assert difference.schema.added == ("m",)
        assert difference.fragments_changed == len(difference.files_added) == 2
        assert store.diff("branch:b", "main").schema.dropped == ("m",)
