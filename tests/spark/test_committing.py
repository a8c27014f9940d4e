"""A write lands once and whole, or not at all, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_lancerefs.refstore import (
    ConflictError,
    OutcomeUnknownError,
    RefNotFoundError,
    StorageError,
    versions,
)
from airflow_provider_lancerefs.spark import committing, operations
from airflow_provider_lancerefs.spark.committing import abort, commit
from airflow_provider_lancerefs.spark.writing import write_task
from tests.spark.attempts import Attempt, batch
from tests.tables import Place

NOW = timedelta(0)
SECONDS = 120


@pytest.fixture
def branched(place: Place) -> Place:
    """A table of 1, 2, 3 with a branch 'run'."""
    place.create()
    place.store().create_branch("run")
    return place


def rows(place: Place, branch: str = "run") -> list[int]:
    return (place if branch == "main" else place.branch(branch)).values()


def data_files(place: Place) -> set[str]:
    storage = place.store()._dataset.storage
    return {entry.path for entry in storage.list("data/")}


def reached(place: Place) -> set[str]:
    """The data files that main's or the branch's head needs, by their path below the root."""
    files = [
        one.uri.removeprefix(f"{place.uri}/")
        for branch in ("main", "branch:run")
        for one in place.store().files(branch)
    ]
    return {one for one in files if one.startswith("data/")}


def orphans(place: Place) -> set[str]:
    return data_files(place) - reached(place)


class TestLanding:
    """What one attempt does, on disk and on S3."""

    def test_rows_are_on_the_branch_alone_and_publishing_copies_nothing(
        self, branched: Place
    ) -> None:
        """Files lie below the root from the start, so a publish is a commit and no copy."""
        Attempt.at(branched, "run", "w", [10, 11], [], [12]).make()

        assert [1, 2, 3, 10, 11, 12] == rows(branched)
        assert [1, 2, 3] == rows(branched, "main")
        plan = branched.store().plan_publish("run")
        assert (None, 0, 0) == (plan.refusal, plan.files_to_copy, plan.bytes_to_copy)
        branched.store().publish("run")
        assert [1, 2, 3, 10, 11, 12] == rows(branched, "main")
        assert set() == orphans(branched)

    def test_an_overwrite_replaces_the_rows_on_the_branch_alone(self, branched: Place) -> None:
        """What main shows goes on standing until the branch is published."""
        Attempt.at(branched, "run", "w", [10], overwrite=True).make()

        assert [10] == rows(branched)
        assert [1, 2, 3] == rows(branched, "main")
        assert 0 == branched.store().publish("run").bytes_copied
        assert [10] == rows(branched, "main")

    def test_an_overwrite_without_rows_empties_the_branch(self, branched: Place) -> None:
        """No file is written, and the commit is an overwrite all the same."""
        Attempt.at(branched, "run", "w", [], overwrite=True).make()

        assert [] == rows(branched)

    def test_main_can_be_written_to_as_well(self, branched: Place) -> None:
        """Main is a branch like any other to a write."""
        Attempt.at(branched, "main", "w", [10]).make()

        assert [1, 2, 3, 10] == rows(branched, "main")
        assert [1, 2, 3] == rows(branched)

    def test_a_table_that_is_not_there_is_made(self, place: Place) -> None:
        """Its columns are the frame's, and the write is found again like any other."""
        attempt = Attempt.at(place, "main", "w", [10], [11])

        assert 1 == attempt.make() == attempt.make()
        assert [10, 11] == rows(place, "main")

    def test_a_branch_of_another_tool_takes_writes(self, local_place: Place) -> None:
        """pylance's own branch names the root too."""
        local_place.create().open().create_branch("run")
        Attempt.at(local_place, "run", "w", [10]).make()

        assert [1, 2, 3, 10] == rows(local_place)
        assert 0 == local_place.store().plan_publish("run").bytes_to_copy

    def test_a_file_holds_no_more_rows_than_asked_for(self, local_place: Place) -> None:
        """A task that has more goes on in another file."""
        write = Attempt.at(local_place.create(), "main", "w").prepare()
        write = replace(write, max_rows_per_file=4)
        written = write_task(write, [batch(range(3)), batch(range(3, 10)), batch([])])

        assert [4, 4, 2] == [file.rows for file in written.files]
        commit(write, [written])
        assert sorted([1, 2, 3, *range(10)]) == rows(local_place, "main")


