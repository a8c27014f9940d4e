"""Publishing: what a branch did becomes its parent's, once and whole, or not at all."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.fragment import write_fragments

from airflow_provider_lancerefs.refstore import (
    BranchState,
    ConflictError,
    InvalidInputError,
    LanceRefsError,
    OutcomeUnknownError,
    PublishRefusedError,
    PublishStep,
    RefNotFoundError,
    RefStore,
    RefusalCode,
    RefusedError,
    UnsupportedStoreError,
    carrying,
    committing,
    layout,
    publications,
    publishing,
    refs,
    versions,
)
from airflow_provider_lancerefs.refstore.committing import Landing
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.storage import Blob, Storage
from tests.refstore.faults import Crash, CrashingDataset, Fuse, Mode, Wrapper
from tests.services.proxy import Fault, Request, S3Proxy
from tests.tables import Place

NO_TIME = timedelta(0)
Act = Callable[[Place], object]


def table(*values: int, **columns: list[int]) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64()), **columns})


def nothing(place: Place) -> None:
    """Nobody does anything."""


def start(
    place: Place, name: str = "b", before: Act = nothing, **arguments: object
) -> tuple[RefStore, Place]:
    """Two fragments, 1 to 3 and 4 to 6, and a branch of them."""
    place.create([1, 2, 3], **arguments).append(4, 5, 6)
    before(place)
    store = place.store()
    store.create_branch(name)
    return store, place.branch(name)


def appends(*values: int) -> Act:
    return lambda place: place.append(*values)


def deletes(predicate: str) -> Act:
    return lambda place: place.open().delete(predicate)


def updates(where: str) -> Act:
    return lambda place: place.open().update({"n": "n + 100"}, where=where)


def compacts(place: Place) -> None:
    place.open().optimize.compact_files()


def cleans(place: Place) -> None:
    place.open().cleanup_old_versions(older_than=NO_TIME, delete_unverified=True)


def upserts(place: Place) -> None:
    merge = place.open().merge_insert("n")
    merge.when_matched_update_all().when_not_matched_insert_all().execute(table(3, 30))


def adds_column(place: Place) -> None:
    place.open().add_columns({"m": "n * 2"})


def drops_column(place: Place) -> None:
    place.open().drop_columns(["m"])


def casts(place: Place) -> None:
    place.open().alter_columns({"path": "m", "data_type": pa.int32()})


def renames(place: Place) -> None:
    place.open().alter_columns({"path": "n", "name": "k"})


def indexes(place: Place) -> None:
    place.open().create_scalar_index("n", "BTREE")


def adds_empty_column(place: Place) -> None:
    place.open().add_columns(pa.field("m", pa.int64()))


def indexes_empty_column(place: Place) -> None:
    adds_empty_column(place)
    place.open().create_scalar_index("m", "BTREE")


def fills_column(place: Place) -> None:
    """Values by another file for a fragment, as a backfill writes them."""
    there = place.open()
    values = pa.table({"n": pa.array([1], pa.int64()), "m": pa.array([7], pa.int64())})
    changed, fields = there.get_fragments()[0].update_columns(values, "n", "n")[:2]
    lance.LanceDataset.commit(
        there.uri,
        lance.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields),
        read_version=there.version,
        storage_options=place.options or None,
    )


def adds_another_column(place: Place) -> None:
    place.open().add_columns({"k": "n * 2"})


def replaces_schema(place: Place) -> None:
    lance.write_dataset(
        pa.table({"x": ["a", "b"]}),
        place.uri,
        mode="overwrite",
        storage_options=place.options or None,
    )


def both(*acts: Act) -> Act:
    def act(place: Place) -> None:
        for one in acts:
            one(place)

    return act


def writes_through(store: RefStore, place: Place, branch: str, *values: int) -> None:
    """As a distributed writer does: files into the root, then one commit on the branch."""
    target = store.write_target(branch)
    there = place.branch(branch).open()
    fragments = write_fragments(
        table(*values),
        target.uri,
        schema=there.schema,
        mode="append",
        storage_options=place.options or None,
    )
    for file in (file for fragment in fragments for file in fragment.files):
        file.base_id = target.base_id
    lance.LanceDataset.commit(
        there.uri,
        lance.LanceOperation.Append(fragments),
        read_version=there.version,
        storage_options=place.options or None,
    )


def contents(place: Place, but: str = "_refs/") -> list[tuple[str, int, str]]:
    entries = place.store()._dataset.storage.list("")
    return [(one.path, one.size, one.token) for one in entries if not one.path.startswith(but)]


CHANGES: dict[str, tuple[Act, Act, list[int]]] = {
    "append": (appends(10), both(appends(7), deletes("n = 2")), [1, 3, 4, 5, 6, 7, 10]),
    "append, compacted there": (appends(10), both(deletes("n = 2"), compacts), [1, 3, 4, 5, 6, 10]),
    "append, cleaned there": (appends(10), both(deletes("n = 2"), cleans), [1, 3, 4, 5, 6, 10]),
    "delete": (deletes("n = 1"), deletes("n = 2"), [3, 4, 5, 6]),
    "delete, all gone with theirs": (deletes("n = 1"), deletes("n in (2, 3)"), [4, 5, 6]),
    "update": (updates("n = 1"), deletes("n = 2"), [3, 4, 5, 6, 101]),
    "update of what it wrote": (
        both(updates("n = 1"), updates("n = 101")),
        nothing,
        [2, 3, 4, 5, 6, 201],
    ),
    "merge_insert": (upserts, deletes("n = 2"), [1, 3, 4, 5, 6, 30]),
    "compaction": (compacts, appends(7), [1, 2, 3, 4, 5, 6, 7]),
    "append and delete": (
        both(appends(10, 11), deletes("n = 10")),
        appends(7),
        [1, 2, 3, 4, 5, 6, 7, 11],
    ),
    "overwrite": (lambda place: place.overwrite(8), nothing, [8]),
    "emptied": (deletes("true"), nothing, []),
    "added column": (adds_column, deletes("n = 2"), [1, 3, 4, 5, 6]),
    "added column and rows": (both(adds_column, deletes("n = 1")), deletes("n = 2"), [3, 4, 5, 6]),
    "added column, dropped rows": (both(adds_column, deletes("n < 4")), nothing, [4, 5, 6]),
}


class TestWhatIsPublished:
    @pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable row ids"])
    @pytest.mark.parametrize("change", list(CHANGES))
    def test_every_change_lands_beside_the_parent_s(
        self, place: Place, change: str, stable: bool
    ) -> None:
        """The parent has both sides' changes, reads whole, and needs the branch no more."""
        ours, theirs, expected = CHANGES[change]
        store, branch = start(place, enable_stable_row_ids=stable)
        ours(branch)
        theirs(place)
        result = store.publish("b")
        assert result.published
        assert place.values() == expected
        assert place.open().version == result.version
        place.open().validate()
        assert store.publish("b").already_published
        assert store.delete_branch("b")
        cleans(place)
        assert place.values() == expected

    @pytest.mark.parametrize("change", [renames, drops_column, casts, replaces_schema])
    def test_columns_are_published(self, place: Place, change: Act) -> None:
        """Renamed, dropped and cast columns, and a table with others, are the parent's then."""
        store, branch = start(place, before=adds_column)
        change(branch)
        store.publish("b")
        assert place.open().to_table() == branch.open().to_table()
        place.open().validate()

    def test_a_branch_of_a_branch_goes_into_its_parent(self, place: Place) -> None:
        """Published into the parent branch, and from there into main."""
        store, _ = start(place, "p")
        store.create_branch("p/b", "branch:p")
        place.branch("p/b").append(10)
        assert store.publish("p/b").parent == "p"
        assert store.delete_branch("p/b")
        cleans(place.branch("p"))
        assert place.branch("p").values() == [1, 2, 3, 4, 5, 6, 10]
        assert place.values() == [1, 2, 3, 4, 5, 6]
        assert store.publish("p").files_copied == 0
        assert store.delete_branch("p")
        cleans(place)
        assert place.values() == [1, 2, 3, 4, 5, 6, 10]

    def test_an_unchanged_branch_is_no_error(self, place: Place) -> None:
        """Nothing is committed, and the branch stays open."""
        store, branch = start(place)
        place.append(7)
        result = store.publish("b")
        assert (result.published, result.version) == (False, 3)
        assert place.open().version == 3
        assert store.branch("b").state is BranchState.OPEN
        branch.append(10)
        assert store.publish("b").published

    def test_stable_row_ids_of_old_rows_survive(self, local_place: Place) -> None:
        """Rows that were rewritten keep their ids, new rows between them get fresh ones."""
        store, branch = start(local_place, enable_stable_row_ids=True)
        before = row_ids(local_place)
        both(updates("n = 1"), appends(10), compacts)(branch)
        local_place.append(7)
        store.publish("b")
        after = row_ids(local_place)
        assert {n: after[n] for n in (2, 3, 4, 5, 6)} == {n: before[n] for n in (2, 3, 4, 5, 6)}
        assert after[101] == before[1]
        assert len(set(after.values())) == len(after) == 8

    def test_new_rows_before_old_ones_get_ids_that_nobody_else_gets(
        self, local_place: Place
    ) -> None:
        """Where a compaction put old rows behind new ones, ids are reserved for the new."""
        store, branch = start(local_place, enable_stable_row_ids=True)
        before = row_ids(local_place)
        both(appends(10, 11), updates("n = 1"), compacts)(branch)
        local_place.append(7)
        seven = row_ids(local_place)[7]
        store.publish("b")
        local_place.append(8, 9)
        after = row_ids(local_place)
        assert {n: after[n] for n in (2, 3, 4, 5, 6)} == {n: before[n] for n in (2, 3, 4, 5, 6)}
        assert (after[101], after[7]) == (before[1], seven)
        assert len({*after.values()}) == len(after) == 11
        assert min(after[n] for n in (10, 11)) > seven
        assert max(after.values()) < store.manifest("main").next_row_id
        taken = local_place.open()._take_rows([*after.values()], columns=["n"])
        assert taken["n"].to_pylist() == [*after]

    def test_indices_stay_valid_and_can_take_new_rows_in(self, place: Place) -> None:
        """New fragments are told as unindexed, and are brought in when asked for."""
        store, branch = start(place)
        indexes(place)
        branch.append(10)
        assert store.publish("b").unindexed == 1
        assert place.open().to_table(filter="n = 10").num_rows == 1
        assert place.open().stats.index_stats("n_idx")["num_unindexed_rows"] == 1
        assert store.publish("b", optimize_indices=True).already_published
        assert place.open().stats.index_stats("n_idx")["num_unindexed_rows"] == 0
        store.create_branch("c")
        place.branch("c").append(11)
        assert store.publish("c", optimize_indices=True).unindexed == 0
        assert place.open().stats.index_stats("n_idx")["num_unindexed_rows"] == 0

    @pytest.mark.parametrize("empty", [False, True], ids=["filled", "empty"])
    def test_an_index_forgets_the_values_that_were_rewritten(
        self, local_place: Place, empty: bool
    ) -> None:
        """What another file of a column says is found, and the value before is not."""
        if empty:
            before = indexes_empty_column
        else:
            before = both(adds_column, lambda place: place.open().create_scalar_index("m", "BTREE"))
        store, branch = start(local_place, before=before)
        fills_column(branch)
        store.publish("b")
        there = local_place.open()
        assert there.to_table(filter="m = 7")["n"].to_pylist() == [1]
        assert there.to_table(filter="m = 2").num_rows == 0

    def test_v1_manifests(self, place: Place) -> None:
        """A dataset with the old names of manifests is published into as well."""
        store, branch = start(place, enable_v2_manifest_paths=False)
        branch.append(10)
        store.publish("b")
        assert place.values() == [1, 2, 3, 4, 5, 6, 10]
        assert store.publish("b").already_published

    def test_large_deletion_vectors(self, local_place: Place) -> None:
        """Vectors that Lance writes as bitmaps are read and united."""
        local_place.create(range(200_000))
        store = local_place.store()
        store.create_branch("b")
        local_place.branch("b").delete("n % 3 = 0")
        local_place.delete("n % 3 = 1")
        store.publish("b")
        assert local_place.values() == list(range(2, 200_000, 3))

    def test_message_and_properties_are_kept(self, place: Place) -> None:
        """What the caller says of the publish is in the log."""
        store, branch = start(place)
        branch.append(10)
        result = store.publish("b", message="nightly", properties={"run": "7"})
        entry = store.log()[0]
        assert (entry.version.number, entry.message) == (result.version, "nightly")
        assert (entry.published_branch, entry.published_version) == ("b", 3)
        assert entry.properties == {"run": "7"}
        assert entry.operation == "update"
        assert [one.step for one in store.log()] == [None, "anchor", None, None]
        assert [one.rows for one in store.log("main@2")] == [6, 3]
        with pytest.raises(InvalidInputError):
            store.publish("b", properties={"lancerefs.publish": "x"})


