"""The data files below the dataset's root that a branch, and nobody else, has brought there.

Deleting data that somebody needs is the one thing that cannot be mended, so a file counts only if
the branch's own manifests name it, the version it was forked from does not, the heads of its parent
and of main do not, it is no older than the branch, and the branch never entered `publishing`. What
is left lying is for the sweep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from airflow_provider_lancerefs.refstore import carrying, layout, publications, versions
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.errors import LanceRefsError
from airflow_provider_lancerefs.refstore.manifest import parse_manifest
from airflow_provider_lancerefs.refstore.models import (
    ENTERED_PUBLISHING_KEY,
    Branch,
    BranchState,
    Version,
)
from airflow_provider_lancerefs.refstore.names import MAIN
from airflow_provider_lancerefs.refstore.snapshot import Snapshot, snapshot_of
from airflow_provider_lancerefs.refstore.storage import Entry
from airflow_provider_lancerefs.refstore.storage.concurrency import side_by_side

_MAY_BE_SHARED = (BranchState.PUBLISHING, BranchState.PUBLISHED)


def own_root_files(dataset: Dataset, branch: Branch, entries: Sequence[Entry]) -> list[Entry]:
    """What may go with the branch; `entries` are the files below its folder. In doubt, nothing."""
    if not branch.made_here or _was_publishing(branch):
        return []
    try:
        return _own(dataset, branch, entries)
    except LanceRefsError:
        return []


def _was_publishing(branch: Branch) -> bool:
    entered = ENTERED_PUBLISHING_KEY in branch.metadata
    return entered or branch.state in _MAY_BE_SHARED or branch.state_before in _MAY_BE_SHARED


def _own(dataset: Dataset, branch: Branch, entries: Sequence[Entry]) -> list[Entry]:
    with side_by_side(dataset.storage) as pool:
        forking = pool.submit(publications.fork_snapshot, dataset, branch)
        reading = pool.submit(_snapshots, dataset, branch, entries)
    fork, snapshots = forking.result(), reading.result()
    named = _in_root(dataset, (uri for one in snapshots for uri in _uris(one)))
    if fork is None or not named - {*_uris(fork)}:
        return []
    kept = {*_uris(fork)}
    for name in {MAIN, branch.parent}:
        kept.update(_uris(publications.head_snapshot(dataset, name)))
    found = carrying.found_entries(dataset, named - kept)
    return [entry for _, files in found for entry in files if entry.modified >= branch.created_at]


def _snapshots(dataset: Dataset, branch: Branch, entries: Sequence[Entry]) -> list[Snapshot]:
    paths = {
        entry.path: number
        for number, entry in versions.manifests_among(branch.name, entries).items()
    }
    found = []
    for path, blob in dataset.storage.read_many(paths).items():
        version = Version(branch.name, paths[path], 0)
        found.append(snapshot_of(dataset, version, parse_manifest(blob.data, str(version))))
    return found


def _uris(snapshot: Snapshot) -> Iterator[str]:
    for fragment in snapshot.fragments.values():
        yield from fragment.uris


def _in_root(dataset: Dataset, uris: Iterable[str]) -> set[str]:
    return {uri for uri in uris if uri.startswith(f"{dataset.at(layout.DATA)}/")}