class TestOnce:
    """The same write made again, by whomever, whenever."""

    def test_made_again_it_is_the_first_version(self, branched: Place) -> None:
        """A retry whose first try landed writes nothing, and leaves nothing."""
        attempt = Attempt.at(branched, "run", "w", [10])

        assert attempt.make() == attempt.make()
        assert [1, 2, 3, 10] == rows(branched)
        assert set() == orphans(branched)

    def test_another_write_is_not_taken_for_it(self, branched: Place) -> None:
        """Ids tell writes apart, even if one begins like the other."""
        for write_id in ("w/1", "w/10", "w"):
            Attempt.at(branched, "run", write_id, [10]).make()

        assert [1, 2, 3, 10, 10, 10] == rows(branched)

    def test_it_is_found_below_later_versions(self, branched: Place) -> None:
        """What others wrote since hides nothing."""
        attempt = Attempt.at(branched, "run", "w", [10])
        first = attempt.make()
        branched.branch("run").append(20)
        branched.branch("run").open().optimize.compact_files()

        assert first == attempt.make()
        assert [1, 2, 3, 10, 20] == rows(branched)

    def test_it_is_not_found_on_another_branch(self, branched: Place) -> None:
        """The fork's own past is the parent's: a write there says nothing of the branch."""
        Attempt.at(branched, "main", "w", [10]).make()
        branched.store().create_branch("later")
        Attempt.at(branched, "later", "w", [20]).make()

        assert [1, 2, 3, 10, 20] == rows(branched, "later")

    def test_files_of_another_branch_stay(self, branched: Place) -> None:
        """A write of the same name there is another write, and its files are not ours to take."""
        Attempt.at(branched, "main", "w", [10]).make()
        Attempt.at(branched, "run", "w", [20]).make()

        assert [1, 2, 3, 10] == rows(branched, "main")
        assert [1, 2, 3, 20] == rows(branched)

    def test_where_history_is_gone_its_files_show_it(self, local_place: Place) -> None:
        """Cleanup took the version as which it landed, and the rows are there once all the same."""
        attempt = Attempt.at(local_place.create(), "main", "w", [10])
        attempt.make()
        local_place.append(20)
        local_place.open().cleanup_old_versions(older_than=NOW)
        attempt.run_tasks(attempt.prepare())
        attempt.make()

        assert [1, 2, 3, 10, 20] == rows(local_place, "main")

    def test_a_landing_that_nothing_shows_keeps_its_files(self, local_place: Place) -> None:
        """Compacted and cleaned up it is forgotten, and lands again; a tag still has its rows."""
        attempt = Attempt.at(local_place.create(), "main", "w", [10])
        attempt.make()
        local_place.append(20)
        local_place.store().create_tag("kept", "main")
        kept = local_place.open().version
        local_place.open().optimize.compact_files()
        local_place.open().cleanup_old_versions(older_than=NOW, error_if_tagged_old_versions=False)
        attempt.make()

        assert [1, 2, 3, 10, 10, 20] == rows(local_place, "main")
        assert [1, 2, 3, 10, 20] == local_place.values(kept)

    def test_prepared_twice_one_lands(self, branched: Place) -> None:
        """Two drivers that both saw nothing: the second finds the first's commit."""
        attempt = Attempt.at(branched, "run", "w", [10])
        first, second = attempt.prepare(), attempt.prepare()
        messages = [attempt.run_tasks(one) for one in (first, second)]

        assert commit(first, messages[0]) == commit(second, messages[1])
        assert [1, 2, 3, 10] == rows(branched)
        assert set() == orphans(branched)

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_of_two_that_both_looked_first_one_lands(
        self, branched: Place, monkeypatch: pytest.MonkeyPatch, overwrite: bool
    ) -> None:
        """The fence, or the strictness of an overwrite, holds where the look came too early.

        No process can be stopped right there, so the twin is run from within.
        """
        attempt = Attempt.at(branched, "run", "w", [10], overwrite=overwrite)
        first, second = attempt.prepare(), attempt.prepare()
        messages = {one.attempt: attempt.run_tasks(one) for one in (first, second)}
        look, twin = committing.look, [second]

        def look_then_be_overtaken(*args: Any) -> Any:
            found = look(*args)
            if twin:
                overtaker = twin.pop()
                commit(overtaker, messages[overtaker.attempt])
            return found

        monkeypatch.setattr(committing, "look", look_then_be_overtaken)
        commit(first, messages[first.attempt])

        assert ([10] if overwrite else [1, 2, 3, 10]) == rows(branched)
        assert set() == orphans(branched)

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_of_two_that_both_anchored_one_lands(
        self, local_place: Place, monkeypatch: pytest.MonkeyPatch, overwrite: bool
    ) -> None:
        """Overtaken between anchor and commit, with the versions in between cleaned up.

        No process can be stopped right there, so the twin is run from within.
        """
        local_place.create().store().create_branch("run")
        attempt = Attempt.at(local_place, "run", "w", [10], overwrite=overwrite)
        first, second = attempt.prepare(), attempt.prepare()
        messages = {one.attempt: attempt.run_tasks(one) for one in (first, second)}
        land, twin = operations.landing, [second]

        def be_overtaken_then_land(*args: Any) -> Any:
            if twin:
                overtaker = twin.pop()
                commit(overtaker, messages[overtaker.attempt])
                opened = local_place.branch("run").open()
                opened.cleanup_old_versions(older_than=NOW)
            return land(*args)

        monkeypatch.setattr(operations, "landing", be_overtaken_then_land)
        with contextlib.suppress(StorageError, OutcomeUnknownError):
            # With the anchor gone, pylance may fail in any way but by landing.
            commit(first, messages[first.attempt])

        assert ([10] if overwrite else [1, 2, 3, 10]) == rows(local_place)

    def test_many_at_once_land_once_each(self, branched: Place) -> None:
        """Four writes, each made by two drivers at the same moment."""
        attempts = [Attempt.at(branched, "run", f"w{one % 4}", [one % 4]) for one in range(8)]
        together = threading.Barrier(len(attempts))

        def make(attempt: Attempt) -> int:
            together.wait(SECONDS)
            return attempt.make()

        with ThreadPoolExecutor(len(attempts)) as pool:
            landed = list(pool.map(make, attempts))

        assert landed[:4] == landed[4:]
        assert [0, 1, 1, 2, 2, 3, 3] == rows(branched)
        assert set() == orphans(branched)

    def test_of_two_that_make_a_table_one_does(self, local_place: Place) -> None:
        """The other, of the same write, finds it."""
        attempt = Attempt.at(local_place, "main", "w", [10])
        first, second = attempt.prepare(), attempt.prepare()
        messages = [attempt.run_tasks(one) for one in (first, second)]

        assert commit(first, messages[0]) == commit(second, messages[1])
        assert [10] == rows(local_place, "main")

    def test_a_table_of_somebody_elses_is_not_overwritten(self, local_place: Place) -> None:
        """Made between the look and the commit, it stands; the write says so."""
        attempt = Attempt.at(local_place, "main", "w", [10])
        write = attempt.prepare()
        messages = attempt.run_tasks(write)
        local_place.create()

        with pytest.raises(ConflictError, match="made a table"):
            commit(write, messages)
        assert [1, 2, 3] == rows(local_place, "main")


