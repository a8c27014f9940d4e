from __future__ import annotations

import uuid

import pytest
import s3fs

from airflow_provider_lancerefs.refstore import (
    AlreadyExistsError,
    ConflictError,
    OutcomeUnknownError,
    StorageError,
)
from airflow_provider_lancerefs.refstore.storage import Storage, open_storage
from tests.refstore.store_contract import StorageContract
from tests.services.proxy import Fault, Request, S3Proxy
from tests.services.seaweed import BUCKET, S3Server

pytestmark = pytest.mark.s3


class TestS3Storage(StorageContract):
    @pytest.fixture(autouse=True)
    def raw(self, s3: S3Server) -> None:
        options = s3.storage_options()
        self._raw = s3fs.S3FileSystem(
            key=s3.access_key, secret=s3.secret_key, endpoint_url=options["aws_endpoint"]
        )

    @pytest.fixture
    def storage(self, s3: S3Server, s3_proxy: S3Proxy) -> Storage:
        return open_storage(f"s3://{BUCKET}/{uuid.uuid4().hex}", s3.storage_options(s3_proxy.port))

    def put(self, storage: Storage, path: str, data: bytes) -> None:
        self._raw.call_s3("put_object", Bucket=BUCKET, Key=self._key(storage, path), Body=data)

    def get(self, storage: Storage, path: str) -> bytes | None:
        try:
            data: bytes = self._raw.cat_file(f"{BUCKET}/{self._key(storage, path)}")
        except FileNotFoundError:
            return None
        return data

    def _key(self, storage: Storage, path: str) -> str:
        return f"{storage.uri.removeprefix(f's3://{BUCKET}/')}/{path}"

    def test_a_lost_reply_to_a_create_is_no_conflict(
        self, storage: Storage, s3_proxy: S3Proxy
    ) -> None:
        """A create that landed while its reply was lost is a success."""
        storage.put_new("x/proof", b"")
        with s3_proxy.breaking(_LostOnce("PUT")):
            blob = storage.put_new("x/one", b"1")
        assert storage.read("x/one") == blob

    def test_a_lost_reply_to_a_replace_is_no_conflict(
        self, storage: Storage, s3_proxy: S3Proxy
    ) -> None:
        """A replace that landed while its reply was lost is a success."""
        blob = storage.put_new("x/one", b"1")
        blob = storage.replace("x/one", b"2", expected=blob.token)
        with s3_proxy.breaking(_LostOnce("PUT")):
            blob = storage.replace("x/one", b"3", expected=blob.token)
        assert storage.read("x/one") == blob

    def test_a_lost_reply_to_another_s_create_is_a_conflict(
        self, storage: Storage, s3_proxy: S3Proxy
    ) -> None:
        """A create that failed while its reply was lost is not taken for a success."""
        storage.put_new("x/one", b"theirs")
        with s3_proxy.breaking(_LostOnce("PUT")), pytest.raises(AlreadyExistsError):
            storage.put_new("x/one", b"ours")
        assert self.get(storage, "x/one") == b"theirs"

    def test_a_lost_reply_to_a_stale_replace_is_a_conflict(
        self, storage: Storage, s3_proxy: S3Proxy
    ) -> None:
        """A replace that failed while its reply was lost is not taken for a success."""
        stale = storage.put_new("x/one", b"1").token
        self.put(storage, "x/one", b"theirs")
        with s3_proxy.breaking(_LostOnce("PUT")), pytest.raises(ConflictError):
            storage.replace("x/one", b"ours", expected=stale)

    def test_no_reply_at_all_is_an_unknown_outcome(
        self, storage: Storage, s3_proxy: S3Proxy
    ) -> None:
        """Where neither the write nor the reading back is answered, the outcome is unknown."""
        storage.put_new("x/proof", b"")
        with s3_proxy.breaking(_always_dropped), pytest.raises(OutcomeUnknownError):
            storage.put_new("x/one", b"1")

    def test_a_write_that_never_arrived_is_not_called_a_success(
        self, storage: Storage, s3_proxy: S3Proxy
    ) -> None:
        """Where the write was lost on its way, reading back does not find it."""
        storage.put_new("x/proof", b"")

        def drop_writes(request: Request) -> Fault | None:
            return "drop request" if request.method == "PUT" else None

        with s3_proxy.breaking(drop_writes), pytest.raises(OutcomeUnknownError):
            storage.put_new("x/one", b"1")
        assert self.get(storage, "x/one") is None

    def test_a_read_without_answer_is_a_storage_error(
        self, storage: Storage, s3_proxy: S3Proxy
    ) -> None:
        """A read that is never answered is not taken for absence."""
        with s3_proxy.breaking(_always_dropped), pytest.raises(StorageError):
            storage.read("x/one")
        with s3_proxy.breaking(_always_dropped), pytest.raises(StorageError):
            storage.list("x/")

    def test_reading_and_creating_take_one_request(
        self, storage: Storage, s3_proxy: S3Proxy
    ) -> None:
        """No hidden request stands beside a read, a create, a replace or a listing."""
        blob = storage.put_new("x/proof", b"")
        blob = storage.replace("x/proof", b"1", expected=blob.token)
        for call in (
            lambda: storage.read("x/proof"),
            lambda: storage.put_new("x/one", b"1"),
            lambda: storage.replace("x/proof", b"2", expected=blob.token),
            lambda: storage.list("x/"),
            lambda: storage.delete_many(storage.list("x/none")),
        ):
            with s3_proxy.recording() as recording:
                call()
            assert len(recording) == 1


class _LostOnce:
    """Drops the reply to the first request of a method, after the server has done it."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._left = 1

    def __call__(self, request: Request) -> Fault | None:
        if request.method != self._method or not self._left:
            return None
        self._left -= 1
        return "drop reply"


def _always_dropped(request: Request) -> Fault | None:
    return "drop request"
