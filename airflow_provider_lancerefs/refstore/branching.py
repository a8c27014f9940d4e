"""Creating branches, so that it is safe wherever the process dies.

Take the name with the ref file, then clone the source below `tree/`, then look whether the source
still stands. A crash leaves a ref without a head, which the same call completes. The clone's
transaction carries the branch's identifier, so a fork of this life is told from any other file
without a clock. See docs/decisions/0003-branch-lifecycle.md.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from airflow_provider_lancerefs.refstore import layout, refs, versions
from airflow_provider_lancerefs.refstore.committing import clone
from airflow_provider_lancerefs.refstore.dataset import Dataset, now
from airflow_provider_lancerefs.refstore.deleting import (
    CLOCK_TICK,
    delete_branches,
    files_below,
)
from airflow_provider_lancerefs.refstore.errors import (
    AlreadyExistsError,
    ConflictError,
    FormatError,
    LanceRefsError,
    NotFoundError,
    StorageError,
)
from airflow_provider_lancerefs.refstore.manifest import Manifest, check_writable
from airflow_provider_lancerefs.refstore.models import (
    FORK_ID,
    STATE_KEY,
    Branch,
    BranchState,
    Version,
)
from airflow_provider_lancerefs.refstore.names import MAIN, check_new_branch_name
from airflow_provider_lancerefs.refstore.revision import Revision, parse_revision
from airflow_provider_lancerefs.refstore.standing import keep_standing
from airflow_provider_lancerefs.refstore.storage import Entry

_PROMPT = 3


def create_branch(
    dataset: Dataset, name: str, source: str | Revision, metadata: Mapping[str, str]
) -> Branch:
    """Fork `name` from a revision, or return the branch that an earlier such call made.

    Raises AlreadyExistsError if the name is taken by a branch from another source.
    """
    check_new_branch_name(name)
    checked = refs.check_metadata(metadata)
    wanted = parse_revision(source) if isinstance(source, str) else source
    storage = dataset.storage
    origin = versions.resolve(storage, wanted)
    parent = _standing_parent(dataset, origin)
    fork_id = uuid.uuid4().hex
    asked = Branch(
        name=name,
        parent=origin.branch,
        parent_version=origin.number,
        created_at=now().replace(microsecond=0),
        manifest_size=origin.manifest_size,
        identifier=(*(parent.identifier if parent else ()), (origin.number, fork_id)),
        extra={FORK_ID: fork_id},
        metadata={
            **{key: value for key, value in checked.items() if value is not None},
            STATE_KEY: BranchState.OPEN.value,
        },
    )
    started = time.monotonic()
    try:
        created = refs.create(storage, asked)
    except AlreadyExistsError:
        return _existing(dataset, asked, parent, pinned=wanted.pinned)
    _fork(dataset, created)
    if time.monotonic() - started > dataset.creation_lease.total_seconds() / _PROMPT:
        _confirm(dataset, created)
    if parent is not None:
        _confirm_parent(dataset, created, parent)
    return created


def complete(dataset: Dataset, branch: Branch) -> None:
    """Give a branch whose creation was cut short its head; does nothing to one that has it.

    Raises ConflictError where other files stand in its place, VersionNotFoundError where its source
    was cleaned up; the branch is left as it is.
    """
    entries = files_below(dataset, branch.name)
    manifests = versions.manifests_among(branch.name, entries)
    if manifests and is_fork(dataset, branch, manifests):
        return
    if manifests:
        others = [one for one in entries if not one.path.endswith(f"-{identity(branch)}.txn")]
        cleaned_up = min(manifests) > branch.parent_version and not _precede(others, branch)
        if cleaned_up or _written_since(branch, others):
            raise _in_the_way(branch)
        _reclaim(dataset, branch, entries)
    try:
        clone(dataset, branch.source, dataset, branch.name, identity(branch))
    except StorageError:
        manifests = versions.list_manifests(dataset.storage, branch.name)
        if not manifests:
            versions.exact(dataset.storage, branch.parent, branch.parent_version)
        if not manifests or not is_fork(dataset, branch, manifests):
            raise
    _confirm(dataset, branch)


def identity(branch: Branch) -> str:
    """What the transaction of this life's fork is called."""
    return str(uuid.UUID(branch.life))


