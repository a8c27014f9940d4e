"""What a branch did becomes its parent's, without moving data where that can be."""

from __future__ import annotations

import io

import pytest

from airflow_provider_lancerefs.refstore import (
    BranchState,
    InvalidInputError,
    PublishRefusedError,
    carrying,
)
from tests.refstore.publishing.acts import (
    CHANGES,
    Act,
    adds_column,
    appends,
    both,
    casts,
    cleans,
    compacts,
    contents,
    drops_column,
    fills_column,
    indexes,
    indexes_empty_column,
    renames,
    replaces_schema,
    row_ids,
    start,
    updates,
    writes_through,
)
from tests.services.proxy import S3Proxy
from tests.tables import Place


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
