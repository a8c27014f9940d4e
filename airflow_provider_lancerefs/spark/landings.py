"""Finding the commit by which a write landed, whichever attempt of it that was.

A write's commit names it in its transaction's properties, and the transaction's UUID follows from
that name, so it is found by listing names. What cleanup removed is not found any more.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_lancerefs.refstore import layout, refs, versions
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.errors import NotFoundError
from airflow_provider_lancerefs.refstore.manifest import Feature, Manifest
from airflow_provider_lancerefs.refstore.models import Version
from airflow_provider_lancerefs.refstore.names import MAIN
from airflow_provider_lancerefs.refstore.storage import Entry
from airflow_provider_lancerefs.refstore.transactions import read_transaction

WRITE_KEY = "lancerefs.write"
ATTEMPT_KEY = "lancerefs.write.attempt"
_FENCES = 1 << 61
_FENCE_BYTES = 7


@dataclass(frozen=True, slots=True)
class Landing:
    """The version as which a write landed, the attempt that did it, and the version's files."""

    version: int
    attempt: str
    files: frozenset[str]


def transaction_id(write_id: str) -> str:
    """The UUID of every transaction that lands this write."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"lancerefs:write:{write_id}"))


def fence(write_id: str) -> int:
    """A fragment that never is, removed by every commit that may land this write.

    Lance lets of two commits that remove the same fragment only one through.
    """
    digest = hashlib.sha256(f"lancerefs:write:{write_id}".encode()).digest()
    return _FENCES + int.from_bytes(digest[:_FENCE_BYTES])


def find_landing(dataset: Dataset, branch: str, write_id: str) -> Landing | None:
    """Search a branch, back to its fork, for the commit that landed the write."""
    numbers = versions.list_manifests(dataset.storage, branch)
    since = 0
    if branch != MAIN:
        since = refs.read_branch(dataset.storage, branch).parent_version
    candidates = sorted((one for one in numbers if one > since), reverse=True)
    for number in _suspects(dataset, branch, write_id, candidates, numbers):
        found = _landing(dataset, branch, write_id, number)
        if found is not None:
            return found
    return None


def _suspects(
    dataset: Dataset,
    branch: str,
    write_id: str,
    candidates: list[int],
    numbers: Mapping[int, Entry],
) -> Iterator[int]:
    """The versions that may be it: those after a transaction of that name, nearest first.

    All of them where transactions are not files that could be listed.
    """
    if not candidates:
        return
    newest = _manifest(dataset, branch, candidates[0])
    if newest is not None and newest.writer_flags & Feature.NO_TRANSACTION_FILES:
        yield from candidates
        return
    ending = f"-{transaction_id(write_id)}.txn"
    folder = layout.in_branch(branch, f"{layout.TRANSACTIONS}/")
    names = (one.path.rpartition("/")[2] for one in dataset.storage.list(folder))
    read = [int(name.removesuffix(ending)) for name in names if name.endswith(ending)]
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
