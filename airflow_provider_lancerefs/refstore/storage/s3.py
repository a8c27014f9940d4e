"""Objects on S3 and on servers that speak it, through s3fs.

Conditional writes are `If-None-Match: *` and `If-Match`. A server other than AWS is asked once per
process whether it honours them, on an object made for that question; one that does not is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, cached_property, partial
from typing import Any, BinaryIO, TypeVar

import aiohttp
import s3fs
from aiobotocore.session import AioSession
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
from botocore.utils import parse_timestamp
from fsspec.asyn import sync

from airflow_provider_lancerefs.refstore import layout
from airflow_provider_lancerefs.refstore.errors import (
    AlreadyExistsError,
    ConflictError,
    DatasetNotFoundError,
    ErrorKind,
    LanceRefsError,
    OutcomeUnknownError,
    StorageError,
    UnsupportedStoreError,
)
from airflow_provider_lancerefs.refstore.storage.base import Blob, Entry, Storage
from airflow_provider_lancerefs.refstore.storage.options import s3fs_arguments

_Result = TypeVar("_Result")
_NOT_S3 = (KeyError, RecursionError)  # what the SDK trips over in a reply that is none of S3's
_FAILURES = (
    OSError,
    BotoCoreError,
    ClientError,
    aiohttp.ClientError,
    asyncio.TimeoutError,
    *_NOT_S3,
)
_MISSING = {"NoSuchKey", "404", "NotFound"}
_PRECONDITION = {"PreconditionFailed", "412"}
_BUSY = {"ConditionalRequestConflict", "OperationAborted", "409"}
_NOT_OFFERED = {"NotImplemented", "501"}
_NO_BUCKET = {"NoSuchBucket"}
_NO_ETAG = '"00000000000000000000000000000000"'
_DENIED = {
    "AccessDenied",
    "403",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
    "AllAccessDisabled",
}
_PARALLEL = 32
_PAGE = 1000
_BUSY_TRIES = 5
_LARGEST_SINGLE_COPY = 5 * 1024**3
_PROOFS: set[tuple[str, str, str]] = set()


class S3Storage:
    """The objects below one `s3://bucket/prefix`."""

    is_remote = True

    def __init__(self, uri: str, storage_options: Mapping[str, str]) -> None:
        self.uri = uri
        self._options = dict(storage_options)
        self._bucket, _, self._prefix = uri.removeprefix("s3://").partition("/")

    def __repr__(self) -> str:
        return f"S3Storage({self.uri!r})"

    def __reduce__(self) -> tuple[type[S3Storage], tuple[str, dict[str, str]]]:
        return S3Storage, (self.uri, self._options)

    @cached_property
    def _fs(self) -> Any:
        filesystem = s3fs.S3FileSystem(session=_session(), **s3fs_arguments(self._options))
        filesystem.retries = 2
        return filesystem

    def read(self, path: str) -> Blob | None:
        return self._run(self._read(path))

    def read_many(self, paths: Iterable[str]) -> dict[str, Blob]:
        return self._run(self._read_many([*paths]))

    def put_new(self, path: str, data: bytes) -> Blob:
        self._prove("create")
        try:
            return self._put(path, data, IfNoneMatch="*")
        except ConflictError:
            raise AlreadyExistsError(f"{path} already exists.", ref=path) from None

    def replace(self, path: str, data: bytes, *, expected: str) -> Blob:
        self._prove("replace")
        return self._put(path, data, IfMatch=expected)

    def remove(self, path: str, *, expected: str) -> None:
        self._prove("delete")
        code = self._code_of(self._call("delete_object", path, IfMatch=expected), path)
        if code in _PRECONDITION and self.read(path) is not None:
            raise ConflictError(f"{path} changed since it was read: read it again.", ref=path)

    def list(self, prefix: str, *, limit: int | None = None) -> Sequence[Entry]:
        with _translated(self._where(prefix)):
            return self._run(self._list(prefix, limit))

    def delete_many(self, entries: Iterable[Entry]) -> None:
        found = [*entries]
        if found:
            self._prove("delete")
        for start in range(0, len(found), _PAGE):
            self._delete(found[start : start + _PAGE])

    def copy(self, path: str, target: Storage, target_path: str) -> None:
        if isinstance(target, S3Storage) and target._options == self._options:
            with _translated(self._where(path)):
                self._run(self._copy(path, target, target_path))
            return
        with self.open_input(path) as stream:
            target.upload(target_path, stream)

    def open_input(self, path: str) -> BinaryIO:
        with _translated(self._where(path)):
            stream: BinaryIO = self._fs.open(f"{self._bucket}/{self._key(path)}", "rb")
        return stream

    def upload(self, path: str, stream: BinaryIO) -> None:
        with (
            _translated(self._where(path)),
            self._fs.open(f"{self._bucket}/{self._key(path)}", "wb") as file,
        ):
            shutil.copyfileobj(stream, file, 1 << 20)

    def _where(self, path: str) -> str:
        return f"{self.uri}/{path}"

    def _key(self, path: str) -> str:
        return f"{self._prefix}/{path}" if self._prefix else path

    def _run(self, work: Awaitable[_Result]) -> _Result:
        async def call() -> _Result:
            return await work

        result: _Result = sync(self._fs.loop, call)
        return result

    def _call(self, method: str, path: str, **arguments: object) -> Awaitable[dict[str, Any]]:
        call: Awaitable[dict[str, Any]] = self._fs._call_s3(
            method, Bucket=self._bucket, Key=self._key(path), **arguments
        )
        return call

    async def _read(self, path: str) -> Blob | None:
        with _translated(self._where(path)):
            try:
                reply = await self._call("get_object", path)
                async with reply["Body"] as body:
                    return Blob(
                        await body.read(), reply["ETag"], reply["LastModified"].astimezone(UTC)
                    )
            except _FAILURES as error:
                if _code(error) in _MISSING:
                    return None
                raise

    async def _read_many(self, paths: Sequence[str]) -> dict[str, Blob]:
        slots = asyncio.Semaphore(_PARALLEL)

        async def one(path: str) -> Blob | None:
            async with slots:
                return await self._read(path)

        blobs = await asyncio.gather(*(one(path) for path in paths))
        return {path: blob for path, blob in zip(paths, blobs, strict=True) if blob is not None}

    async def _list(self, prefix: str, limit: int | None) -> Sequence[Entry]:
        entries = []
        more: dict[str, str] = {}
        while True:
            reply = await self._fs._call_s3(
                "list_objects_v2",
                Bucket=self._bucket,
                Prefix=self._key(prefix),
                MaxKeys=min(limit or _PAGE, _PAGE),
                **more,
            )
            for item in reply.get("Contents", ()):
                path = item["Key"][len(self._prefix) + 1 :] if self._prefix else item["Key"]
                modified = item["LastModified"].astimezone(UTC)
                entries.append(Entry(path, item["Size"], modified, item["ETag"]))
            if not reply.get("IsTruncated") or (limit and len(entries) >= limit):
                return entries[:limit]
            more = {"ContinuationToken": reply["NextContinuationToken"]}

    async def _copy(self, path: str, target: S3Storage, target_path: str) -> None:
        source = {"Bucket": self._bucket, "Key": self._key(path)}
        try:
            await target._call("copy_object", target_path, CopySource=source)
        except _FAILURES as error:
            if _code(error) not in {"EntityTooLarge", "InvalidRequest"}:
                raise
            await self._fs._cp_file(
                f"{self._bucket}/{self._key(path)}",
                f"{target._bucket}/{target._key(target_path)}",
            )

    def _delete(self, page: Sequence[Entry]) -> None:
        objects = [{"Key": self._key(entry.path), "ETag": entry.token} for entry in page]
        delete = {"Objects": objects, "Quiet": True}
        with _translated(self._where(page[0].path)):
            reply = self._run(
                self._fs._call_s3("delete_objects", Bucket=self._bucket, Delete=delete)
            )
        for failure in reply.get("Errors", ()):
            if failure.get("Code") not in _PRECONDITION | _MISSING:
                raise _error(failure.get("Code"), f"s3://{self._bucket}/{failure.get('Key')}", None)

    def _put(self, path: str, data: bytes, **condition: str) -> Blob:
        """One conditional write; a refusal or a lost reply is settled by reading back."""
        tries = _BUSY_TRIES
        while True:
            tries -= 1
            try:
                reply = self._run(self._call("put_object", path, Body=data, **condition))
            except _FAILURES as error:
                code = _code(error)
                if code in _BUSY and tries:
                    continue
                return self._settle(path, data, code, error)
            return Blob(data, reply["ETag"])

    def _settle(self, path: str, data: bytes, code: str | None, error: BaseException) -> Blob:
        """What became of a write that was not answered with success."""
        if code in _DENIED | _NOT_OFFERED | _NO_BUCKET:
            raise _error(code, self._where(path), error) from error
        try:
            now = self.read(path)
        except DatasetNotFoundError:
            raise
        except LanceRefsError as unreadable:
            raise _unknown(self._where(path)) from unreadable
        if now is not None and now.data == data:
            return now
        if code not in _PRECONDITION | _BUSY | _MISSING:
            raise _unknown(self._where(path)) from error
        raise ConflictError(
            f"{path} {'changed' if now else 'was deleted'} since it was read: read it again.",
            ref=path,
        ) from error

    def _code_of(self, call: Awaitable[object], path: str) -> str | None:
        """Run a call; the code of a refused or missing precondition, None for success."""
        with _translated(self._where(path)):
            try:
                self._run(call)
            except _FAILURES as error:
                code = _code(error)
                if code in _PRECONDITION | _MISSING:
                    return code
                raise
        return None

    def _prove(self, verb: str) -> None:
        """Ask the server once whether it refuses a change whose condition does not hold."""
        endpoint = self._run(self._endpoint())
        proof = (endpoint, self._bucket, verb)
        if proof in _PROOFS:
            return
        if not endpoint.endswith(".amazonaws.com") and not self._refuses(verb):
            self._code_of(self._call("delete_object", layout.PROBE), layout.PROBE)
            raise UnsupportedStoreError(
                f"The S3 server at {endpoint} ignores the condition of a {verb}, so two writers "
                "could undo each other's work unseen: use one that honours If-None-Match and "
                "If-Match on PUT and DELETE.",
                ref=self.uri,
            )
        _PROOFS.add(proof)

    def _refuses(self, verb: str) -> bool:
        """Whether the server refuses, on an object made for this question."""
        create = partial(self._call, "put_object", layout.PROBE, Body=b"lancerefs", IfNoneMatch="*")
        if verb == "replace":
            replace = self._call("put_object", layout.PROBE, Body=b"lancerefs", IfMatch=_NO_ETAG)
            return self._is_refused(replace)
        made_now = not self._is_refused(create())
        if verb == "create":
            return not made_now or self._is_refused(create())
        self._is_refused(self._call("delete_object", layout.PROBE, IfMatch=_NO_ETAG))
        self._delete([Entry(layout.PROBE, 0, datetime.now(UTC), _NO_ETAG)])
        return self.read(layout.PROBE) is not None

    def _is_refused(self, call: Awaitable[object]) -> bool:
        try:
            return self._code_of(call, layout.PROBE) is not None
        except StorageError as error:
            if error.__cause__ is not None and _code(error.__cause__) in _NOT_OFFERED:
                return False
            raise

    async def _endpoint(self) -> str:
        with _translated(self.uri):
            client = await self._fs.set_session()
        return str(client.meta.endpoint_url)


@cache
def _session() -> AioSession:
    """A session that reads times with the standard library: half the work of reading a reply."""
    session = AioSession()
    parsers = session.get_component("response_parser_factory")
    parsers.set_parser_defaults(timestamp_parser=_moment)
    return session


def _moment(text: str) -> datetime:
    """As listings and, after that, as headers say it; the SDK knows of more ways."""
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with contextlib.suppress(TypeError, ValueError):
            return parse(text)
    moment: datetime = parse_timestamp(text)
    return moment


@contextlib.contextmanager
def _translated(path: str) -> Iterator[None]:
    """Whatever the SDK raises, as one of ours."""
    try:
        yield
    except _FAILURES as error:
        raise _error(_code(error), path, error) from error


def _code(error: BaseException) -> str | None:
    """The server's own error code; None when no answer came. The Python type says too little."""
    for one in (error, error.__cause__):
        if isinstance(one, ClientError):
            return str(one.response.get("Error", {}).get("Code", ""))
    if isinstance(error, FileNotFoundError):
        return "NoSuchKey"
    return "AccessDenied" if isinstance(error, PermissionError | NoCredentialsError) else None


def _error(code: str | None, path: str, cause: BaseException | None) -> LanceRefsError:
    if code in _DENIED:
        return StorageError(
            f"S3 denied access to {path} ({code}): check the credentials and what they may do.",
            kind=ErrorKind.ACCESS_DENIED,
            ref=path,
        )
    if code in _NO_BUCKET:
        return DatasetNotFoundError(f"The bucket of {path} does not exist.", ref=path)
    if isinstance(cause, _NOT_S3):
        return StorageError(f"What answered at {path} does not speak S3.", ref=path)
    said = code or (type(cause).__name__ if cause else "no answer")
    return StorageError(f"S3 failed at {path} ({said}): try again.", ref=path)


def _unknown(path: str) -> OutcomeUnknownError:
    return OutcomeUnknownError(
        f"No answer came to a write of {path}, and it may still land: read it again before "
        "anything else.",
        ref=path,
    )
