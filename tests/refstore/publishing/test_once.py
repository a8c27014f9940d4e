"""Published once and whole, or not at all, whoever dies, sleeps or comes in between."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_lancerefs.refstore import (
    BranchState,
    ConflictError,
    LanceRefsError,
    OutcomeUnknownError,
    PublishRefusedError,
    RefStore,
    RefusalCode,
    RefusedError,
    committing,
    layout,
    publications,
    publishing,
    refs,
)
from airflow_provider_lancerefs.refstore.committing import Landing
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.storage import Blob, Storage
from tests.refstore.faults import Crash, CrashingDataset, Fuse, Mode, Wrapper
from tests.refstore.publishing.acts import (
    NO_TIME,
    Act,
    appends,
    both,
    cleans,
    compacts,
    deletes,
    nothing,
    orphans,
    start,
    updates,
)
from tests.services.proxy import Fault, Request, S3Proxy
from tests.tables import Place


@pytest.fixture
def at_commit(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[Act]]]:
    """What happens before and after the next real commits of a publish.

    The real `land` runs with these around it, for nothing else tells when a commit is to come.
    """
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
