"""What the state machines found, each as small as it goes."""

from __future__ import annotations

import contextlib

import lance
import pyarrow as pa
import pytest

from airflow_provider_lancerefs.refstore import ConflictError, RefStore, RefusedError
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.storage import open_storage
from tests.refstore.disk import Disk
from tests.refstore.faults import Crash, CrashingDataset, Fuse, Suspended
from tests.refstore.performing import NOW
from tests.tables import Place


def hasty(place: Place) -> Dataset:
    """The dataset to one for whom no time has to pass."""
    return Dataset(open_storage(place.uri), grace=NOW, creation_lease=NOW)


def leave_residue(place: Place, name: str) -> None:
    """Write through a handle that is older than the branch's deletion."""
    store = place.store()
    store.create_branch(name)
    place.branch(name).append(7)
    handle = place.branch(name).open()
    store.delete_branch(name)
    lance.write_dataset(pa.table({"n": pa.array([99], pa.int64())}), handle, mode="append")


def files_below_tree(place: Place) -> list[str]:
    return [path for path in Disk(place.uri).files() if path.startswith("tree/")]


def test_a_refused_deletion_leaves_another_tools_branch_whole(local_place: Place) -> None:
    """pylance's branch, once marked and opened again, is still the branch that a create finds."""
    local_place.create((1, 2, 3)).open().create_branch("a")
    local_place.branch("a").append(7)
    store = RefStore(hasty(local_place))
    store.create_tag("t", "branch:a")
    with pytest.raises(RefusedError):
        store.delete_branch("a")
    store.create_branch("a")

    assert local_place.branch("a").values() == [1, 2, 3, 7]
    assert store.check().findings == ()


def test_a_retry_does_not_take_residue_for_its_fork(local_place: Place) -> None:
    """A create that died over the remains of another life is not completed by those remains."""
    leave_residue(local_place.create((1, 2, 3)), "a")
    store = local_place.store()
    with pytest.raises(Crash):
        RefStore(CrashingDataset.over(store._dataset, Fuse(1))).create_branch("a")
    with contextlib.suppress(ConflictError):
        store.create_branch("a")
        assert local_place.branch("a").values() == [1, 2, 3]


def test_a_repair_that_died_is_finished_by_the_next(local_place: Place) -> None:
    """However far fsck came in removing a folder without a ref, the next run removes the rest."""
    leave_residue(local_place.create((1, 2, 3)), "a")
    for death in range(1, 5):
        with contextlib.suppress(Crash):
            dataset = CrashingDataset.over(hasty(local_place), Fuse(death))
            RefStore(dataset).check(repair=True)
    RefStore(hasty(local_place)).check(repair=True)

    assert files_below_tree(local_place) == []


def test_one_repair_removes_every_folder_without_a_ref(local_place: Place) -> None:
    """The second run of fsck finds nothing, however many folders the first had to remove."""
    local_place.create((1, 2, 3))
    for name in ("a", "b"):
        leave_residue(local_place, name)
    store = RefStore(hasty(local_place))
    store.check(repair=True)

    assert store.check().findings == ()
    assert files_below_tree(local_place) == []


def test_a_create_that_lost_its_name_leaves_nothing(local_place: Place) -> None:
    """Who finds, after the clone, that the ref was deleted takes every file of it away."""
    local_place.create((1, 2, 3))
    creator = Suspended(
        open_storage(local_place.uri),
        lambda storage: RefStore(Dataset(storage, creation_lease=NOW)).create_branch("a"),
    )
    store = RefStore(hasty(local_place))
    while store.branch_names() == []:
        creator.advance()
    store.delete_branch("a")
    creator.finish()

    assert isinstance(creator.failure, ConflictError)
    assert files_below_tree(local_place) == []


def test_one_repair_removes_folders_without_refs_that_need_each_other(local_place: Place) -> None:
    """The second run of fsck finds nothing, though the remains of a child need its parent's."""
    local_place.create((1, 2, 3))
    store = RefStore(hasty(local_place))
    store.create_branch("a")
    local_place.branch("a").append(7)
    store.create_branch("b", "branch:a")
    local_place.branch("b").append(8)
    handles = [local_place.branch(name).open() for name in ("b", "a")]
    for name, handle in zip(("b", "a"), handles, strict=True):
        store.delete_branch(name)
        lance.write_dataset(pa.table({"n": pa.array([9], pa.int64())}), handle, mode="append")
    store.check(repair=True)

    assert store.check().findings == ()
    assert files_below_tree(local_place) == []
