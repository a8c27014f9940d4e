"""Creating and deleting branches, so that it is safe wherever the process dies.

Create: take the name with the ref file, then clone the source below `tree/`, then look whether the
source still stands. A crash leaves a ref without a head, which the same call completes.

Delete: mark the ref `deleting`, look whether a tag or a child needs the branch, move it to
`removing` (no way back), remove the branch's files, and the ref last of all. So nobody can take the
name while its files go, and a crash anywhere leaves a ref from which the same call goes on.
See docs/decisions/0003-branch-lifecycle.md.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_provider_lancerefs.refstore import layout, refs, versions
from airflow_provider_lancerefs.refstore.committing import clone
from airflow_provider_lancerefs.refstore.dataset import Dataset, now
from airflow_provider_lancerefs.refstore.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    FormatError,
    LanceRefsError,
    NotFoundError,
    RefNotFoundError,
    RefusedError,
    StorageError,
)
from airflow_provider_lancerefs.refstore.models import (
    STATE_KEY,
    Branch,
    BranchState,
    BrokenRef,
    Tag,
    Version,
)
from airflow_provider_lancerefs.refstore.names import MAIN, check_new_branch_name
from airflow_provider_lancerefs.refstore.revision import Revision, parse_revision
from airflow_provider_lancerefs.refstore.storage import Entry

CLOCK_TICK = timedelta(seconds=2)
CLOCK_SKEW = timedelta(hours=1)
DELETE_TRIES = 5


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
    parent = _live_parent(dataset, origin)
    asked = Branch(
        name=name,
        parent=origin.branch,
        parent_version=origin.number,
        created_at=now().replace(microsecond=0),
        manifest_size=origin.manifest_size,
        identifier=(*(parent.identifier if parent else ()), (origin.number, uuid.uuid4().hex)),
        metadata={
            **{key: value for key, value in checked.items() if value is not None},
            STATE_KEY: BranchState.OPEN.value,
        },
    )
    try:
        created = refs.create(storage, asked)
    except AlreadyExistsError:
        return _existing(dataset, asked, parent, pinned=wanted.pinned)
    _fork(dataset, created)
    if parent is not None:
        _look_at_parent(dataset, created, parent)
    return created


def complete(dataset: Dataset, branch: Branch) -> None:
    """Give a branch whose creation was cut short its head; does nothing to one that has it.

    Raises ConflictError where other files stand in its place, VersionNotFoundError where its source
    was cleaned up; the branch is left as it is.
    """
    for last_try in (False, True):
        entries = files_below(dataset, branch.name)
        manifests = versions.manifests_among(branch.name, entries)
        if manifests and is_fork(dataset, branch, manifests):
            return
        if manifests:
            _reclaim(dataset, branch, entries)
        try:
            clone(dataset, branch.source, dataset, branch.name)
        except StorageError:
            versions.exact(dataset.storage, branch.parent, branch.parent_version)
            if last_try:
                raise
        else:
            return


def delete_branches(
    dataset: Dataset, branches: Iterable[Branch]
) -> dict[str, LanceRefsError | None]:
    """Delete branches with one look for all of them; a refusal or a conflict is a value, by name.

    Each branch is read before: what has changed since then is a ConflictError. One that is being
    deleted already is taken over, for its deleter may be dead.
    """
    outcome: dict[str, LanceRefsError | None] = {}
    marked: list[Branch] = []
    for branch in branches:
        try:
            marked.append(_mark(dataset, branch))
        except ConflictError as error:
            outcome[branch.name] = error
    look = Dependents.look(dataset)
    for branch in marked:
        try:
            outcome[branch.name] = _delete_marked(dataset, branch, look)
        except ConflictError as error:
            outcome[branch.name] = error
    return outcome


def delete_branch(dataset: Dataset, name: str, *, missing_ok: bool, force: bool) -> bool:
    """Delete one branch; False where it was gone already and that is well.

    Raises RefusedError naming what needs the branch, or that it is protected or being published.
    """
    try:
        branch = refs.find_branch(dataset.storage, name)
    except FormatError:
        if not force:
            raise
        _delete_broken(dataset, name)
        return True
    if branch is None:
        if missing_ok:
            return False
        raise RefNotFoundError(f"There is no branch {name!r} in {dataset.uri}.", ref=name)
    life = branch.identifier
    for _ in range(DELETE_TRIES):
        failure: LanceRefsError | None = not_deletable(branch, force=force)
        failure = failure or delete_branches(dataset, [branch])[name]
        if failure is None:
            return True
        if not isinstance(failure, ConflictError):
            raise failure
        again = refs.find_branch(dataset.storage, name)
        if again is None or again.identifier != life:
            return True
        branch = again
    raise ConflictError(
        f"The branch {name!r} keeps being changed by somebody else: try again.", ref=name
    )


def not_deletable(branch: Branch, *, force: bool = False) -> RefusedError | None:
    """What the ref itself says against a deletion, whatever else stands."""
    if branch.protected and not force:
        return RefusedError(
            f"The branch {branch.name!r} is protected: use force to delete it all the same.",
            kind=ErrorKind.PROTECTED,
            ref=branch.name,
        )
    if branch.state is BranchState.PUBLISHING:
        return RefusedError(
            f"The branch {branch.name!r} is being published: wait for that to end.",
            kind=ErrorKind.IN_USE,
            ref=branch.name,
        )
    return None


def in_use(branch: Branch, blockers: list[str]) -> RefusedError:
    return RefusedError(
        f"The branch {branch.name!r} is needed by {_counted(blockers)}: delete "
        f"{'that' if len(blockers) == 1 else 'those'} first.",
        kind=ErrorKind.IN_USE,
        ref=branch.name,
        blockers=tuple(blockers),
    )


@dataclass(frozen=True)
class Dependents:
    """The refs of a dataset at one moment, and which of them need a given branch.

    A ref file that was last written before a branch's life began cannot mean that life, so only
    younger ones are read. The mark is the age of the branch's first manifest, or the time in the
    ref itself where that is earlier (a copied dataset has new file times) or that file is gone.
    """

    dataset: Dataset
    tags: list[refs.RefEntry]
    branches: list[refs.RefEntry]

    @staticmethod
    def look(dataset: Dataset) -> Dependents:
        return Dependents(
            dataset, refs.list_tags(dataset.storage), refs.list_branches(dataset.storage)
        )

    @property
    def branch_names(self) -> list[str]:
        return [one.name for one in self.branches]

    def of(self, branch: Branch, entries: Sequence[Entry]) -> list[str]:
        """What needs the branch; `entries` are the files below its folder."""
        since = _life_began(branch, versions.manifests_among(branch.name, entries))
        storage = self.dataset.storage
        tags = refs.read_tags(storage, _younger(self.tags, since))
        children = refs.read_branches(
            storage, (one for one in _younger(self.branches, since) if one.name != branch.name)
        )
        return [
            f"tag {tag.name!r}"
            for tag in tags
            if isinstance(tag, Tag) and tag.branch == branch.name
        ] + [f"branch {child.name!r}" for child in children if self._needs(child, branch)]

    def _needs(self, child: Branch | BrokenRef, parent: Branch) -> bool:
        if isinstance(child, Branch):
            return child.is_child_of(parent)
        found = versions.find_head(self.dataset.storage, child.name)
        if found is None:
            return False
        manifest = versions.read_manifest(self.dataset.storage, found)
        folder = self.dataset.at(layout.branch_root(parent.name))
        return any(base.path.rstrip("/") == folder for base in manifest.bases.values())


def _live_parent(dataset: Dataset, origin: Version) -> Branch | None:
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
    return there


def _fork(dataset: Dataset, branch: Branch) -> None:
    """Commit the first manifest under a name just taken; give the name back if none can be."""
    try:
        clone(dataset, branch.source, dataset, branch.name)
    except StorageError:
        try:
            complete(dataset, branch)
        except (ConflictError, NotFoundError):
            refs.remove(dataset.storage, branch)
            raise


def is_fork(dataset: Dataset, branch: Branch, manifests: Mapping[int, Entry]) -> bool:
    """Whether the manifests are those of this life: its fork of the source, and what came after.

    Lance gives the base path that a fork adds the highest id and the source branch's name. Where
    cleanup has removed the fork itself, age is left to go by.
    """
    first = min(manifests)
    if first > branch.parent_version:
        return not _is_residue(dataset, branch, manifests.values())
    if first < branch.parent_version:
        return False
    manifest = versions.read_manifest(dataset.storage, Version(branch.name, first, 0))
    source = manifest.bases[max(manifest.bases)] if manifest.bases else None
    return (
        source is not None
        and manifest.branch == branch.name
        and (source.name or MAIN) == branch.parent
    )


def _is_residue(dataset: Dataset, branch: Branch, entries: Iterable[Entry]) -> bool:
    """Whether files under the branch's name are of an earlier life, by more than the grace time."""
    return max(entry.modified for entry in entries) < branch.created_at - dataset.grace


