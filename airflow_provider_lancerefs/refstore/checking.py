"""fsck: every way in which a dataset's refs can be wrong, and what is safe to mend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TypeAlias

from airflow_provider_lancerefs.refstore import (
    branching,
    deleting,
    files,
    layout,
    publications,
    refs,
    settling,
    versions,
)
from airflow_provider_lancerefs.refstore.dataset import Dataset, now
from airflow_provider_lancerefs.refstore.errors import (
    ConflictError,
    DatasetNotFoundError,
    LanceRefsError,
)
from airflow_provider_lancerefs.refstore.models import (
    PIN_KEY,
    Branch,
    BranchState,
    BrokenRef,
    Finding,
    Report,
    Tag,
    Version,
)
from airflow_provider_lancerefs.refstore.names import MAIN
from airflow_provider_lancerefs.refstore.orphans import (
    orphans_of_branches,
    orphans_of_the_root,
    scratch_files,
)
from airflow_provider_lancerefs.refstore.progress import Progress
from airflow_provider_lancerefs.refstore.storage import Entry
from airflow_provider_lancerefs.refstore.surveying import MEND, ORPHAN_AGE, Survey, Wrong

__all__ = ["ORPHAN_AGE", "check"]

_PASSES = 100
Look: TypeAlias = Callable[[Survey], Iterator[Wrong]]


def check(dataset: Dataset, *, repair: bool, orphan_age: timedelta, progress: Progress) -> Report:
    """Look at every ref, every branch folder and the files that heads and tags need."""
    survey = Survey(dataset, orphan_age)
    findings: list[Finding] = []
    for doing, look in _LOOKS:
        progress(doing)
        try:
            found, survey = _looked(survey, look, repair=repair)
            findings += found
        except DatasetNotFoundError:
            raise
        except LanceRefsError as error:
            findings.append(Finding("not-checked", doing, str(error), "mend that, and run again"))
    return Report(tuple(findings))


def _looked(survey: Survey, look: Look, *, repair: bool) -> tuple[list[Finding], Survey]:
    """What one look finds; what is mended may clear the way for more, so then it looks again."""
    mended: list[Finding] = []
    for _ in range(_PASSES):
        found = [_mended(one) if repair and one.mend else one.finding for one in look(survey)]
        if not any(one.repaired for one in found):
            break
        mended += [one for one in found if one.repaired]
        survey = Survey(survey.dataset, survey.orphan_age)
    return mended + [one for one in found if not one.repaired], survey


def _mended(wrong: Wrong) -> Finding:
    """Mend; what has changed since it was looked at is left to the next run."""
    if wrong.mend is None:
        return wrong.finding
    try:
        wrong.mend()
    except LanceRefsError as error:
        return replace(wrong.finding, detail=f"{wrong.finding.detail}; not mended: {error}")
    return replace(wrong.finding, repaired=True)


def _unreadable_refs(survey: Survey) -> Iterator[Wrong]:
    for ref in [*survey.all_branches, *survey.tags]:
        if isinstance(ref, BrokenRef):
            yield Wrong(
                Finding(
                    "unreadable-ref",
                    f"{ref.kind} {ref.name}",
                    ref.broken,
                    "restore the file from a copy, or delete the ref with --force",
                )
            )


def _unfinished_deletes(survey: Survey) -> Iterator[Wrong]:
    for branch in survey.branches.values():
        if not branch.state.ending or now() - branch.state_since < survey.dataset.grace:
            continue

        def finish(branch: Branch = branch) -> None:
            failure = deleting.delete_branches(survey.dataset, [branch])[branch.name]
            if isinstance(failure, ConflictError):
                raise failure

        yield Wrong(
            Finding(
                "unfinished-delete",
                f"branch {branch.name}",
                f"its deletion began at {branch.state_since:%Y-%m-%d %H:%M:%S} UTC and did not end",
                f"delete it again; {MEND}",
            ),
            finish,
        )


def _unfinished_publishes(survey: Survey) -> Iterator[Wrong]:
    for branch in survey.branches.values():
        if branch.state is BranchState.PUBLISHING and publications.lease_is_over(
            survey.dataset, branch
        ):
            yield Wrong(
                Finding(
                    "unfinished-publish",
                    f"branch {branch.name}",
                    f"its publish began at {branch.state_since:%Y-%m-%d %H:%M:%S} UTC and did not "
                    "end",
                    f"publish it again; {MEND}",
                ),
                partial(settling.settle, survey.dataset, branch),
            )


def _headless_branches(survey: Survey) -> Iterator[Wrong]:
    for branch in survey.branches.values():
        young = now() - branch.created_at < survey.dataset.grace
        manifests = survey.manifests(branch.name)
        if branch.state.ending or young:
            continue
        if manifests and _are_of_this_life(survey, branch, manifests):
            continue
        subject = f"branch {branch.name}"
        if manifests:
            yield Wrong(
                Finding(
                    "wrong-head",
                    subject,
                    f"its versions do not start from {branch.source}, as its ref says",
                    "delete the branch, after copying out what you need",
                ),
                partial(branching.complete, survey.dataset, branch) if branch.made_here else None,
            )
        elif survey.has(branch.source):
            yield Wrong(
                Finding(
                    "ref-without-head",
                    subject,
                    "its creation was cut short",
                    f"create it again from the same source; {MEND}",
                ),
                partial(branching.complete, survey.dataset, branch),
            )
        else:
            yield Wrong(
                Finding(
                    "ref-without-head",
                    subject,
                    f"its creation was cut short, and its source {branch.source} is gone",
                    f"delete it; {MEND}",
                ),
                partial(refs.remove, survey.dataset.storage, branch),
            )


def _are_of_this_life(survey: Survey, branch: Branch, manifests: Mapping[int, Entry]) -> bool:
    if min(manifests) > branch.parent_version:
        return not branching.starts_from_another(branch, manifests)
    return branching.is_fork(survey.dataset, branch, manifests)


def _lost_parents(survey: Survey) -> Iterator[Wrong]:
    for branch in survey.branches.values():
        if branch.parent == MAIN or branch.state.ending:
            continue
        parent = survey.branches.get(branch.parent)
        if branch.parent not in survey.names or (parent and not branch.is_child_of(parent)):
            yield Wrong(
                Finding(
                    "lost-parent",
                    f"branch {branch.name}",
                    f"the branch {branch.parent!r} that it was forked from is gone",
                    "delete it, after copying out what can still be read",
                )
            )


def _trees_without_refs(survey: Survey) -> Iterator[Wrong]:
    for name, entries in survey.tree_by_branch.items():
        newest = max(entry.modified for entry in entries)
        if name in survey.names or now() - newest < survey.dataset.grace:
            continue

        def remove(name: str = name, entries: list[Entry] = entries) -> None:
            """A life that begins now writes its files after its ref; these were listed before."""
            if survey.dataset.storage.read(layout.branch_ref(name)) is not None:
                raise ConflictError(f"The branch {name!r} was created meanwhile.", ref=name)
            deleting.remove_files(survey.dataset, entries)

        needed_by = survey.needed_by(name)
        safe = needed_by is None and survey.readable
        yield Wrong(
            Finding(
                "tree-without-ref",
                f"branch {name}",
                f"{len(entries)} files stand under tree/{name} without a ref"
                + (f", and {needed_by} needs them" if needed_by else ""),
                MEND if safe else "mend the other refs first, or restore its own from a copy",
            ),
            remove if safe else None,
        )


def _dangling_tags(survey: Survey) -> Iterator[Wrong]:
    for tag in survey.tags:
        if not isinstance(tag, Tag) or survey.tag_ages[tag.name] < survey.dataset.grace:
            continue
        there = tag.branch == MAIN or tag.branch in survey.names
        if there and survey.has(tag.target):
            continue
        yield Wrong(
            Finding(
                "dangling-tag",
                f"tag {tag.name}",
                f"it names {tag.target}, which "
                + ("does not exist" if there else "is on a branch that does not exist"),
                "delete it with --force" if tag.protected else f"delete it; {MEND}",
            ),
            None if tag.protected else partial(_remove_dangling, survey.dataset, tag),
        )


def _remove_dangling(dataset: Dataset, tag: Tag) -> None:
    """Remove a tag, unless what it names is there after all."""
    storage = dataset.storage
    stands = tag.branch == MAIN or storage.read(layout.branch_ref(tag.branch)) is not None
    if stands and versions.find_manifest(storage, tag.branch, tag.version) is not None:
        raise ConflictError(f"What the tag {tag.name!r} names is there again.", ref=tag.name)
    refs.remove(storage, tag)


def _overlapping_names(survey: Survey) -> Iterator[Wrong]:
    for name in sorted(survey.names):
        for other in sorted(survey.names):
            inner = name.removeprefix(f"{other}/")
            if inner != name and layout.is_dataset_folder(inner.partition("/")[0]):
                yield Wrong(
                    Finding(
                        "overlapping-names",
                        f"branch {name}",
                        f"its folder lies where the branch {other!r} keeps its own files",
                        "delete one of the two",
                    )
                )


def _missing_files(survey: Survey) -> Iterator[Wrong]:
    wanted: dict[str, str] = {}
    for version in _revisions_in_use(survey):
        try:
            found = files.resolve_files(survey.dataset, version, survey.read(version))
        except LanceRefsError as error:
            yield Wrong(
                Finding(
                    "unreadable-version", str(version), str(error), "restore the file from a copy"
                )
            )
            continue
        for file in found:
            wanted.setdefault(file.uri, str(version))
    there = _existing(survey.dataset, {uri.rpartition("/")[0] for uri in wanted})
    for uri, needed_by in wanted.items():
        if uri not in there:
            yield Wrong(
                Finding(
                    "missing-file",
                    uri,
                    f"{needed_by} needs it",
                    "restore the file from a copy, or publish a version without it",
                )
            )


def _lost_pins(survey: Survey) -> Iterator[Wrong]:
    """A clone whose source no longer keeps the version it stands on."""
    manifests = survey.manifests(MAIN)
    manifest = survey.read(Version(MAIN, max(manifests), 0))
    for base in manifest.bases.values():
        root = layout.dataset_root(base.path.rstrip("/"), base.name)
        if root == survey.dataset.uri or not base.is_dataset_root:
            continue
        source = survey.dataset.elsewhere(root).storage
        pins = [
            tag
            for tag in refs.read_tags(source, refs.list_tags(source))
            if isinstance(tag, Tag) and tag.metadata.get(PIN_KEY) == survey.dataset.uri
        ]
        if not pins:
            yield Wrong(
                Finding(
                    "lost-pin",
                    root,
                    "this dataset shares its files, but no tag there keeps them from cleanup",
                    "tag the version there that this was cloned from, before it is cleaned up",
                )
            )


_LOOKS: tuple[tuple[str, Look], ...] = (
    ("reading refs", _unreadable_refs),
    ("looking for unfinished deletes", _unfinished_deletes),
    ("looking for unfinished publishes", _unfinished_publishes),
    ("looking at branch heads", _headless_branches),
    ("looking at parents", _lost_parents),
    ("looking at branch folders", _trees_without_refs),
    ("looking at tags", _dangling_tags),
    ("looking at names", _overlapping_names),
    ("looking for missing files", _missing_files),
    ("looking for orphans", orphans_of_branches),
    ("looking for orphans below the root", orphans_of_the_root),
    ("looking for scratch files", scratch_files),
    ("looking at pins", _lost_pins),
)


def _revisions_in_use(survey: Survey) -> set[Version]:
    """The heads of main and every branch, and what tags name."""
    heads = {
        Version(name, max(found), 0)
        for name in [MAIN, *(one.name for one in survey.branches.values() if not one.state.ending)]
        if (found := survey.manifests(name))
    }
    tagged = {
        replace(tag.target, manifest_size=0)
        for tag in survey.tags
        if isinstance(tag, Tag) and survey.has(tag.target)
    }
    return heads | tagged


def _existing(dataset: Dataset, folders: set[str]) -> set[str]:
    found: set[str] = set()
    for folder in folders:
        below = dataset.elsewhere(folder)
        found |= {below.at(entry.path) for entry in below.storage.list("")}
    return found
