"""S3 servers that do not look at the conditions of a write."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import s3fs

from airflow_provider_lancerefs.refstore import (
    RefStore,
    UnsupportedStoreError,
    layout,
)
from airflow_provider_lancerefs.refstore.storage.options import s3fs_arguments
from tests.refstore.bad_input.expecting import (
    Table,
    error_of,
    errors_of,
    unchanged,
)
from tests.services.proxy import Fault, Request, S3Proxy
from tests.services.seaweed import S3Server, s3_server
from tests.tables import Place


@pytest.fixture(scope="session")
def open_server() -> Iterator[S3Server]:
    """A real S3 server that takes unsigned requests, so that a proxy may change them."""
    with s3_server(anonymous=True) as server:
        yield server


@pytest.fixture
def careless(open_server: S3Server, s3_place: Place) -> Iterator[tuple[Table, S3Proxy]]:
    """A table on a store that does every write, whatever its conditions.

    A proxy takes the conditions away, for the real server keeps them.
    """
    options = open_server.storage_options()
    table = Table.make(Place(s3_place.uri, options))
    with S3Proxy(open_server.port) as proxy:
        proxy.rewrite = without_conditions
        yield table, proxy


def without_conditions(head: bytes) -> bytes:
    lines = head.split(b"\r\n")
    return b"\r\n".join(
        line for line in lines if not line.lower().startswith((b"if-match", b"if-none-match"))
    )


@pytest.mark.s3
def test_a_store_without_conditional_writes(careless: tuple[Table, S3Proxy]) -> None:
    """A store that ignores conditions is refused by every write, before it changes anything."""
    table, proxy = careless
    options = {**table.place.options, "aws_endpoint": f"http://127.0.0.1:{proxy.port}"}
    store = RefStore.open(table.place.uri, options)
    with unchanged(table.place):
        for call in table.reads(store).values():
            call()
        for name, error in errors_of(table.writes(store)).items():
            assert isinstance(error, UnsupportedStoreError), name
            assert "ignores the condition of a " in str(error), name
    bucket = s3fs.S3FileSystem(**s3fs_arguments(table.place.options), skip_instance_cache=True)
    assert not bucket.exists(f"{table.place.uri}/{layout.PROBE}")


@pytest.mark.s3
def test_a_store_that_keeps_one_condition_only(careless: tuple[Table, S3Proxy]) -> None:
    """Each verb is proven by itself: a store that can only create is refused where it replaces."""
    table, proxy = careless
    proxy.rewrite = lambda head: head.replace(b"If-Match:", b"X-Match:").replace(
        b"if-match:", b"x-match:"
    )
    options = {**table.place.options, "aws_endpoint": f"http://127.0.0.1:{proxy.port}"}
    store = RefStore.open(table.place.uri, options)
    assert store.create_tag("new", "main").version == 2
    with unchanged(table.place):
        for call in (
            lambda: store.move_tag(table.tag, "main@2"),
            lambda: store.set_metadata(table.branch, {"k": "v"}),
            lambda: store.delete_branch("b/c"),
            lambda: store.delete_tag("t"),
        ):
            assert isinstance(error_of(call), UnsupportedStoreError)


@pytest.mark.s3
def test_a_careless_store_that_does_not_delete(careless: tuple[Table, S3Proxy]) -> None:
    """Where the probe cannot be removed again either, the call still ends in one typed error."""
    table, proxy = careless
    options = {**table.place.options, "aws_endpoint": f"http://127.0.0.1:{proxy.port}"}
    store = RefStore.open(table.place.uri, options)

    def no_deletes(request: Request) -> Fault | None:
        return "drop request" if request.kind == "DELETE" else None

    with proxy.breaking(no_deletes), unchanged(table.place):
        error_of(lambda: store.create_tag("new", "main"))