def _reclaim(dataset: Dataset, branch: Branch, entries: Sequence[Entry]) -> None:
    """Remove what a dead life, or another tool's half-made branch, left under this name."""
    names = [one.name for one in refs.list_branches(dataset.storage)]
    own = [entry for entry in entries if layout.owner(entry.path, names) == branch.name]
    if not own or not _is_residue(dataset, branch, own):
        raise ConflictError(
            f"Files of another life of the branch {branch.name!r} are in the way, too young to be "
            f"reclaimed (that takes {dataset.grace}): choose another name, or let fsck repair it.",
            ref=branch.name,
        )
    dataset.storage.delete_many(own)


def _look_at_parent(dataset: Dataset, child: Branch, parent: Branch) -> None:
    """Write, then look: if the parent is going, the child goes back."""
    try:
        now_there = refs.find_branch(dataset.storage, parent.name)
    except FormatError:
        return
    if (
        now_there is not None
        and not now_there.state.ending
        and now_there.identifier == parent.identifier
    ):
        return
    delete_branches(dataset, [child])
    raise ConflictError(
        f"The source branch {parent.name!r} was deleted meanwhile: {child.name!r} was taken back.",
        ref=child.name,
    )


def _mark(dataset: Dataset, branch: Branch) -> Branch:
    if branch.state.ending:
        return branch
    return refs.move_state(dataset.storage, branch, BranchState.DELETING)


