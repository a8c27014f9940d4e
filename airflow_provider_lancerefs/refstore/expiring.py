"""The sweep for branches that nobody deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import TypeAlias

from airflow_provider_lancerefs.refstore import deleting, refs
from airflow_provider_lancerefs.refstore.dataset import Dataset, now
from airflow_provider_lancerefs.refstore.errors import InvalidInputError, RefusedError
from airflow_provider_lancerefs.refstore.models import Branch, BrokenRef, Expiry
from airflow_provider_lancerefs.refstore.progress import Progress

_LONGEST = timedelta(days=365 * 1000)


Spare: TypeAlias = Callable[[Branch], str | None]


def none_spared(branch: Branch) -> None:
    """Nobody has a reason to keep the branch."""


def expire_branches(
    dataset: Dataset,
    pattern: str,
    older_than: timedelta,
    *,
    dry_run: bool,
    progress: Progress,
    spare: Spare,
) -> list[Expiry]:
    """Delete matching branches that were last written to longer ago than `older_than`."""
    if not isinstance(pattern, str) or not pattern:
        raise InvalidInputError("Which branches may expire is a glob pattern, such as 'run/*'.")
    if not isinstance(older_than, timedelta) or older_than < timedelta(0):
        raise InvalidInputError("How long a branch must have been idle is a timedelta >= 0.")
    progress("listing branches")
    listed = [one for one in refs.list_branches(dataset.storage) if fnmatchcase(one.name, pattern)]
    idle_since = now() - min(older_than, _LONGEST)
    kept: list[Expiry] = []
    old: list[Branch] = []
    found = sorted(refs.read_branches(dataset.storage, listed), key=lambda one: one.name)
    for done, branch in enumerate(found):
        progress("looking at branches", done, len(found))
        reason = _why_kept(dataset, branch, idle_since, spare)
        if reason is None and isinstance(branch, Branch):
            old.append(branch)
        else:
            kept.append(Expiry(branch.name, due=False, deleted=False, reason=reason or ""))
    swept = _tried(dataset, old) if dry_run else _deleted(dataset, old, idle_since, progress)
    return sorted([*kept, *swept], key=lambda one: one.branch)


def _why_kept(
    dataset: Dataset, branch: Branch | BrokenRef, idle_since: datetime, spare: Spare
) -> str | None:
    if not isinstance(branch, Branch):
        return "its ref cannot be read: run fsck"
    refusal = deleting.not_deletable(dataset, branch)
    if refusal is not None:
        return str(refusal.kind)
    if _last_active(dataset, branch) > idle_since:
        return "too young"
    return spare(branch)


def _last_active(dataset: Dataset, branch: Branch) -> datetime:
    """When a file of the branch was last written; its creation where none is newer."""
    entries = deleting.files_below(dataset, branch.name)
    return max([branch.created_at, *(entry.modified for entry in entries)])


def _tried(dataset: Dataset, branches: list[Branch]) -> list[Expiry]:
    look = deleting.Dependents.look(dataset)
    results = []
    for branch in branches:
        blockers = look.of(branch, deleting.files_below(dataset, branch.name))
        reason = f"needed by {', '.join(blockers)}" if blockers else "old enough"
        results.append(Expiry(branch.name, due=not blockers, deleted=False, reason=reason))
    return results


def _deleted(
    dataset: Dataset, branches: list[Branch], idle_since: datetime, progress: Progress
) -> list[Expiry]:
    progress("deleting branches", 0, len(branches))
    results = []
    outcome = deleting.delete_branches(dataset, branches, idle_since=idle_since)
    for name, failure in outcome.items():
        gone = failure is None
        reason = str(failure) if failure else "old enough"
        if isinstance(failure, RefusedError) and failure.blockers:
            reason = f"needed by {', '.join(failure.blockers)}"
        results.append(Expiry(name, due=gone, deleted=gone, reason=reason))
    return results
