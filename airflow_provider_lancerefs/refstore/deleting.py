"""Deleting branches, so that nothing that is needed goes and everything else does.

Mark the ref `deleting`, look whether a tag or a child needs the branch, move it to `removing` (no
way back), remove the branch's files, and the ref last of all. So nobody can take the name while its
files go, and a crash anywhere leaves a ref from which the same call goes on.
See docs/decisions/0003-branch-lifecycle.md.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from airflow_provider_lancerefs.refstore import layout, publications, refs, settling, versions
from airflow_provider_lancerefs.refstore.dataset import Dataset, now
from airflow_provider_lancerefs.refstore.discarding import own_root_files
from airflow_provider_lancerefs.refstore.errors import (
    ConflictError,
    ErrorKind,
    FormatError,
    LanceRefsError,
    OutcomeUnknownError,
    RefNotFoundError,
    RefusedError,
)
from airflow_provider_lancerefs.refstore.manifest import BasePath
from airflow_provider_lancerefs.refstore.models import Branch, BranchState, BrokenRef, Tag
from airflow_provider_lancerefs.refstore.names import MAIN, shown
from airflow_provider_lancerefs.refstore.storage import Entry
from airflow_provider_lancerefs.refstore.storage.concurrency import side_by_side

CLOCK_TICK = timedelta(seconds=2)
CLOCK_SKEW = timedelta(hours=1)
_TRIES = 5
_POLL_SECONDS = 0.2


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
        raise RefNotFoundError(f"There is no branch {shown(name)} in {dataset.uri}.", ref=name)
    life = branch.identifier
    for _ in range(_TRIES):
        failure: LanceRefsError | None = not_deletable(dataset, branch, force=force)
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


def delete_branches(
    dataset: Dataset, branches: Iterable[Branch], *, idle_since: datetime | None = None
) -> dict[str, LanceRefsError | None]:
    """Delete branches with one look for all of them; what failed is a value, by branch name.

    Each branch was read before: what has changed since then is a ConflictError. One that is being
    deleted already is taken over, for its deleter may be dead. A branch that was written to after
    `idle_since` is kept.
    """
    outcome: dict[str, LanceRefsError | None] = {}
    marked: list[Branch] = []
    try:
        for branch in branches:
            try:
                marked.append(_mark(dataset, branch))
            except ConflictError as error:
                outcome[branch.name] = error
        look = Dependents.look(dataset)
    except LanceRefsError:
        for branch in marked:
            _give_up(dataset, branch)
        raise
    for branch in marked:
        try:
            outcome[branch.name] = _delete_marked(dataset, branch, look, idle_since)
        except LanceRefsError as error:
            outcome[branch.name] = error
            _give_up(dataset, branch)
    return outcome


def not_deletable(dataset: Dataset, branch: Branch, *, force: bool = False) -> RefusedError | None:
    """What the ref itself says against a deletion, whatever else stands."""
    if branch.protected and not force:
        return RefusedError(
            f"The branch {branch.name!r} is protected: use force to delete it all the same.",
            kind=ErrorKind.PROTECTED,
            ref=branch.name,
        )
    if branch.state is BranchState.PUBLISHING and not publications.lease_is_over(dataset, branch):
        return RefusedError(
            f"The branch {branch.name!r} is being published: wait for that to end.",
            kind=ErrorKind.IN_USE,
            ref=branch.name,
        )
    return None


def files_below(dataset: Dataset, name: str) -> Sequence[Entry]:
    """Every file below a branch's folder, those of branches nested in it included."""
    return dataset.storage.list(layout.branch_root(name) + "/")


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
        with side_by_side(dataset.storage) as pool:
            tags = pool.submit(refs.list_tags, dataset.storage)
            branches = pool.submit(refs.list_branches, dataset.storage)
        return Dependents(dataset, tags.result(), branches.result())

    @property
    def branch_names(self) -> list[str]:
        return [one.name for one in self.branches if one.sound]

    def of(self, branch: Branch, entries: Sequence[Entry]) -> list[str]:
        """What needs the branch; `entries` are the files below its folder."""
        since = _life_began(branch, versions.manifests_among(branch.name, entries))
        storage = self.dataset.storage
        others = (one for one in _younger(self.branches, since) if one.name != branch.name)
        with side_by_side(storage) as pool:
            tags = pool.submit(refs.read_tags, storage, _younger(self.tags, since))
            children = pool.submit(refs.read_branches, storage, others)
            parent = pool.submit(self._points_into, branch.parent, branch)
        return [
            *(f"tag {one.name!r}" for one in tags.result() if _names(one, branch)),
            *(f"branch {one.name!r}" for one in children.result() if self._needs(one, branch)),
            *([f"the head of {branch.parent}"] if parent.result() else []),
        ]

    def _needs(self, child: Branch | BrokenRef, parent: Branch) -> bool:
        if isinstance(child, Branch):
            return child.is_child_of(parent)
        return _mentions(child, parent) or self._points_into(child.name, parent)

    def _points_into(self, name: str, branch: Branch) -> bool:
        """Whether a branch's head needs files of another, whatever the refs say; in doubt, yes."""
        storage = self.dataset.storage
        head = versions.find_head(storage, name)
        if head is None:
            return False
        try:
            manifest = versions.read_manifest(storage, head)
        except LanceRefsError:
            return name != MAIN
        return points_into(manifest.bases.values(), branch.name)


def points_into(bases: Iterable[BasePath], branch: str) -> bool:
    """Whether one of a manifest's base paths is a branch's folder, however the root is spelt."""
    folder = f"/{layout.branch_root(branch)}"
    return any(base.path.rstrip("/").endswith(folder) for base in bases)


