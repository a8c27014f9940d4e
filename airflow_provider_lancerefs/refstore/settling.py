"""Ending what a dead publisher began: bring its files again if they went, and note it all."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping

from airflow_provider_lancerefs.refstore import carrying, layout, publications, rowsets, versions
from airflow_provider_lancerefs.refstore.comparing import Changes, compare
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.errors import FormatError, NotFoundError
from airflow_provider_lancerefs.refstore.models import Branch, Version
from airflow_provider_lancerefs.refstore.publications import Publication
from airflow_provider_lancerefs.refstore.rowsets import RowSet
from airflow_provider_lancerefs.refstore.snapshot import Snapshot, StoredFragment, read_snapshot


def settle(dataset: Dataset, branch: Branch) -> Branch:
    """Find out what became of a publish whose lease ran out, and note it on the ref.

    Where nothing was published, a commit on the parent shuts out a publisher that only sleeps.
    Raises OutcomeUnknownError where neither can be shown.
    """
    seen = publications.look(dataset, branch)
    if seen.found is None:
        publications.shut_out(dataset, branch)
        seen = publications.look(dataset, branch)
    if seen.found is not None:
        heal(dataset, branch, seen.found)
        return publications.record(dataset, branch, seen.found)
    publications.check_known(branch, seen)
    return publications.give_back(dataset, branch)


def heal(dataset: Dataset, branch: Branch, found: Publication) -> None:
    """Bring again what a cleanup took just before the commit that needs it.

    Its maker looks for that itself, unless it dies first. The branch has all that it takes, but for
    the rows that the parent had deleted before: those are in the version that the commit read. What
    cannot be had any more is left as it is, for fsck to name.
    """
    with contextlib.suppress(NotFoundError, FormatError):
        published = read_snapshot(dataset, Version(branch.parent, found.version, 0))
        fragments = list(published.fragments.values())
        _heal_data(dataset, branch, {uri for one in fragments for uri in one.uris}, found)
        vectors = {one.deletion: one for one in fragments if one.deletion is not None}
        there = carrying.sizes_of(dataset, vectors)
        missing = {uri: one for uri, one in vectors.items() if uri not in there}
        for uri, rows in _lost_vectors(dataset, branch, found, missing):
            storage, path = dataset.reach(uri)
            storage.upload(path, io.BytesIO(rowsets.encode(rows)))


def _heal_data(dataset: Dataset, branch: Branch, uris: set[str], found: Publication) -> None:
    home = dataset.at(layout.branch_root(branch.name))
    marked = [uri for uri in uris if f"/{found.attempt}-" in uri] if found.attempt else []
    there = carrying.sizes_of(dataset, marked)
    for uri in marked:
        if uri not in there:
            name = _original(uri, found)
            carrying.copy(dataset, f"{home}/{layout.DATA}/{name}", uri)


def _lost_vectors(
    dataset: Dataset, branch: Branch, found: Publication, missing: Mapping[str, StoredFragment]
) -> Iterator[tuple[str, RowSet]]:
    """What each lost deletion file said, where both sides can still be read."""
    fork = publications.fork_snapshot(dataset, branch) if missing else None
    if fork is None:
        return
    ours = read_snapshot(dataset, Version(branch.name, found.branch_version, 0))
    before = _before(dataset, branch, found)
    changes = compare(fork, ours)
    for uri, fragment in missing.items():
        rows = _struck(fragment, changes, before, found)
        if len(rows) == fragment.deleted_rows:
            yield uri, rows


def _before(dataset: Dataset, branch: Branch, found: Publication) -> Snapshot:
    """The newest version of the parent below the publication: its anchor, or what came after."""
    numbers = versions.list_manifests(dataset.storage, branch.parent)
    earlier = [one for one in numbers if one < found.version]
    return read_snapshot(dataset, Version(branch.parent, max(earlier, default=0), 0))


def _struck(
    fragment: StoredFragment, changes: Changes, before: Snapshot, found: Publication
) -> RowSet:
    there = before.fragments.get(fragment.identity)
    if there is None:
        names = {_original(uri, found) for uri in fragment.uris}
        sources = (one for one in changes.added if names & {file.name for file in one.files})
        return next((changes.new.deleted(one) for one in sources), RowSet())
    change = changes.changed.get(fragment.identity)
    struck = before.deleted(there)
    return struck if change is None else struck | change.deleted


def _original(uri: str, found: Publication) -> str:
    return uri.rpartition("/")[2].removeprefix(f"{found.attempt}-")