class TestZeroCopy:
    def test_files_in_the_root_are_not_copied(self, s3_place: Place, s3_proxy: S3Proxy) -> None:
        """No request writes or copies a data file, however many there are."""
        store, _ = start(s3_place)
        writes_through(store, s3_place, "b", 10, 11)
        assert store.plan_publish("b").files_to_copy == 0
        with s3_proxy.recording() as recording:
            result = store.publish("b")
        assert result.files_copied == 0
        writes = [one for one in recording.requests if one.kind == "PUT" and "/data/" in one.path]
        assert writes == []
        store.delete_branch("b")
        cleans(s3_place)
        assert s3_place.values() == [1, 2, 3, 4, 5, 6, 10, 11]

    def test_how_many_requests_it_takes(self, s3_place: Place, s3_proxy: S3Proxy) -> None:
        """As many for a dozen files as for two; the first publish asks the server what it can."""
        made = []
        for name, count in (("first", 1), ("few", 2), ("more", 12)):
            store, _ = start(s3_place.beside(name))
            for value in range(count):
                writes_through(store, s3_place.beside(name), "b", value)
            with s3_proxy.recording() as recording:
                store.publish("b")
            made.append(len(recording))
        assert made[1:] == [19, 19]

    def test_files_are_found_among_many(self, place: Place) -> None:
        """Few or many are asked for, in a small or a large folder: what is there has a size."""
        dataset = place.store()._dataset
        for number in range(130):
            dataset.storage.upload(f"data/{number}", io.BytesIO(bytes(number)))
            if number in (5, 129):
                for some in ([3], [0, 3], [*range(10)], [*range(140)]):
                    asked = [dataset.at(f"data/{one}") for one in some]
                    found = {dataset.at(f"data/{one}"): one for one in some if one <= number}
                    assert carrying.sizes_of(dataset, asked) == found

    def test_a_discarded_branch_takes_its_files_along(self, place: Place) -> None:
        """Files that only the branch reached go with it, wherever they lie, and no others."""
        store, _ = start(place)
        before = contents(place)
        writes_through(store, place, "b", 10)
        place.branch("b").append(11)
        store.delete_branch("b")
        assert contents(place) == [one for one in before if not one[0].startswith("tree/")]
        assert place.values() == [1, 2, 3, 4, 5, 6]

    def test_a_branch_that_entered_publishing_leaves_root_files(self, place: Place) -> None:
        """Whatever came of that publish, what it may have named stays."""
        store, branch = start(place)
        writes_through(store, place, "b", 10)
        branch.delete("n = 1")
        place.delete("n = 1")
        with pytest.raises(PublishRefusedError):
            store.publish("b")
        before = {path for path, _, _ in contents(place) if path.startswith("data/")}
        store.delete_branch("b")
        assert before == {path for path, _, _ in contents(place) if path.startswith("data/")}


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


