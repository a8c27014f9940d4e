"""Finding the commit by which a write landed, whichever attempt of it that was.

A write's commit names it in its transaction's properties, and half of the transaction's UUID
follows from that name, so it is found by listing names. What cleanup removed is not found any more.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider_lancerefs.refstore import layout, refs, versions
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.errors import NotFoundError
from airflow_provider_lancerefs.refstore.manifest import Feature, Manifest
from airflow_provider_lancerefs.refstore.models import Version
from airflow_provider_lancerefs.refstore.names import MAIN
from airflow_provider_lancerefs.refstore.transactions import read_transaction

WRITE_KEY = "lancerefs.write"
ATTEMPT_KEY = "lancerefs.write.attempt"
_FENCES = 1 << 61
_FENCE_BYTES = 7
_KEY_LENGTH = 24
_KNOWN = len("01234567-0123-0123")


@dataclass(frozen=True, slots=True)
class Landing:
    """The version as which a write landed, the attempt that did it, and the version's files.

    Where only files show that it landed, the version is the newest one, and not `exact`.
    """

    version: int
    attempt: str
    files: frozenset[str]
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Look:
    """What a branch shows of a write, and whether all of its history since the fork is there."""

    found: Landing | None
    complete: bool


def write_key(branch: str, life: str, write_id: str) -> str:
    """What the names of all files of a write begin with, whichever attempt made them.

    Not those of a write of the same name on another branch, or in another life of this one.
    """
    named = json.dumps([branch, life, write_id])
    return hashlib.sha256(named.encode()).hexdigest()[:_KEY_LENGTH]


def new_attempt(branch: str, life: str, write_id: str) -> str:
    """What the names of all files of one attempt of a write begin with."""
    return f"{write_key(branch, life, write_id)}-{uuid.uuid4().hex}"


def transaction_id(write_id: str) -> str:
    """A UUID for a transaction that lands this write: its first half says which write it is.

    The other half is any: of two transactions with one UUID, the one that loses may remove the file
    of the one that landed, as pylance removes what it wrote.
    """
    return f"{_known_by(write_id)}{str(uuid.uuid4())[_KNOWN:]}"


def _known_by(write_id: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"lancerefs:write:{write_id}"))[:_KNOWN]


def fence(write_id: str) -> int:
    """A fragment that never is, removed by every commit that may land this write.

    Lance lets of two commits that remove the same fragment only one through.
    """
    digest = hashlib.sha256(f"lancerefs:write:{write_id}".encode()).digest()
    return _FENCES + int.from_bytes(digest[:_FENCE_BYTES])


def find_landing(dataset: Dataset, branch: str, write_id: str) -> Landing | None:
    """The commit that landed the write, if it still can be seen."""
    return look(dataset, branch, write_id).found


def look(dataset: Dataset, branch: str, write_id: str) -> Look:
    """Search a branch, back to its fork, for the commit that landed the write."""
    since, life = 0, ""
    if branch != MAIN:
        ref = refs.read_branch(dataset.storage, branch)
        since, life = ref.parent_version, ref.life
    numbers = versions.list_manifests(dataset.storage, branch)
    candidates = sorted((one for one in numbers if one > since), reverse=True)
    newest = _manifest(dataset, branch, candidates[0]) if candidates else None
    if newest is None:
        return Look(None, complete=not candidates)
    complete = all(number in numbers for number in range(since + 1, candidates[0] + 1))
    for number in _suspects(dataset, newest, branch, write_id, candidates):
        found = _landing(dataset, branch, write_id, number)
        if found is not None:
            return Look(found, complete)
    return Look(_by_files(newest, write_key(branch, life, write_id)), complete)


def _by_files(newest: Manifest, key: str) -> Landing | None:
    """The landing that only its files still show, the history that would name it being gone."""
    files = frozenset(file.path for one in newest.fragments for file in one.data)
    ours = min((name for name in files if name.startswith(f"{key}-")), default=None)
    if ours is None:
        return None
    attempt = "-".join(ours.split("-")[:2])
    return Landing(newest.version, attempt, files, exact=False)


def _suspects(
    dataset: Dataset, newest: Manifest, branch: str, write_id: str, candidates: list[int]
) -> Iterator[int]:
    """The versions that may be it: those after a transaction of that name, nearest first.

    All of them where transactions are not files that could be listed.
    """
    if newest.writer_flags & Feature.NO_TRANSACTION_FILES:
        yield from candidates
        return
    known = _known_by(write_id)
    folder = layout.in_branch(branch, f"{layout.TRANSACTIONS}/")
    names = (one.path.rpartition("/")[2].partition("-") for one in dataset.storage.list(folder))
    read = [int(read) for read, _, name in names if name.startswith(known)]
    if read:
        likely = {one + 1 for one in read}
        yield from (one for one in candidates if one in likely)
        yield from (one for one in candidates if one not in likely and one > min(read))


def _landing(dataset: Dataset, branch: str, write_id: str, number: int) -> Landing | None:
    manifest = _manifest(dataset, branch, number)
    made_by = read_transaction(dataset.storage, branch, manifest) if manifest else None
    if manifest is None or made_by is None or made_by.properties.get(WRITE_KEY) != write_id:
        return None
    files = frozenset(file.path for one in manifest.fragments for file in one.data)
    return Landing(number, made_by.properties.get(ATTEMPT_KEY, ""), files)


def _manifest(dataset: Dataset, branch: str, number: int) -> Manifest | None:
    try:
        return versions.read_manifest(dataset.storage, Version(branch, number, 0))
    except NotFoundError:
        return None