def is_fork(dataset: Dataset, branch: Branch, manifests: Mapping[int, Entry]) -> bool:
    """Whether the manifests are those of this life: its fork of the source, and what came after.

    Another tool's fork is known by the source branch's name, which Lance gives the base path that a
    fork adds. Where cleanup has removed the fork itself, age is left to go by; in doubt, no.
    """
    if min(manifests) > branch.parent_version:
        return _written_since(branch, manifests.values())
    if branch.parent_version not in manifests:
        return False
    manifest = versions.read_manifest(
        dataset.storage, Version(branch.name, branch.parent_version, 0)
    )
    if branch.made_here:
        return _carries(manifest, branch)
    return manifest.branch == branch.name and any(
        base.is_dataset_root and (base.name or MAIN) == branch.parent
        for base in manifest.bases.values()
    )


def starts_from_another(branch: Branch, manifests: Mapping[int, Entry]) -> bool:
    """Whether manifests that lack the fork are remains of another life, and none of this one."""
    return branch.made_here and (
        _precede(manifests.values(), branch)
        or all(one.modified < branch.created_at - CLOCK_TICK for one in manifests.values())
    )


def _precede(entries: Iterable[Entry], branch: Branch) -> bool:
    """Whether files are older than a ref that nobody has rewritten, by the storage's own clock."""
    written = branch.written
    return (
        branch.untouched and written is not None and all(one.modified < written for one in entries)
    )


def _written_since(branch: Branch, entries: Iterable[Entry]) -> bool:
    """Whether a file is younger than the ref, so that it was written in this life."""
    newest = max(entry.modified for entry in entries)
    after_ref = branch.written is not None and newest > branch.written
    return after_ref or newest > branch.created_at + CLOCK_TICK


def _carries(manifest: Manifest, branch: Branch) -> bool:
    return manifest.transaction_file == f"{branch.parent_version}-{identity(branch)}.txn"


def _standing_parent(dataset: Dataset, origin: Version) -> Branch | None:
    if origin.branch == MAIN:
        return None
    parent = refs.read_branch(dataset.storage, origin.branch)
    if parent.state.ending:
        raise ConflictError(
            f"The source branch {parent.name!r} is being deleted: choose another source.",
            ref=parent.name,
        )
    return parent


def _existing(dataset: Dataset, asked: Branch, parent: Branch | None, *, pinned: bool) -> Branch:
    """The branch that stands where one was to be made, if it is the one that was asked for.

    An unpinned source ('main') means the same source whatever its head is now: a retry after the
    parent moved on finds its own first try.
    """
    there = refs.find_branch(dataset.storage, asked.name)
    if there is None or there.state.ending:
        raise ConflictError(
            f"The branch {asked.name!r} is being deleted: try again when it is gone (if its "
            "deleter died, delete it again).",
            ref=asked.name,
        )
    same = there.parent == asked.parent and (
        not pinned or there.parent_version == asked.parent_version
    )
    if not same or (parent is not None and not there.is_child_of(parent)):
        raise AlreadyExistsError(
            f"The branch {asked.name!r} exists already, forked from {there.source} and not from "
            f"{asked.source}: choose another name, or delete it first.",
            ref=asked.name,
        )
    complete(dataset, there)
    if parent is not None:
        keep_standing(dataset, parent.name, parent.identifier)
    return there


