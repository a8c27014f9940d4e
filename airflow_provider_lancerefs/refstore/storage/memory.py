"""Objects in fsspec's memory file system: gone with the process, shared by all of its threads."""

from __future__ import annotations

import hashlib
import io
import shutil
import threading
from collections.abc import Iterable, Sequence
from typing import BinaryIO

from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_lancerefs.refstore.errors import (
    AlreadyExistsError,
    ConflictError,
    StorageError,
)
from airflow_provider_lancerefs.refstore.storage.base import Blob, Entry, Storage

_LOCK = threading.RLock()


class MemoryStorage:
    """The objects below one `memory://` name; one lock guards every precondition."""

    is_remote = False

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._root = "/" + uri.partition("://")[2]

    def __repr__(self) -> str:
        return f"MemoryStorage({self.uri!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryStorage) and other.uri == self.uri

    def __hash__(self) -> int:
        return hash(self.uri)

    def __reduce__(self) -> tuple[type[MemoryStorage], tuple[str]]:
        return MemoryStorage, (self.uri,)

    @property
    def _fs(self) -> MemoryFileSystem:
        return MemoryFileSystem()

    def read(self, path: str) -> Blob | None:
        with _LOCK:
            try:
                data = self._fs.cat_file(self._at(path))
                modified = self._fs.store[self._at(path)].modified
            except (FileNotFoundError, IsADirectoryError, KeyError):
                return None
        return Blob(data, _token(data), modified)

    def read_many(self, paths: Iterable[str]) -> dict[str, Blob]:
        found = {path: self.read(path) for path in paths}
        return {path: blob for path, blob in found.items() if blob is not None}

    def put_new(self, path: str, data: bytes) -> Blob:
        with _LOCK:
            if self.read(path) is not None:
                raise AlreadyExistsError(f"{path} already exists.", ref=path)
            self._fs.pipe_file(self._at(path), data)
        return Blob(data, _token(data))

    def replace(self, path: str, data: bytes, *, expected: str) -> Blob:
        with _LOCK:
            self._compare(path, expected)
            self._fs.pipe_file(self._at(path), data)
        return Blob(data, _token(data))

    def remove(self, path: str, *, expected: str) -> None:
        with _LOCK:
            if self.read(path) is not None:
                self._compare(path, expected)
                self._fs.rm_file(self._at(path))

    def list(self, prefix: str, *, limit: int | None = None) -> Sequence[Entry]:
        with _LOCK:
            start = self._at(prefix)
            found = sorted(path for path in self._fs.store if path.startswith(start))[:limit]
            return [self._entry(path) for path in found]

    def delete_many(self, entries: Iterable[Entry]) -> None:
        with _LOCK:
            for entry in entries:
                blob = self.read(entry.path)
                if blob is not None and blob.token == entry.token:
                    self._fs.rm_file(self._at(entry.path))

    def copy(self, path: str, target: Storage, target_path: str) -> None:
        with self.open_input(path) as stream:
            target.upload(target_path, stream)

    def open_input(self, path: str) -> BinaryIO:
        blob = self.read(path)
        if blob is None:
            raise StorageError(f"{path} is missing.", ref=path) from FileNotFoundError(path)
        return io.BytesIO(blob.data)

    def upload(self, path: str, stream: BinaryIO) -> None:
        whole = io.BytesIO()
        shutil.copyfileobj(stream, whole)
        with _LOCK:
            self._fs.pipe_file(self._at(path), whole.getvalue())

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _entry(self, path: str) -> Entry:
        file = self._fs.store[path]
        data = file.getvalue()
        return Entry(path[len(self._root) + 1 :], len(data), file.modified, _token(data))

    def _compare(self, path: str, expected: str) -> None:
        blob = self.read(path)
        if blob is None or blob.token != expected:
            raise ConflictError(
                f"{path} {'changed' if blob else 'was deleted'} since it was read: read it again.",
                ref=path,
            )


def _token(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
