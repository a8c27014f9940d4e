"""What pylance asks an S3 server for."""

from __future__ import annotations

import json
from collections.abc import Callable
from uuid import uuid4

import lance
import pytest
import s3fs
from lance import LanceDataset

from tests.refstore.lance_guards.looking import clone, write
from tests.services.proxy import S3Proxy
from tests.services.seaweed import BUCKET, S3Server


@pytest.fixture
def remote(s3: S3Server, s3_proxy: S3Proxy) -> LanceDataset:
    uri, options = f"s3://{BUCKET}/{uuid4().hex}", s3.storage_options(s3_proxy.port)
    write(uri, 0, mode="create", storage_options=options)
    write(uri, 1, storage_options=options).tags.create("old", 1)
    return lance.dataset(uri, storage_options=options)


def reopen(at: LanceDataset, version: int | None = None) -> LanceDataset:
    return lance.dataset(at.uri, version, storage_options=at.initial_storage_options)


def clone_remote(at: LanceDataset) -> None:
    assert clone(at.uri, "b", 2, storage_options=at.initial_storage_options).version == 2


REQUESTS: dict[str, tuple[Callable[[LanceDataset], object], dict[str, int]]] = {
    "open": (reopen, {"LIST": 1, "GET": 1}),
    "open version": (lambda at: reopen(at, 1), {"HEAD": 1, "GET": 1}),
    "clone": (clone_remote, {"LIST": 1, "HEAD": 1, "GET": 1, "PUT": 2}),
    "branch": (lambda at: at.create_branch("b"), {"LIST": 1, "HEAD": 3, "GET": 1, "PUT": 3}),
    "tag": (lambda at: at.tags.create("t", 1), {"HEAD": 2, "PUT": 1}),
    "tag latest": (lambda at: at.tags.create("t"), {"HEAD": 2, "PUT": 1}),
    "get tag": (lambda at: at.tags.get_version("old"), {"HEAD": 2, "GET": 1}),
    "move tag": (lambda at: at.tags.update("old", 2), {"HEAD": 4, "GET": 1, "PUT": 1}),
    "clone elsewhere": (
        lambda at: at.shallow_clone(f"{at.uri}-clone", "old"),
        {"LIST": 3, "HEAD": 3, "GET": 3, "PUT": 2},
    ),
}


@pytest.mark.s3
@pytest.mark.parametrize("call", REQUESTS)
def test_requests_of_one_call(remote: LanceDataset, s3_proxy: S3Proxy, call: str) -> None:
    """pylance sends exactly these requests for one call."""
    act, expected = REQUESTS[call]
    with s3_proxy.recording() as recording:
        act(remote)
    assert dict(recording.kinds) == expected


@pytest.mark.s3
def test_requests_grow_with_the_number_of_refs(remote: LanceDataset, s3_proxy: S3Proxy) -> None:
    """Listing T tags takes 2T + 1 requests, deleting one of B branches 4B + 2T + 5."""
    remote.tags.create("new", 2)
    for name in ("a", "b", "c"):
        remote.create_branch(name)
    with s3_proxy.recording() as listing:
        remote.tags.list()
    with s3_proxy.recording() as deleting:
        remote.branches.delete("a")
    assert (len(listing), len(deleting)) == (2 * 2 + 1, 4 * 3 + 2 * 2 + 5)


@pytest.mark.s3
def test_clone_on_s3_refuses_an_existing_head(remote: LanceDataset) -> None:
    """Committing a Clone twice at one place on S3 raises OSError."""
    clone_remote(remote)
    with pytest.raises(OSError, match="Clone operation should not enter"):
        clone_remote(remote)


@pytest.mark.s3
def test_a_ref_is_an_encoded_key(remote: LanceDataset, s3: S3Server, s3_proxy: S3Proxy) -> None:
    """A branch's key on S3 holds %2F as it is, and s3fs reads it with a HEAD and a GET."""
    remote.create_branch("feature/é.1")
    keys = {"key": s3.access_key, "secret": s3.secret_key}
    filesystem = s3fs.S3FileSystem(endpoint_url=f"http://127.0.0.1:{s3_proxy.port}", **keys)
    with s3_proxy.recording() as recording:
        body = filesystem.cat_file(f"{remote.uri}/_refs/branches/feature%2F%C3%A9.1.json")
    assert json.loads(body)["parentVersion"] == 2
    assert dict(recording.kinds) == {"HEAD": 1, "GET": 1}