def _delete_marked(dataset: Dataset, branch: Branch, look: Dependents) -> RefusedError | None:
    """Delete a branch whose ref says that it goes, or open it again if something needs it."""
    entries = files_below(dataset, branch.name)
    if branch.state is not BranchState.REMOVING:
        blockers = look.of(branch, entries)
        if blockers:
            refs.move_state(dataset.storage, branch, BranchState.OPEN)
            return in_use(branch, blockers)
        branch = refs.move_state(dataset.storage, branch, BranchState.REMOVING)
        entries = files_below(dataset, branch.name)
    _check_still_there(dataset, branch)
    names = {*look.branch_names, branch.name}
    dataset.storage.delete_many(
        entry for entry in entries if layout.owner(entry.path, names) == branch.name
    )
    refs.remove(dataset.storage, branch)
    return None


def _check_still_there(dataset: Dataset, branch: Branch) -> None:
    """Files listed while the ref stood are this life's: the name cannot be taken before it goes."""
    blob = dataset.storage.read(layout.branch_ref(branch.name))
    if blob is None or blob.token != branch.token:
        raise ConflictError(
            f"The branch {branch.name!r} was deleted by somebody else meanwhile.", ref=branch.name
        )


def files_below(dataset: Dataset, name: str) -> Sequence[Entry]:
    return dataset.storage.list(layout.branch_root(name) + "/")


def _delete_broken(dataset: Dataset, name: str) -> None:
    """Remove a ref file that cannot be read, if no other ref names the branch; files stay."""
    path = layout.branch_ref(name)
    blob = dataset.storage.read(path)
    if blob is None:
        return
    dawn = Branch(name, MAIN, 0, datetime.fromtimestamp(0, now().tzinfo), 0)
    blockers = Dependents.look(dataset).of(dawn, [])
    if blockers:
        raise in_use(dawn, blockers)
    dataset.storage.remove(path, expected=blob.token)


def _life_began(branch: Branch, manifests: Mapping[int, Entry]) -> datetime:
    fork = manifests.get(branch.parent_version)
    if fork is None:
        return branch.created_at - CLOCK_SKEW
    return min(branch.created_at, fork.modified) - CLOCK_TICK


def _younger(listed: Iterable[refs.RefEntry], since: datetime) -> Iterable[refs.RefEntry]:
    return (one for one in listed if one.entry.modified >= since)


def _counted(blockers: list[str], most: int = 5) -> str:
    named = ", ".join(blockers[:most])
    return named if len(blockers) <= most else f"{named} and {len(blockers) - most} more"