@pytest.fixture
def at_commit(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[Act]]]:
    """What happens before and after the next real commits of a publish."""
    happens: dict[str, list[Act]] = {"before": [], "after": []}
    land = committing.land

    def landing(
        dataset: Dataset,
        landing: Landing,
        identity: str,
        properties: dict[str, str],
        through: committing.Opened | None = None,
    ) -> int:
        real = publications.STEP_KEY not in properties
        if real and happens["before"]:
            happens["before"].pop(0)(Place(dataset.uri, dict(dataset.storage_options)))
        version = land(dataset, landing, identity, properties, through=through)
        if real and happens["after"]:
            happens["after"].pop(0)(Place(dataset.uri, dict(dataset.storage_options)))
        return version

    monkeypatch.setattr(committing, "land", landing)
    yield happens
    assert happens == {"before": [], "after": []}


def after_lease(place: Place, name: str = "b") -> RefStore:
    """A store, at a time when whoever was publishing has not been heard of for long."""
    store = place.store()
    branch = store.branch(name)
    if branch.state is BranchState.PUBLISHING:
        past = datetime(2000, 1, 1, tzinfo=UTC).isoformat()
        metadata = {**branch.metadata, "lancerefs.lease_until": past}
        refs.update(store._dataset.storage, branch, metadata=metadata)
    return store