class TestAside:
    """What others do to the branch while rows are being written."""

    def test_others_rows_stay(self, branched: Place) -> None:
        """An append of somebody else's in between is no conflict."""
        attempt = Attempt.at(branched, "run", "w", [10])
        write = attempt.prepare()
        messages = attempt.run_tasks(write)
        branched.branch("run").append(20)
        commit(write, messages)

        assert [1, 2, 3, 10, 20] == rows(branched)

    def test_a_changed_column_is_a_conflict_and_leaves_nothing(self, branched: Place) -> None:
        """Files name columns by ids, which have to be the table's own."""
        attempt = Attempt.at(branched, "run", "w", [10])
        write = attempt.prepare()
        messages = attempt.run_tasks(write)
        branched.branch("run").open().add_columns({"m": "n + 1"})

        with pytest.raises(ConflictError, match="columns"):
            commit(write, messages)
        assert set() == orphans(branched)
        assert [1, 2, 3] == rows(branched)

    def test_a_branch_that_went_is_told(self, branched: Place) -> None:
        """Nothing is committed to a name whose branch is gone."""
        attempt = Attempt.at(branched, "run", "w", [10])
        write = attempt.prepare()
        messages = attempt.run_tasks(write)
        branched.store().delete_branch("run")

        with pytest.raises(RefNotFoundError, match="no branch 'run'"):
            commit(write, messages)
        branched.store().create_branch("run")
        assert set() == orphans(branched)

    def test_another_life_of_the_branch_takes_no_late_write(self, branched: Place) -> None:
        """A driver that slept through delete and create writes into neither."""
        attempt = Attempt.at(branched, "run", "w", [10])
        write = attempt.prepare()
        messages = attempt.run_tasks(write)
        branched.store().delete_branch("run")
        branched.store().create_branch("run")

        with pytest.raises(RefNotFoundError, match="clear the setup task"):
            commit(write, messages)
        assert [1, 2, 3] == rows(branched)
        assert set() == orphans(branched)

    def test_a_published_branch_takes_no_more(self, branched: Place) -> None:
        """What came after would never be published; a write that landed before is still found."""
        early = Attempt.at(branched, "run", "early", [10])
        first = early.make()
        branched.store().publish("run")

        assert first == early.make()
        with pytest.raises(ConflictError, match="published"):
            Attempt.at(branched, "run", "late", [20]).make()

    def test_a_missing_file_is_no_commit(self, branched: Place) -> None:
        """Every file is looked at before the manifest names it."""
        attempt = Attempt.at(branched, "run", "w", [10], [11])
        write = attempt.prepare()
        messages = attempt.run_tasks(write)
        storage = branched.store()._dataset.storage
        storage.delete_many(storage.list(f"data/{messages[0].files[0].name}"))

        with pytest.raises(ConflictError, match="1 of the 2 files"):
            commit(write, messages)
        assert [1, 2, 3] == rows(branched)
        assert set() == orphans(branched)


