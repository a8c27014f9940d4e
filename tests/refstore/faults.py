"""A storage that dies at a chosen durable write, one whose replies get lost, and one that waits.

All of them stand in front of a real storage, which fails at no time of a test's choosing; what they
let through really happens.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import BinaryIO, TypeVar

from airflow_provider_lancerefs.refstore import LanceRefsError, OutcomeUnknownError
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.storage import Blob, Entry, Storage, open_storage

_T = TypeVar("_T")


class Crash(BaseException):
    """The process died here; no `except Exception` of the library's sees it."""


class Mode(StrEnum):
    """What goes wrong with the chosen write."""

    AFTER = "it took effect, then the process died"
    BEFORE = "the process died before it took effect"
    LAGGING_REPLY = "it took effect, and its reply was lost"


@dataclass
class Fuse:
    """Counts durable writes, over any number of storages, and blows at one of them.

    A dead process writes nothing more: after a crash every further write crashes as well. A write
    that was refused (the name is taken, the object has changed) took no effect and is not counted
    after the fact.
    """

    crash_after: int
    mode: Mode = Mode.AFTER
    error: type[LanceRefsError] = OutcomeUnknownError
    writes: int = 0
    blown: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def write(self, path: str, act: Callable[[], _T]) -> _T:
        with self._lock:
            if self.blown and self.mode is not Mode.LAGGING_REPLY:
                raise Crash(f"a dead process writes {path}")
            if self.mode is Mode.BEFORE and self.writes + 1 == self.crash_after:
                self.blown = True
                raise Crash(f"before write {self.crash_after}: {path}")
            done = act()
            self.writes += 1
            if self.mode is Mode.BEFORE or self.writes != self.crash_after:
                return done
            self.blown = True
            if self.mode is Mode.AFTER:
                raise Crash(f"after write {self.crash_after}: {path}")
            raise self.error(f"The reply to write {self.crash_after} ({path}) was lost.", ref=path)


class Wrapper:
    """Passes reads on to another storage; it is that storage to whoever compares the two."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Wrapper) and other.uri == self.uri

    def __hash__(self) -> int:
        return hash(self.uri)

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def is_remote(self) -> bool:
        return self._inner.is_remote

    def read(self, path: str) -> Blob | None:
        return self._inner.read(path)

    def read_many(self, paths: Iterable[str]) -> dict[str, Blob]:
        return self._inner.read_many(paths)

    def list(self, prefix: str, *, limit: int | None = None) -> list[Entry]:
        return self._inner.list(prefix, limit=limit)

    def copy(self, path: str, target: Storage, target_path: str) -> None:
        self._inner.copy(path, target, target_path)

    def open_input(self, path: str) -> BinaryIO:
        return self._inner.open_input(path)


class CrashingStorage(Wrapper):
    """A storage whose process dies at the n-th durable write, or whose reply to it gets lost.

    Durable writes are `put_new`, `replace`, `remove`, `upload` and each single deletion within
    `delete_many`.
    """

    def __init__(
        self,
        inner: Storage,
        crash_after: int = 1,
        mode: Mode = Mode.AFTER,
        error: type[LanceRefsError] = OutcomeUnknownError,
        *,
        fuse: Fuse | None = None,
    ) -> None:
        super().__init__(inner)
        self.fuse = fuse or Fuse(crash_after, mode, error)

    def put_new(self, path: str, data: bytes) -> Blob:
        return self.fuse.write(path, lambda: self._inner.put_new(path, data))

    def replace(self, path: str, data: bytes, *, expected: str) -> Blob:
        return self.fuse.write(path, lambda: self._inner.replace(path, data, expected=expected))

    def remove(self, path: str, *, expected: str) -> None:
        self.fuse.write(path, lambda: self._inner.remove(path, expected=expected))

    def delete_many(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.fuse.write(entry.path, lambda entry=entry: self._inner.delete_many([entry]))

    def upload(self, path: str, stream: BinaryIO) -> None:
        self.fuse.write(path, lambda: self._inner.upload(path, stream))


@dataclass(frozen=True)
class CrashingDataset(Dataset):
    """A dataset whose storage crashes, and with it those of every other place it writes to."""

    @property
    def fuse(self) -> Fuse:
        assert isinstance(self.storage, CrashingStorage)
        return self.storage.fuse

    @staticmethod
    def over(dataset: Dataset, fuse: Fuse) -> CrashingDataset:
        storage = CrashingStorage(dataset.storage, fuse=fuse)
        return CrashingDataset(
            storage,
            dataset.storage_options,
            dataset.grace,
            dataset.creation_lease,
            dataset.publish_lease,
        )

    def elsewhere(self, uri: str) -> Dataset:
        inner = open_storage(uri, self.storage_options)
        return replace(self, storage=CrashingStorage(inner, fuse=self.fuse))


class Suspended:
    """A call that runs in a thread of its own, from one point to the next, and only when told to.

    A point lies before and after every storage operation, and each file that `delete_many` deletes
    is an operation. Nothing runs at the same time as whoever tells it to go on, so the same
    commands always make the same interleaving.
    """

    def __init__(self, inner: Storage, work: Callable[[Storage], object]) -> None:
        self.ended = False
        self.killed = False
        self.failure: BaseException | None = None
        self.value: object = None
        self._work = work
        self._storage = _GatedStorage(inner, self._point)
        self._turn = threading.Semaphore(0)
        self._idle = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._idle.acquire()

    def advance(self, points: int = 1) -> None:
        """Let it pass that many points, or end."""
        for _ in range(points):
            if self.ended:
                return
            self._turn.release()
            self._idle.acquire()

    def finish(self) -> None:
        while not self.ended:
            self.advance()

    def kill(self) -> None:
        """Let its process die where it stands."""
        self.killed = not self.ended
        self.finish()

    def _run(self) -> None:
        try:
            self._point()
            self.value = self._work(self._storage)
        except BaseException as failure:
            self.failure = failure
        finally:
            self.ended = True
            self._idle.release()

    def _point(self) -> None:
        if not self.killed:
            self._idle.release()
            self._turn.acquire()
        if self.killed:
            raise Crash("killed while it waited")


class _GatedStorage(Wrapper):
    """A storage that asks before and after every operation whether to go on: one at a time."""

    is_remote = False

    def __init__(self, inner: Storage, point: Callable[[], None]) -> None:
        super().__init__(inner)
        self._point = point

    def _between(self, act: Callable[[], _T]) -> _T:
        self._point()
        done = act()
        self._point()
        return done

    def read(self, path: str) -> Blob | None:
        return self._between(lambda: self._inner.read(path))

    def read_many(self, paths: Iterable[str]) -> dict[str, Blob]:
        return self._between(lambda: self._inner.read_many(paths))

    def list(self, prefix: str, *, limit: int | None = None) -> list[Entry]:
        return self._between(lambda: self._inner.list(prefix, limit=limit))

    def put_new(self, path: str, data: bytes) -> Blob:
        return self._between(lambda: self._inner.put_new(path, data))

    def replace(self, path: str, data: bytes, *, expected: str) -> Blob:
        return self._between(lambda: self._inner.replace(path, data, expected=expected))

    def remove(self, path: str, *, expected: str) -> None:
        self._between(lambda: self._inner.remove(path, expected=expected))

    def delete_many(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._between(lambda entry=entry: self._inner.delete_many([entry]))

    def upload(self, path: str, stream: BinaryIO) -> None:
        self._between(lambda: self._inner.upload(path, stream))
