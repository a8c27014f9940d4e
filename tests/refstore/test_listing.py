from __future__ import annotations

import pytest

from airflow_provider_lancerefs.refstore import (
    Branch,
    BrokenRef,
    InvalidRefNameError,
    OutcomeUnknownError,
    Tag,
)
from tests.services.proxy import S3Proxy
from tests.tables import Place


def test_a_listing_shows_which_refs_changed(place: Place) -> None:
    """A tag that moved, and a branch whose metadata was set, have new tokens; no other has."""
    place.create([1]).append(2)
    store = place.store()
    moving = store.create_tag("moves", "main@1")
    store.create_tag("stays", "main@1")
    noted = store.create_branch("noted")
    store.create_branch("quiet")
    before = {one.name: one.token for one in (*store.list_tags(), *store.list_branches())}
    assert before == {one.name: one.token for one in (*store.list_tags(), *store.list_branches())}
    store.move_tag(moving, "main@2")
    store.set_metadata(noted, {"by": "me"})
    after = {one.name: one.token for one in (*store.list_tags(), *store.list_branches())}
    assert {name for name in after if after[name] != before[name]} == {"moves", "noted"}
    assert set(after) == set(before) == {"moves", "stays", "noted", "quiet"}


def test_a_tag_that_went_and_came_again_has_another_token(place: Place) -> None:
    """Equal content written twice is still told apart."""
    place.create([1])
    store = place.store()
    store.create_tag("v1", "main@1")
    (before,) = store.list_tags()
    store.delete_tag("v1")
    store.create_tag("v1", "main@1")
    (after,) = store.list_tags()
    assert after.token != before.token
    assert after.modified >= before.modified


def test_refs_are_found_by_name(place: Place) -> None:
    """What is there comes back whole; what is not is left out; an impossible name is refused."""
    place.create([1])
    store = place.store()
    tag = store.create_tag("v1", "main@1")
    branch = store.create_branch("a/b")
    assert store.find_tags(["v1", "v2"]) == [tag]
    assert store.find_branches(["a/b", "a"]) == [branch]
    assert store.find_tags([]) == []
    with pytest.raises(InvalidRefNameError):
        store.find_tags(["v1", "../v1"])
    with pytest.raises(InvalidRefNameError):
        store.find_branches(["main"])


def test_a_broken_ref_is_found_as_broken(local_place: Place) -> None:
    """It hides no other, and is listed with a token of its own."""
    local_place.create([1])
    store = local_place.store()
    store.create_tag("v1", "main@1")
    with open(f"{local_place.uri}/_refs/tags/torn.json", "w") as file:
        file.write("{")
    found = store.find_tags(["torn", "v1"])
    assert {one.name: type(one) for one in found} == {"torn": BrokenRef, "v1": Tag}
    assert [one.name for one in store.list_tags()] == ["torn", "v1"]


@pytest.mark.s3
def test_a_listing_is_one_request(s3_place: Place, s3_proxy: S3Proxy) -> None:
    """However many tags there are, up to a thousand; finding is one more for each that is named."""
    s3_place.create([1])
    store = s3_place.store()
    for number in range(5):
        store.create_tag(f"v{number}", "main@1")
    with s3_proxy.recording() as recording:
        store.list_tags()
    assert recording.kinds == {"LIST": 1}
    with s3_proxy.recording() as recording:
        store.find_tags(["v1", "v2"])
    assert recording.kinds == {"GET": 2}


def published(place: Place) -> tuple[Branch, int]:
    """A branch as it was before it was published, and the version that published it."""
    store = place.create([1]).store()
    branch = store.create_branch("a")
    place.branch("a").append(2)
    version = store.publish("a").version
    assert version > 1
    return branch, version


def test_a_publication_is_found_when_its_branch_is_gone(place: Place) -> None:
    """The parent's history shows it, and not for another life of the name."""
    branch, version = published(place)
    store = place.store()
    assert store.find_publication(branch) == version
    assert store.find_publication(store.branch("a")) == version
    store.delete_branch("a")
    assert store.find_publication(branch) == version
    assert store.find_publication(store.create_branch("a")) is None


def test_a_publication_that_history_no_longer_shows_is_unknown(local_place: Place) -> None:
    """Where versions since the fork were cleaned up, neither yes nor no is said."""
    branch, _ = published(local_place)
    store = local_place.store()
    store.delete_branch("a")
    local_place.append(3)
    local_place.open().cleanup_old_versions(retain_versions=1, delete_unverified=True)
    with pytest.raises(OutcomeUnknownError, match="'a' was published cannot be known"):
        store.find_publication(branch)