class TestAborting:
    """A job that fails leaves no row and no file."""

    def test_files_go_whoever_wrote_them(self, branched: Place) -> None:
        """Of tasks that reported and of those that did not; other attempts keep theirs."""
        attempt = Attempt.at(branched, "run", "w", [10], [11])
        write, other = attempt.prepare(), attempt.prepare()
        attempt.run_tasks(write)
        messages = attempt.run_tasks(other)
        abort(write, may_have_landed=False)

        assert {file.name for one in messages for file in one.files} == {
            path.removeprefix("data/") for path in orphans(branched)
        }
        commit(other, messages)
        assert [1, 2, 3, 10, 11] == rows(branched)

    def test_a_write_that_landed_is_left_alone(self, branched: Place) -> None:
        """Spark aborts what failed to commit, and the reply may have been all that was lost."""
        attempt = Attempt.at(branched, "run", "w", [10])
        write = attempt.prepare()
        commit(write, attempt.run_tasks(write))
        abort(write, may_have_landed=True)

        assert [1, 2, 3, 10] == rows(branched)

    def test_what_may_still_land_is_shut_out(self, branched: Place) -> None:
        """A commit under way, aborted meanwhile, comes too late for its files."""
        attempt = Attempt.at(branched, "run", "w", [10])
        write = attempt.prepare()
        messages = attempt.run_tasks(write)
        site = committing.Site.of(write)
        head = versions.head(site.dataset.storage, "run").number
        fragments = [*site._fragments(messages).values()]
        opened = branched.branch("run").open()
        operation = operations.landing(write, opened, fragments, {})
        abort(write, may_have_landed=True)

        with pytest.raises(ConflictError):
            site._commit(head, operation)
        assert [1, 2, 3] == rows(branched)
        assert set() == orphans(branched)

    def test_after_an_abort_it_can_be_made_again(self, branched: Place) -> None:
        """What shuts out one attempt does not shut out the next."""
        attempt = Attempt.at(branched, "run", "w", [10])
        write = attempt.prepare()
        attempt.run_tasks(write)
        abort(write, may_have_landed=True)
        attempt.make()

        assert [1, 2, 3, 10] == rows(branched)
        assert set() == orphans(branched)

    def test_the_next_attempt_takes_the_files_of_dead_ones(self, branched: Place) -> None:
        """Whatever drivers and tasks of the same write left goes when one of them has landed."""
        attempt = Attempt.at(branched, "run", "w", [10], [11])
        for _ in range(2):
            attempt.run_tasks(attempt.prepare())
        assert 4 == len(orphans(branched))
        attempt.make()

        assert set() == orphans(branched)
        assert [1, 2, 3, 10, 11] == rows(branched)