def dies(place: Place) -> None:
    raise Crash("at the commit")


class TestOnce:
    @pytest.mark.parametrize("when", ["before", "after"])
    def test_a_death_at_the_commit(
        self, place: Place, at_commit: dict[str, list[Act]], when: str
    ) -> None:
        """The retry publishes what was not, and returns what was, as soon as the lease is over."""
        store, branch = start(place)
        branch.append(10)
        at_commit[when].append(dies)
        with pytest.raises(Crash):
            store.publish("b")
        with pytest.raises(ConflictError, match="published by somebody else"):
            store.publish("b")
        result = after_lease(place).publish("b")
        assert result.already_published is (when == "after")
        assert place.values() == [1, 2, 3, 4, 5, 6, 10]
        assert store.publish("b").version == result.version

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_a_death_at_the_commit_and_then_a_delete(
        self, place: Place, at_commit: dict[str, list[Act]], when: str
    ) -> None:
        """The branch can go once the lease is over; the rows are there, or not, as they were."""
        store, branch = start(place)
        branch.append(10)
        at_commit[when].append(dies)
        with pytest.raises(Crash):
            store.publish("b")
        with pytest.raises(RefusedError, match="being published"):
            store.delete_branch("b")
        assert after_lease(place).delete_branch("b")
        cleans(place)
        assert place.values() == [1, 2, 3, 4, 5, 6] + [10] * (when == "after")

    def test_a_death_at_every_write(self, local_place: Place) -> None:
        """Wherever the process dies, the next call finishes, and the rows are there once."""
        for write in range(1, 100):
            place = local_place.beside(str(write))
            store, branch = start(place)
            both(updates("n = 1"), appends(10))(branch)
            fuse = Fuse(write, Mode.AFTER)
            dataset = CrashingDataset.over(store._dataset, fuse)
            with contextlib.suppress(Crash):
                publishing.publish(dataset, "b", publishing.Request())
            retried = after_lease(place).publish("b")
            assert place.values() == [2, 3, 4, 5, 6, 10, 101]
            place.open().validate()
            if not fuse.blown:
                assert retried.already_published
                assert write > 3
                return

    def test_a_paused_publisher_that_was_taken_over(
        self, place: Place, at_commit: dict[str, list[Act]]
    ) -> None:
        """It wakes up at its commit, after a twin published and the parent compacted: once."""
        store, branch = start(place)
        branch.append(10)

        def taken_over(there: Place) -> None:
            assert not after_lease(there).publish("b").already_published
            compacts(there)

        at_commit["before"] += [taken_over, nothing]
        assert store.publish("b").already_published
        assert place.values() == [1, 2, 3, 4, 5, 6, 10]

    def test_a_paused_publisher_whose_branch_was_deleted(
        self, place: Place, at_commit: dict[str, list[Act]]
    ) -> None:
        """It wakes up at its commit, and is kept out."""
        store, branch = start(place)
        branch.append(10)
        at_commit["before"].append(lambda there: after_lease(there).delete_branch("b"))
        with pytest.raises(LanceRefsError):
            store.publish("b")
        assert place.values() == [1, 2, 3, 4, 5, 6]
        cleans(place)
        place.open().validate()

    @pytest.mark.parametrize(
        ("act", "more"), [(cleans, []), (both(appends(7), cleans), [7])], ids=["alone", "moved"]
    )
    def test_a_parent_that_cleans_up_before_the_commit(
        self, place: Place, at_commit: dict[str, list[Act]], act: Act, more: list[int]
    ) -> None:
        """Copies that were cleaned away are put back; history that is gone is no trap."""
        store, branch = start(place)
        both(deletes("n = 4"), appends(10))(branch)
        place.delete("n = 5")
        at_commit["before"].append(act)
        store.publish("b")
        assert place.values() == [1, 2, 3, 6, *more, 10]
        place.open().validate()

    @pytest.mark.parametrize("end", ["publishes", "deletes", "repairs"])
    def test_a_parent_that_cleans_up_and_a_publisher_that_dies(
        self, place: Place, at_commit: dict[str, list[Act]], end: str
    ) -> None:
        """Whoever finds the commit brings copies and deletion files again, before it says so."""
        store, branch = start(place)
        both(deletes("n = 4"), appends(10, 11), deletes("n = 11"), appends(12))(branch)
        place.delete("n = 5")
        at_commit["before"].append(cleans)
        at_commit["after"].append(dies)
        with pytest.raises(Crash):
            store.publish("b")
        with pytest.raises((OSError, ValueError)):
            place.values()
        late = after_lease(place)
        if end == "publishes":
            assert late.publish("b").already_published
        if end == "repairs":
            assert late.check(repair=True).findings
        assert late.delete_branch("b")
        assert place.values() == [1, 2, 3, 6, 10, 12]
        place.open().validate()
        assert late.check().clean

    def test_a_parent_that_deletes_before_the_commit(
        self, place: Place, at_commit: dict[str, list[Act]]
    ) -> None:
        """The change in between is kept; the publish starts over, its first try leaves no file."""
        store, branch = start(place)
        both(deletes("n = 4"), appends(10))(branch)
        at_commit["before"] += [both(deletes("n = 5"), cleans), nothing]
        store.publish("b")
        assert place.values() == [1, 2, 3, 6, 10]
        assert orphans(place) == set()

    def test_a_lost_reply_to_the_commit(self, s3_place: Place, s3_proxy: S3Proxy) -> None:
        """The commit is found on the parent."""
        store, branch = start(s3_place)
        branch.append(10)
        with s3_proxy.breaking(_LostManifest(2)):
            store.publish("b")
        assert s3_place.values() == [1, 2, 3, 4, 5, 6, 10]
        assert store.publish("b").already_published

    def test_a_history_that_is_gone_with_the_answer(
        self, place: Place, at_commit: dict[str, list[Act]]
    ) -> None:
        """Where the commit shows neither in history nor by its files, nothing is published."""
        store, branch = start(place)
        branch.delete("n = 1")
        at_commit["after"].append(both(appends(7), cleans, dies))
        with pytest.raises(Crash):
            store.publish("b")
        with pytest.raises(OutcomeUnknownError, match="cannot be known"):
            after_lease(place).publish("b")
        assert place.values() == [2, 3, 4, 5, 6, 7]

    def test_a_history_that_is_gone_and_files_that_show(
        self, place: Place, at_commit: dict[str, list[Act]]
    ) -> None:
        """The branch's files on the parent are answer enough."""
        store, branch = start(place)
        branch.append(10)
        at_commit["after"].append(both(deletes("n = 2"), cleans, dies))
        with pytest.raises(Crash):
            store.publish("b")
        assert after_lease(place).publish("b").already_published
        assert place.values() == [1, 3, 4, 5, 6, 10]

    def test_a_history_that_goes_while_it_is_read(
        self, local_place: Place, at_commit: dict[str, list[Act]]
    ) -> None:
        """A publication that was listed, and cleaned up before it was read, is not denied."""
        store, branch = start(local_place)
        branch.append(10)
        at_commit["after"].append(dies)
        with pytest.raises(Crash):
            store.publish("b")
        local_place.append(7)
        dataset = store._dataset
        there = publications.look(dataset, store.branch("b"))
        meanwhile = _CleansAtRead(dataset.storage, there.found.version, local_place)
        seen = publications.look(replace(dataset, storage=meanwhile), store.branch("b"))
        assert (there.complete, seen.found, seen.complete) == (True, None, False)

    @pytest.mark.parametrize("lease", [NO_TIME, timedelta(minutes=5)])
    def test_publishers_at_once(self, place: Place, lease: timedelta) -> None:
        """However many there are, with leases or without: one commit, and no file is lost."""
        store, branch = start(place)
        both(updates("n = 1"), appends(10))(branch)
        landed: list[int] = []
        refusals: list[RefusalCode | None] = []

        def run() -> None:
            mine = place.store(publish_lease=lease)
            for _ in range(50):
                try:
                    landed.append(mine.publish("b").version)
                except (ConflictError, PublishRefusedError) as busy:
                    refusals.append(getattr(busy, "code", None))
                    continue
                return

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        landed.append(store.publish("b").version)
        assert len(set(landed)) == 1
        assert {*refusals} <= {None, RefusalCode.PARENT_TOO_BUSY}
        assert place.values() == [2, 3, 4, 5, 6, 10, 101]
        place.open().validate()
        assert [one.published_branch for one in store.log() if one.step is None].count("b") == 1

    def test_metadata_set_meanwhile_is_kept(
        self, place: Place, at_commit: dict[str, list[Act]]
    ) -> None:
        """Somebody else's note on the ref is no reason to lose the lease."""
        store, branch = start(place)
        branch.append(10)
        at_commit["before"].append(
            lambda there: there.store().set_metadata(there.store().branch("b"), {"x": "y"})
        )
        store.publish("b")
        assert store.branch("b").metadata["x"] == "y"
        assert store.branch("b").state is BranchState.PUBLISHED

    def test_a_branch_that_is_being_deleted_is_not_published(self, place: Place) -> None:
        """Deleting and publishing exclude each other."""
        store, branch = start(place)
        branch.append(10)
        refs.move_state(store._dataset.storage, store.branch("b"), BranchState.REMOVING)
        with pytest.raises(ConflictError, match="being deleted"):
            store.publish("b")


