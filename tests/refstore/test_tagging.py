from __future__ import annotations

import pytest

from airflow_provider_lancerefs.refstore import (
    AlreadyExistsError,
    BranchState,
    ConflictError,
    ErrorKind,
    InvalidRefNameError,
    RefNotFoundError,
    RefusedError,
    Version,
    VersionNotFoundError,
    refs,
)
from tests.tables import Place


def test_a_tag_names_a_version(place: Place) -> None:
    """A tag resolves to its branch and version, and pylance reads the same rows at it."""
    place.create([1]).append(2)
    store = place.store()
    store.create_branch("a")
    place.branch("a").append(3)
    assert store.create_tag("v1", "main@1").target == store.resolve("main@1")
    tag = store.create_tag("v2", "branch:a", metadata={"by": "me"})
    assert (tag.branch, tag.version, tag.metadata["by"]) == ("a", 3, "me")
    assert store.resolve("tag:v2") == store.resolve("branch:a@3")
    assert sorted(place.open().checkout_version("v2").to_table()["n"].to_pylist()) == [1, 2, 3]


def test_the_same_tag_again_is_the_same_tag(place: Place) -> None:
    """A retry returns what stands; the same name on another version is refused."""
    place.create([1]).append(2)
    store = place.store()
    tag = store.create_tag("v1", "main@1")
    assert store.create_tag("v1", "main@1") == tag
    with pytest.raises(AlreadyExistsError, match="names main@1, not main@2"):
        store.create_tag("v1", "main")
    assert store.tag("v1") == tag


def test_a_tag_is_moved_by_who_read_it_last(place: Place) -> None:
    """Moving is compare-and-swap: a tag that changed since it was read stays."""
    place.create([1]).append(2).append(3)
    store = place.store()
    first = store.create_tag("v1", "main@1")
    second = store.move_tag(first, "main@2")
    assert (second.version, second.created_at) == (2, first.created_at)
    assert second.updated_at is not None
    assert first.updated_at is not None
    assert second.updated_at >= first.updated_at
    with pytest.raises(ConflictError, match="'v1' was changed by somebody else"):
        store.move_tag(first, "main@3")
    assert store.tag("v1") == second
    assert store.move_tag(second, "main@3").version == 3


def test_a_deleted_tag_is_not_moved_back_to_life(place: Place) -> None:
    """A tag that is gone cannot be moved."""
    place.create([1]).append(2)
    store = place.store()
    tag = store.create_tag("v1", "main@1")
    store.delete_tag("v1")
    with pytest.raises(ConflictError):
        store.move_tag(tag, "main@2")
    assert store.tag_names() == []


def test_a_protected_tag_needs_force(place: Place) -> None:
    """A protected tag is moved and deleted by force only."""
    place.create([1]).append(2)
    store = place.store()
    tag = store.create_tag("v1", "main@1", protected=True)
    for call in (lambda: store.move_tag(tag, "main@2"), lambda: store.delete_tag("v1")):
        with pytest.raises(RefusedError, match="protected") as refusal:
            call()
        assert refusal.value.kind is ErrorKind.PROTECTED
    assert store.tag("v1") == tag
    moved = store.move_tag(tag, "main@2", force=True)
    assert moved.protected
    assert store.delete_tag("v1", force=True)


def test_a_tag_s_protection_is_read_anew_when_it_is_deleted(place: Place) -> None:
    """Protection set after somebody read the tag still holds."""
    place.create([1])
    store = place.store()
    tag = store.create_tag("v1", "main")
    store.set_metadata(tag, {"lancerefs.protected": "true"})
    with pytest.raises(RefusedError):
        store.delete_tag("v1")


@pytest.mark.parametrize(
    ("revision", "error"),
    [
        ("main@9", VersionNotFoundError),
        ("branch:none", RefNotFoundError),
        ("tag:none", RefNotFoundError),
    ],
)
def test_a_tag_needs_a_version(place: Place, revision: str, error: type[Exception]) -> None:
    """A tag on what is not there is refused, and none is left."""
    place.create([1])
    with pytest.raises(error):
        place.store().create_tag("v1", revision)
    assert place.store().tag_names() == []


def test_a_tag_on_a_branch_without_a_ref_is_taken_back(place: Place) -> None:
    """Files alone are no branch: the tag is written, the branch looked at, the tag removed."""
    place.create([1])
    store = place.store()
    refs.remove(store._dataset.storage, store.create_branch("a"))
    with pytest.raises(RefNotFoundError, match="no branch 'a'"):
        store.create_tag("v1", "branch:a")
    assert store.tag_names() == []


def test_a_tag_stops_a_deletion_that_is_still_looking(place: Place) -> None:
    """A branch that is marked, and no more, is kept by a tag; its deleter finds out."""
    place.create([1])
    store = place.store()
    storage = store._dataset.storage
    marked = refs.move_state(storage, store.create_branch("a"), BranchState.DELETING)
    store.create_tag("v1", "branch:a")
    assert store.branch("a").state is BranchState.OPEN
    with pytest.raises(ConflictError):
        refs.move_state(storage, marked, BranchState.REMOVING)
    with pytest.raises(RefusedError, match="tag 'v1'"):
        store.delete_branch("a")


def test_a_tag_on_a_branch_whose_files_go_is_taken_back(place: Place) -> None:
    """A branch that is being removed takes no tag, new or moved."""
    place.create([1])
    store = place.store()
    kept = store.create_tag("kept", "main")
    branch = store.create_branch("a")
    refs.move_state(store._dataset.storage, branch, BranchState.REMOVING)
    with pytest.raises(ConflictError, match="being deleted"):
        store.create_tag("v1", "branch:a")
    with pytest.raises(ConflictError, match="being deleted"):
        store.move_tag(kept, "branch:a")
    assert store.tags() == [kept]


def test_what_a_tag_names_is_looked_up(place: Place) -> None:
    """A version given as a value, or by another tag, must be there like any other."""
    place.create([1]).append(2)
    store = place.store()
    with pytest.raises(VersionNotFoundError):
        store.create_tag("v1", Version("main", 9, 0))
    store.create_tag("dangling", "main@1")
    storage = store._dataset.storage
    storage.delete_many([e for e in storage.list("_versions/") if "614.manifest" in e.path])
    with pytest.raises(VersionNotFoundError):
        store.create_tag("v1", "tag:dangling")
    assert store.tag_names() == ["dangling"]


def test_tags_of_other_letters_are_not_made(place: Place) -> None:
    """A tag that would stop pylance from listing any is refused."""
    place.create([1])
    with pytest.raises(InvalidRefNameError, match="not ASCII"):
        place.store().create_tag("é", "main")


def test_deleting_twice_is_an_error_unless_asked(place: Place) -> None:
    """What is gone is an error to delete, unless the caller does not mind."""
    place.create([1])
    store = place.store()
    store.create_tag("v1", "main")
    assert store.delete_tag("v1")
    with pytest.raises(RefNotFoundError):
        store.delete_tag("v1")
    assert store.delete_tag("v1", missing_ok=True) is False
