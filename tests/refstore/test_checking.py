from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_provider_lancerefs.refstore import BranchState, Report, refs
from tests.tables import Place

NO_TIME = timedelta(0)


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


def repaired(place: Place) -> list[str]:
    """What a repair mends; a second look must find nothing more."""
    store = place.store(grace=NO_TIME)
    report = store.check(repair=True, orphan_age=NO_TIME)
    assert report.clean
    assert codes(store.check(orphan_age=NO_TIME)) == []
    return codes(report)


def test_a_healthy_dataset_is_clean(place: Place) -> None:
    """Branches, nested and of branches, tags, indices and deletions: nothing is wrong."""
    place.create(range(20))
    place.open().create_scalar_index("n", "BTREE")
    place.delete("n = 1")
    store = place.store()
    store.create_branch("a")
    store.create_branch("a/b", "branch:a")
    place.branch("a").append(30)
    place.branch("a/b").delete("n = 2")
    store.create_tag("v1", "branch:a")
    store.create_tag("v2", "main@1")
    assert store.check(orphan_age=NO_TIME).findings == ()
    assert store.check(repair=True, orphan_age=NO_TIME).findings == ()


def test_a_ref_without_head_is_completed(place: Place) -> None:
    """A branch whose creation was cut short gets its head."""
    place.create([1])
    store = place.store()
    store.create_branch("a")
    storage = store._dataset.storage
    storage.delete_many(storage.list("tree/"))
    assert codes(store.check()) == []
    assert codes(place.store(grace=NO_TIME).check()) == ["ref-without-head"]
    assert repaired(place) == ["ref-without-head"]
    assert place.branch("a").values() == [1]


def test_a_ref_without_head_or_source_goes(place: Place) -> None:
    """A branch that can never get its head is removed."""
    place.create([1]).append(2)
    store = place.store()
    store.create_branch("a", "main@1")
    storage = store._dataset.storage
    storage.delete_many(storage.list("tree/"))
    place.open().cleanup_old_versions(older_than=NO_TIME, delete_unverified=True)
    assert repaired(place) == ["ref-without-head"]
    assert store.branch_names() == []


def test_a_tree_without_ref_goes_when_it_is_old(place: Place) -> None:
    """Files that no ref stands for are left in peace for the grace time."""
    place.create([1])
    store = place.store()
    refs.remove(store._dataset.storage, store.create_branch("a"))
    assert store.check().clean
    assert repaired(place) == ["tree-without-ref"]
    assert store._dataset.storage.list("tree/") == []


def test_a_tree_that_others_name_stays(place: Place) -> None:
    """Files of a lost ref are kept while a tag or a child names the branch."""
    place.create([1])
    store = place.store()
    branch = store.create_branch("a")
    store.create_branch("child", "branch:a")
    refs.remove(store._dataset.storage, branch)
    report = place.store(grace=NO_TIME).check(repair=True)
    assert codes(report) == ["lost-parent", "tree-without-ref"]
    assert not report.clean
    assert place.branch("child").values() == [1]


@pytest.mark.parametrize("state", [BranchState.DELETING, BranchState.REMOVING])
def test_an_unfinished_delete_is_finished(place: Place, state: BranchState) -> None:
    """A branch that somebody died deleting is deleted."""
    place.create([1])
    store = place.store()
    refs.move_state(store._dataset.storage, store.create_branch("a"), state)
    assert store.check().clean
    assert repaired(place) == ["unfinished-delete"]
    assert store.branch_names() == []


def test_an_unfinished_delete_of_a_tagged_branch_is_undone(place: Place) -> None:
    """If something needs the branch after all, it is opened again."""
    place.create([1])
    store = place.store()
    branch = store.create_branch("a")
    store.create_tag("v1", "branch:a")
    refs.move_state(store._dataset.storage, branch, BranchState.DELETING)
    assert repaired(place) == ["unfinished-delete"]
    assert store.branch("a").state is BranchState.OPEN


def test_dangling_tags_go_unless_protected(place: Place) -> None:
    """A tag to a version or branch that is gone is removed; a protected one is only told."""
    place.create([1]).append(2)
    store = place.store()
    storage = store._dataset.storage
    store.create_branch("a")
    store.create_tag("lost-branch", "branch:a")
    store.create_tag("lost-version", "main@1")
    store.create_tag("kept", "main@1", protected=True)
    refs.remove(storage, store.branch("a"))
    storage.delete_many(storage.list("tree/"))
    storage.delete_many([e for e in storage.list("_versions/") if "614.manifest" in e.path])
    report = place.store(grace=NO_TIME).check(repair=True)
    assert sorted((f.subject, f.repaired) for f in report.findings) == [
        ("tag kept", False),
        ("tag lost-branch", True),
        ("tag lost-version", True),
    ]
    assert store.tag_names() == ["kept"]


