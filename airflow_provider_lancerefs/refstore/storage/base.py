"""What the store needs of a place that keeps objects: little, but with real preconditions.

Every backend passes one contract (`tests/refstore/store_contract.py`): of any number of creators
of a path exactly one wins, a stale replace is refused, and a listing sees the last write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True)
class Blob:
    """An object's bytes, the token that a replace of exactly these bytes must show, and their age.

    `modified` is the server's time, None for what was just written.
    """

    data: bytes
    token: str
    modified: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Entry:
    """An object as a listing shows it; the token makes its deletion conditional."""

    path: str
    size: int
    modified: datetime
    token: str


class Storage(Protocol):
    """The objects below one root. Paths are relative to it, with '/' between parts.

    Absence is a value (None, or left out); every other failure is a LanceRefsError. After a write
    whose reply was lost the object is read back, so a caller sees success, a true conflict, or
    OutcomeUnknownError.
    """

    @property
    def uri(self) -> str:
        """The root, as pylance spells it."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether a call mostly waits for a server, so that several are best made at once."""
        ...

    def read(self, path: str) -> Blob | None:
        """The object, or None where there is none."""
        ...

    def read_many(self, paths: Iterable[str]) -> dict[str, Blob]:
        """Several objects at once; those that are not there are left out."""
        ...

    def put_new(self, path: str, data: bytes) -> Blob:
        """Create the object; raises AlreadyExistsError if there is one."""
        ...

    def replace(self, path: str, data: bytes, *, expected: str) -> Blob:
        """Replace the object if it still is what `expected` names, else raise ConflictError."""
        ...

    def remove(self, path: str, *, expected: str) -> None:
        """Delete the object if it still is what `expected` names, else raise ConflictError.

        An object that is gone already is no error.
        """
        ...

    def list(self, prefix: str, *, limit: int | None = None) -> Sequence[Entry]:
        """The objects whose path starts with `prefix`, in the order of their paths."""
        ...

    def delete_many(self, entries: Iterable[Entry]) -> None:
        """Delete what was listed; an object that has changed since then is left alone."""
        ...

    def copy(self, path: str, target: Storage, target_path: str) -> None:
        """Copy an object to the same or another storage, within the server where that can be."""
        ...

    def open_input(self, path: str) -> BinaryIO:
        """The object as a stream to read."""
        ...

    def upload(self, path: str, stream: BinaryIO) -> None:
        """Write an object from a stream, replacing any; it shows only once it is whole."""
        ...
