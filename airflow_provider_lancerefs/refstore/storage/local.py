"""Objects as files on a local disk.

A file appears whole or not at all: it is written under a scratch name and then linked (create) or
renamed (replace). `link` fails where the name is taken, whoever took it; replace and remove compare
under a lock that every process using this library takes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from airflow_provider_lancerefs.refstore import layout
from airflow_provider_lancerefs.refstore.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    StorageError,
    UnsupportedStoreError,
)
from airflow_provider_lancerefs.refstore.storage.base import Blob, Entry, Storage

_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_ABSENT = (FileNotFoundError, NotADirectoryError)
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)


class LocalStorage:
    """The files below one folder."""

    is_remote = False

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def __repr__(self) -> str:
        return f"LocalStorage({self.uri!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStorage) and other.uri == self.uri

    def __hash__(self) -> int:
        return hash(self.uri)

    @property
    def uri(self) -> str:
        return str(self._root)

    def read(self, path: str) -> Blob | None:
        try:
            with _translated(path), (self._root / path).open("rb") as file:
                data = file.read()
                modified = _modified(os.fstat(file.fileno()))
        except _ABSENT:
            return None
        return Blob(data, _content_token(data), modified)

    def read_many(self, paths: Iterable[str]) -> dict[str, Blob]:
        found = {path: self.read(path) for path in paths}
        return {path: blob for path, blob in found.items() if blob is not None}

    def put_new(self, path: str, data: bytes) -> Blob:
        with _translated(path, missing_is_failure=True), self._scratch() as scratch:
            scratch.write_bytes(data)
            try:
                self._place(scratch, path, os.link)
            except FileExistsError:
                raise AlreadyExistsError(f"{path} already exists.", ref=path) from None
            except OSError as error:
                if error.errno in _NO_LINKS:
                    raise UnsupportedStoreError(
                        f"The file system of {self.uri} has no hard links, so a file cannot be "
                        "created atomically there: keep the dataset elsewhere."
                    ) from error
                raise
        return Blob(data, _content_token(data))

    def replace(self, path: str, data: bytes, *, expected: str) -> Blob:
        if self.read(path) is None:
            self._compare(path, expected)
        with _translated(path, missing_is_failure=True), self._lock(), self._scratch() as scratch:
            self._compare(path, expected)
            scratch.write_bytes(data)
            self._place(scratch, path, os.replace)
        return Blob(data, _content_token(data))

    def remove(self, path: str, *, expected: str) -> None:
        with _translated(path), self._lock():
            if not (self._root / path).exists():
                return
            self._compare(path, expected)
            self._unlink(path)

    def list(self, prefix: str, *, limit: int | None = None) -> Sequence[Entry]:
        try:
            with _translated(prefix):
                paths = sorted(self._below(prefix))
        except _ABSENT:
            return []
        entries = (self._entry(path) for path in paths)
        found = (entry for entry in entries if entry is not None)
        return [entry for entry, _ in zip(found, range(limit), strict=False)] if limit else [*found]

    def delete_many(self, entries: Iterable[Entry]) -> None:
        with self._lock():
            for entry in entries:
                now = self._entry(entry.path)
                if now is not None and now.token == entry.token:
                    with _translated(entry.path):
                        self._unlink(entry.path)

    def copy(self, path: str, target: Storage, target_path: str) -> None:
        with self.open_input(path) as stream:
            target.upload(target_path, stream)

    def open_input(self, path: str) -> BinaryIO:
        with _translated(path, missing_is_failure=True):
            return (self._root / path).open("rb")

    def upload(self, path: str, stream: BinaryIO) -> None:
        with _translated(path, missing_is_failure=True), self._scratch() as scratch:
            with scratch.open("wb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)
            self._place(scratch, path, os.replace)

    def _below(self, prefix: str) -> Iterator[str]:
        folders = [prefix.rpartition("/")[0]]
        while folders:
            folder = folders.pop()
            try:
                children = list(os.scandir(self._root / folder))
            except _ABSENT:
                continue
            for child in children:
                path = f"{folder}/{child.name}" if folder else child.name
                if child.is_dir():
                    if path.startswith(prefix) or prefix.startswith(path + "/"):
                        folders.append(path)
                elif path.startswith(prefix):
                    yield path

    def _entry(self, path: str) -> Entry | None:
        try:
            with _translated(path):
                status = (self._root / path).stat()
        except _ABSENT:
            return None
        token = f"stat:{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"
        return Entry(path, status.st_size, _modified(status), token)

    def _compare(self, path: str, expected: str) -> None:
        if expected.startswith("stat:"):
            entry = self._entry(path)
            now = entry.token if entry else None
        else:
            blob = self.read(path)
            now = blob.token if blob else None
        if now != expected:
            raise ConflictError(
                f"{path} {'changed' if now else 'was deleted'} since it was read: read it again.",
                ref=path,
            )

    def _place(self, scratch: Path, path: str, move: MoveFile) -> None:
        """Link or rename into place, against a folder that is pruned at the same time."""
        target = self._root / path
        for attempt in range(100):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                move(scratch, target)
            except FileNotFoundError as error:
                if attempt == 99 or not scratch.exists():
                    raise StorageError(
                        f"{path} was removed while it was being written: try again.", ref=path
                    ) from error
            else:
                return

    def _unlink(self, path: str) -> None:
        """Delete a file, and the folders of a branch or a stage that it leaves empty."""
        target = self._root / path
        target.unlink(missing_ok=True)
        tree = self._root / layout.TREE
        for folder in target.parents:
            inside = folder.relative_to(self._root).as_posix()
            if tree not in folder.parents and not layout.is_staged(f"{inside}/"):
                return
            try:
                folder.rmdir()
            except OSError:
                return

    @contextlib.contextmanager
    def _scratch(self) -> Iterator[Path]:
        scratch = self._root / f"{layout.SCRATCH_PREFIX}{uuid.uuid4().hex}"
        scratch.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield scratch
        finally:
            scratch.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        path = self._root / layout.LOCK
        with _translated(layout.LOCK):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = path.open("ab")
        with handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


class MoveFile(Protocol):
    def __call__(self, source: Path, target: Path, /) -> None: ...


def _modified(status: os.stat_result) -> datetime:
    """When a file came to its place: linking and renaming leave its mtime, which may be older."""
    return datetime.fromtimestamp(max(status.st_mtime_ns, status.st_ctime_ns) / 1e9, UTC)


def _content_token(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def _translated(path: str, *, missing_is_failure: bool = False) -> Iterator[None]:
    """The operating system's errors as ours; a missing file stays what it is, for reads."""
    try:
        yield
    except OSError as error:
        if isinstance(error, _ABSENT) or error.errno == errno.ENAMETOOLONG:
            if not missing_is_failure:
                raise FileNotFoundError(path) from error
            raise StorageError(f"{path} is missing.", ref=path) from error
        denied = error.errno in _DENIED
        raise StorageError(
            f"{'Access denied' if denied else 'The disk failed'} at {path}: {error.strerror}.",
            kind=ErrorKind.ACCESS_DENIED if denied else ErrorKind.STORAGE,
            ref=path,
        ) from error
