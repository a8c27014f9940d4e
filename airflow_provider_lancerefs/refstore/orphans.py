"""Files that nothing needs any more, and that are old enough to be nobody's work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from airflow_provider_lancerefs.refstore import layout, publications
from airflow_provider_lancerefs.refstore.dataset import now
from airflow_provider_lancerefs.refstore.models import BranchState, Finding
from airflow_provider_lancerefs.refstore.names import MAIN
from airflow_provider_lancerefs.refstore.storage import Entry
from airflow_provider_lancerefs.refstore.surveying import MEND, Survey, Wrong


def orphans_of_branches(survey: Survey) -> Iterator[Wrong]:
    """Files of a living branch that no version of any branch, nor main's head, reaches."""
    reached = _reached_by_branches(survey)
    if reached is None:
        return
    for name, branch in survey.branches.items():
        if branch.state.ending:
            continue
        root = layout.branch_root(name) + "/"
        own = [
            entry
            for entry in survey.tree_by_branch.get(name, [])
            if layout.is_content(entry.path.removeprefix(root))
            or layout.is_transaction(entry.path.removeprefix(root))
        ]
        yield from _orphans(survey, f"branch {name}", own, reached)


def orphans_of_the_root(survey: Survey) -> Iterator[Wrong]:
    """Files below the root that no version at all reaches: of a run that died, or a failed publish.

    Main's history is read only if there are files that its head and the branches do not need.
    Folders below `data/` are left alone, for other features keep files there that no manifest
    names; but not those where a write put files that were to be copied.
    Transactions count where there are more than versions: each has one, and most are main's own.
    """
    if any(_is_publishing(survey, name) for name in survey.branches):
        return
    reached = _reached_by_branches(survey)
    found = [
        entry
        for folder in (layout.DATA, layout.DELETIONS, layout.INDICES)
        for entry in _files_in(survey, folder)
    ]
    written = _files_in(survey, layout.TRANSACTIONS)
    if len(written) > len(survey.manifests(MAIN)):
        found += written
    if reached is None or not _unreached(survey, found, reached):
        return
    by_main = survey.reached(MAIN)
    if by_main is not None:
        yield from _orphans(survey, "the dataset root", found, reached | by_main)


def _files_in(survey: Survey, folder: str) -> list[Entry]:
    listed = survey.dataset.storage.list(f"{folder}/")
    return [
        entry
        for entry in listed
        if layout.is_dataset_file(entry.path) or layout.is_staged(entry.path)
    ]


def scratch_files(survey: Survey) -> Iterator[Wrong]:
    """Refs that a dead process was writing to a local disk."""
    storage = survey.dataset.storage
    scratch = [
        entry
        for entry in storage.list(layout.SCRATCH_PREFIX)
        if now() - entry.modified >= survey.orphan_age
    ]
    if scratch:
        detail = f"{len(scratch)} half-written files of dead processes"
        finding = Finding("scratch-files", layout.REFS, detail, MEND)
        yield Wrong(finding, partial(storage.delete_many, scratch))


def _orphans(
    survey: Survey, subject: str, entries: Sequence[Entry], reached: set[str]
) -> Iterator[Wrong]:
    orphans = _unreached(survey, entries, reached)
    if orphans:
        size = sum(entry.size for entry in orphans)
        detail = f"no version reaches {len(orphans)} of its files ({size} bytes)"
        finding = Finding("orphan-files", subject, detail, MEND)
        yield Wrong(finding, partial(survey.dataset.storage.delete_many, orphans))


def _unreached(survey: Survey, entries: Sequence[Entry], reached: set[str]) -> list[Entry]:
    return [
        entry
        for entry in entries
        if survey.dataset.at(entry.path) not in reached
        and now() - entry.modified >= survey.orphan_age
    ]


def _reached_by_branches(survey: Survey) -> set[str] | None:
    """What all versions of all branches and the head of main need; None if that is not known.

    A ref or a manifest that cannot be read may need anything.
    """
    if not survey.readable:
        return None
    reached: set[str] = set()
    for name in [MAIN, *survey.tree_by_branch]:
        found = survey.reached(name, every_version=name != MAIN)
        if found is None:
            return None
        reached |= found
    return reached


def _is_publishing(survey: Survey, name: str) -> bool:
    branch = survey.branches[name]
    return branch.state is BranchState.PUBLISHING and not publications.lease_is_over(
        survey.dataset, branch
    )