def _names(tag: Tag | BrokenRef, branch: Branch) -> bool:
    if isinstance(tag, Tag):
        return tag.branch == branch.name
    return _mentions(tag, branch)


def _mentions(ref: BrokenRef, branch: Branch) -> bool:
    """Whether a file that cannot be read still shows the branch's name: then it keeps it."""
    spellings = (json.dumps(branch.name), json.dumps(branch.name, ensure_ascii=False))
    return any(spelling.encode() in ref.data for spelling in spellings)


def _mark(dataset: Dataset, branch: Branch) -> Branch:
    if branch.state.ending:
        return branch
    if branch.state is BranchState.PUBLISHING:
        branch = _settled(dataset, branch)
    return refs.move_state(dataset.storage, branch, BranchState.DELETING)


def _settled(dataset: Dataset, branch: Branch) -> Branch:
    """A branch whose publisher is gone. Published or not, and be that unknown, it may be deleted:
    the parent needs none of its files, and a publisher that only slept is shut out."""
    if not publications.lease_is_over(dataset, branch):
        raise ConflictError(f"The branch {branch.name!r} is being published.", ref=branch.name)
    try:
        return settling.settle(dataset, branch)
    except OutcomeUnknownError:
        return branch


def _give_up(dataset: Dataset, branch: Branch) -> None:
    """Take back a mark after a failure, as well as that can be; another deleter may take it up."""
    if branch.state is BranchState.DELETING:
        with contextlib.suppress(LanceRefsError):
            refs.reopen(dataset.storage, branch)


def _delete_marked(
    dataset: Dataset, branch: Branch, look: Dependents, idle_since: datetime | None
) -> RefusedError | None:
    """Delete a branch whose ref says that it goes, or open it again if something needs it."""
    entries = files_below(dataset, branch.name)
    if branch.state is not BranchState.REMOVING:
        entries = _with_head(dataset, branch, entries)
        refusal = _in_use(branch, look.of(branch, entries)) or _busy(branch, entries, idle_since)
        if refusal is not None:
            refs.reopen(dataset.storage, branch)
            return refusal
        branch = refs.move_state(dataset.storage, branch, BranchState.REMOVING)
        entries = files_below(dataset, branch.name)
    _check_still_there(dataset, branch)
    dataset.storage.delete_many(own_root_files(dataset, branch, entries))
    names = {*look.branch_names, branch.name}
    remove_files(
        dataset, [entry for entry in entries if layout.owner(entry.path, names) == branch.name]
    )
    refs.remove(dataset.storage, branch)
    return None


def remove_files(dataset: Dataset, entries: Iterable[Entry]) -> None:
    """Delete a branch's files, manifests last and the head last of all.

    So whoever reads meanwhile gets an error and no older version, and what a crash leaves is still
    known as a branch's.
    """
    dataset.storage.delete_many(
        sorted(entries, key=lambda entry: layout.manifest_number(entry.path) or 0)
    )


def _with_head(dataset: Dataset, branch: Branch, entries: Sequence[Entry]) -> Sequence[Entry]:
    """A creator may be between its ref and its head: let that land, so that it can be removed.

    A creator that takes longer than its lease looks at its ref again, and cleans up after itself.
    """
    age = max(now() - branch.created_at, timedelta(0))
    deadline = time.monotonic() + (dataset.creation_lease - age).total_seconds()
    while not versions.manifests_among(branch.name, entries) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        _check_still_there(dataset, branch)
        entries = files_below(dataset, branch.name)
    return entries


def _in_use(branch: Branch, blockers: Sequence[str]) -> RefusedError | None:
    if not blockers:
        return None
    return RefusedError(
        f"The branch {branch.name!r} is needed by {_counted(blockers)}: delete "
        f"{'that' if len(blockers) == 1 else 'those'} first.",
        kind=ErrorKind.IN_USE,
        ref=branch.name,
        blockers=tuple(blockers),
    )


def _busy(
    branch: Branch, entries: Sequence[Entry], idle_since: datetime | None
) -> RefusedError | None:
    if idle_since is None or all(entry.modified <= idle_since for entry in entries):
        return None
    return RefusedError(
        f"The branch {branch.name!r} was written to lately.", kind=ErrorKind.IN_USE, ref=branch.name
    )


def _check_still_there(dataset: Dataset, branch: Branch) -> None:
    """Files listed before this are this life's: the name cannot be taken before its ref goes."""
    blob = dataset.storage.read(layout.branch_ref(branch.name))
    if blob is None or blob.token != branch.token:
        raise ConflictError(
            f"The branch {branch.name!r} was changed by somebody else meanwhile.", ref=branch.name
        )


def _delete_broken(dataset: Dataset, name: str) -> None:
    """Remove a ref file that cannot be read, if no other ref names the branch; files stay."""
    path = layout.branch_ref(name)
    blob = dataset.storage.read(path)
    if blob is None:
        return
    dawn = Branch(name, MAIN, 0, datetime.fromtimestamp(0, UTC) + CLOCK_SKEW, 0)
    refusal = _in_use(dawn, Dependents.look(dataset).of(dawn, []))
    if refusal is not None:
        raise refusal
    dataset.storage.remove(path, expected=blob.token)


def _life_began(branch: Branch, manifests: Mapping[int, Entry]) -> datetime:
    fork = manifests.get(branch.parent_version)
    if fork is None:
        return branch.created_at - CLOCK_SKEW
    return min(branch.created_at, fork.modified) - CLOCK_TICK


def _younger(listed: Iterable[refs.RefEntry], since: datetime) -> Iterable[refs.RefEntry]:
    return (one for one in listed if one.entry.modified >= since)


def _counted(blockers: Sequence[str], most: int = 5) -> str:
    named = ", ".join(blockers[:most])
    return named if len(blockers) <= most else f"{named} and {len(blockers) - most} more"