class _CleansAtRead(Wrapper):
    """Somebody cleans the dataset up as soon as a version's manifest is about to be read."""

    def __init__(self, inner: Storage, version: int, place: Place) -> None:
        super().__init__(inner)
        self._path, self._place = layout.manifest_path("main", version), place

    def read(self, path: str) -> Blob | None:
        if path == self._path:
            cleans(self._place)
        return super().read(path)


class _LostManifest:
    """Drops the reply to the n-th manifest that is written."""

    def __init__(self, number: int) -> None:
        self._left = number

    def __call__(self, request: Request) -> Fault | None:
        if request.method != "PUT" or "/_versions/" not in request.path:
            return None
        self._left -= 1
        return "drop reply" if self._left == 0 else None


def row_ids(place: Place) -> dict[int, int]:
    rows = place.open().to_table(columns=["n"], with_row_id=True)
    return dict(zip(rows["n"].to_pylist(), rows["_rowid"].to_pylist(), strict=True))


def orphans(place: Place) -> set[str]:
    """Data and deletion files of the root that no version of it names."""
    store = place.store()
    named = {
        Path(file.uri).name for version in store.log() for file in store.files(version.version)
    }
    storage = store._dataset.storage
    there = [*storage.list("data/"), *storage.list("_deletions/")]
    return {Path(entry.path).name for entry in there} - named