def _fork(dataset: Dataset, branch: Branch) -> None:
    """Commit the first manifest under a name just taken; give the name back if none can be."""
    try:
        clone(dataset, branch.source, dataset, branch.name, identity(branch))
    except StorageError:
        entries = files_below(dataset, branch.name)
        manifests = versions.manifests_among(branch.name, entries)
        if branch.parent_version in manifests and is_fork(dataset, branch, manifests):
            return
        try:
            check_source(dataset, branch.source)
            if manifests:
                _reclaim(dataset, branch, entries)
            complete(dataset, branch)
        except (ConflictError, NotFoundError, FormatError):
            refs.remove(dataset.storage, branch)
            raise


def check_source(dataset: Dataset, source: Version) -> None:
    """Say what is wrong with a version that pylance could not clone, if its manifest shows that."""
    check_writable(versions.read_manifest(dataset.storage, source), str(source))


def _reclaim(dataset: Dataset, branch: Branch, entries: Sequence[Entry]) -> None:
    """Remove what a dead life, or another tool's half-made branch, left under a name we hold."""
    names = [one.name for one in refs.list_branches(dataset.storage)]
    own = [entry for entry in entries if layout.owner(entry.path, names) == branch.name]
    if not own or now() - max(entry.modified for entry in own) < dataset.grace:
        raise _in_the_way(branch, dataset.grace)
    dataset.storage.delete_many(sorted(own, key=_newest_manifest_first))


def _newest_manifest_first(entry: Entry) -> int:
    """After other files; so what a crash leaves still shows that it is no fork of this life."""
    return -(layout.manifest_number(entry.path) or 2**64)


def _in_the_way(branch: Branch, grace: timedelta | None = None) -> ConflictError:
    wait = f", or try again once they are older than {grace}" if grace else ""
    return ConflictError(
        f"Files of another life of the branch {branch.name!r} are in the way: choose another name, "
        f"or delete the branch{wait}.",
        ref=branch.name,
    )


def _confirm(dataset: Dataset, branch: Branch) -> None:
    """After a clone that took long: if the ref went meanwhile, take the late manifest away again.

    A deleter waits for a young branch's head (see deleting), so whoever is quick need not look.
    """
    try:
        there = refs.find_branch(dataset.storage, branch.name)
    except FormatError:
        return
    mine = there is not None and there.identifier == branch.identifier
    if mine and there is not None and there.state is not BranchState.REMOVING:
        return
    entries = files_below(dataset, branch.name)
    dataset.storage.delete_many(_of_this_life(dataset, branch, entries))
    raise ConflictError(
        f"The branch {branch.name!r} was deleted by somebody else while it was being created.",
        ref=branch.name,
    )


def _of_this_life(dataset: Dataset, branch: Branch, entries: Sequence[Entry]) -> Iterable[Entry]:
    """The files that a late clone of this life wrote, and the hint, which anybody may rewrite."""
    own = {
        layout.in_branch(branch.name, path)
        for path in (
            f"{layout.TRANSACTIONS}/{branch.parent_version}-{identity(branch)}.txn",
            f"{layout.VERSIONS}/{layout.HINT}",
        )
    }
    yield from (entry for entry in entries if entry.path in own)
    fork = versions.manifests_among(branch.name, entries).get(branch.parent_version)
    if fork is not None:
        version = Version(branch.name, branch.parent_version, 0)
        if _carries(versions.read_manifest(dataset.storage, version), branch):
            yield fork


def _confirm_parent(dataset: Dataset, child: Branch, parent: Branch) -> None:
    """If the parent went meanwhile, the child, which nobody has been told of, goes back."""
    try:
        keep_standing(dataset, parent.name, parent.identifier)
    except (ConflictError, NotFoundError) as gone:
        failure: LanceRefsError | None = delete_branches(dataset, [child])[child.name]
        left = f"; taking {child.name!r} back failed: {failure}" if failure else ""
        raise ConflictError(
            f"The source branch {parent.name!r} was deleted meanwhile{left}.", ref=child.name
        ) from gone
    except FormatError:
        return