def test_unreadable_refs_are_told(place: Place) -> None:
    """A ref that does not parse is named, and never removed by a repair."""
    place.create([1])
    store = place.store()
    store._dataset.storage.put_new("_refs/tags/bad.json", b"[]")
    store._dataset.storage.put_new("_refs/branches/bad.json", b"")
    report = store.check(repair=True)
    assert [(f.code, f.subject, f.repaired) for f in report.findings] == [
        ("unreadable-ref", "branch bad", False),
        ("unreadable-ref", "tag bad", False),
    ]


def test_a_wrong_head_is_told(place: Place) -> None:
    """A branch that does not start where its ref says is named."""
    place.create([1]).append(2)
    store = place.store()
    branch = store.create_branch("a", "main@1")
    refs.update(store._dataset.storage, branch, parent_version=2)
    assert codes(place.store(grace=NO_TIME).check(repair=True)) == ["wrong-head"]


def test_missing_files_are_told(place: Place) -> None:
    """A file that a head or a tag needs and that is not there is named."""
    place.create([1]).append(2)
    store = place.store()
    store.create_tag("v1", "main@1")
    gone = store.files("tag:v1")[0].uri
    storage = store._dataset.storage
    storage.delete_many(e for e in storage.list("data/") if gone.endswith(e.path))
    (finding,) = store.check().findings
    assert (finding.code, finding.subject) == ("missing-file", gone)


def test_orphans_of_a_branch_go_when_they_are_old(place: Place) -> None:
    """A data file that no version of any branch reaches is removed, and no other."""
    place.create([1])
    store = place.store()
    store.create_branch("a")
    place.branch("a").append(2)
    store._dataset.storage.put_new("tree/a/data/forgotten.lance", b"x")
    assert store.check().clean
    assert repaired(place) == ["orphan-files"]
    assert place.branch("a").values() == [1, 2]


def test_files_of_a_branch_that_only_its_child_reaches_stay(place: Place) -> None:
    """What a child inherited is no orphan, even after the parent forgot it."""
    place.create([1])
    store = place.store()
    store.create_branch("a")
    place.branch("a").append(2)
    store.create_branch("b", "branch:a")
    place.branch("a").overwrite(7)
    place.branch("a").open().cleanup_old_versions(older_than=NO_TIME, delete_unverified=True)
    assert codes(place.store(grace=NO_TIME).check(repair=True, orphan_age=NO_TIME)) == []
    assert place.branch("b").values() == [1, 2]


def test_overlapping_names_are_told(place: Place) -> None:
    """A branch in a folder where another keeps its files is named; plain nesting is fine."""
    place.create([1])
    store = place.store()
    store.create_branch("a")
    place.open().create_branch("a/data")
    report = store.check()
    assert [(f.code, f.subject) for f in report.findings] == [
        ("overlapping-names", "branch a/data")
    ]


def test_scratch_files_of_dead_processes_go(local_place: Place) -> None:
    """What a killed process left half-written is swept."""
    local_place.create([1])
    local_place.store()._dataset.storage.put_new("_refs/.lancerefs-dead", b"half")
    assert repaired(local_place) == ["scratch-files"]


def test_progress_is_told(local_place: Place) -> None:
    """Long work says what it is looking at."""
    local_place.create([1])
    told: list[str] = []
    local_place.store().check(progress=lambda doing, done=0, total=0: told.append(doing))
    assert len(told) == len(set(told)) > 5


def test_orphans_below_the_root_go_when_they_are_old(place: Place) -> None:
    """A data file that no version of anything reaches is removed; what old versions need stays."""
    place.create([1]).append(2)
    store = place.store()
    store.create_branch("a", "main@1")
    place.overwrite(9)
    storage = store._dataset.storage
    storage.put_new("data/forgotten.lance", b"x")
    storage.put_new("data/folder/of-another-feature.blob", b"x")
    assert store.check().clean
    assert repaired(place) == ["orphan-files"]
    assert [entry.path for entry in storage.list("data/f")] == [
        "data/folder/of-another-feature.blob"
    ]
    assert place.values(version=2) == [1, 2]
    assert place.branch("a").values() == [1]


def test_a_publish_that_died_is_settled(place: Place) -> None:
    """A branch whose publisher died before its commit is open again, and publishes."""
    place.create([1])
    store = place.store(publish_lease=NO_TIME)
    branch = store.create_branch("a")
    place.branch("a").append(2)
    refs.move_state(store._dataset.storage, branch, BranchState.PUBLISHING)
    report = place.store(grace=NO_TIME, publish_lease=NO_TIME).check(repair=True)
    assert codes(report) == ["unfinished-publish"]
    assert report.clean
    assert store.branch("a").state is BranchState.OPEN
    store.publish("a")
    assert place.values() == [1, 2]
