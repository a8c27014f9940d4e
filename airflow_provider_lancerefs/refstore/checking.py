"""fsck: every way in which a dataset's refs can be wrong, and what is safe to mend."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property, partial

from airflow_provider_lancerefs.refstore import branching, deleting, files, layout, refs, versions
from airflow_provider_lancerefs.refstore.dataset import Dataset, now
from airflow_provider_lancerefs.refstore.errors import (
    ConflictError,
    DatasetNotFoundError,
    LanceRefsError,
    VersionNotFoundError,
)
from airflow_provider_lancerefs.refstore.manifest import Manifest, parse_manifest
from airflow_provider_lancerefs.refstore.models import (
    PIN_KEY,
    Branch,
    BrokenRef,
    Finding,
    Report,
    Tag,
    Version,
)
from airflow_provider_lancerefs.refstore.names import MAIN
from airflow_provider_lancerefs.refstore.progress import Progress
from airflow_provider_lancerefs.refstore.storage import Entry

ORPHAN_AGE = timedelta(days=7)
_MEND = "fsck --repair mends it"
Mend = Callable[[], None]


@dataclass(frozen=True)
class _Wrong:
    """A finding, and how to mend it where that is safe."""

    finding: Finding
    mend: Mend | None = None


def check(dataset: Dataset, *, repair: bool, orphan_age: timedelta, progress: Progress) -> Report:
    """Look at every ref, every branch folder and the files that heads and tags need."""
    survey = Survey(dataset, orphan_age)
    findings: list[Finding] = []
    for doing, look in _LOOKS:
        progress(doing)
        try:
            for wrong in look(survey):
                findings.append(_mended(wrong) if repair and wrong.mend else wrong.finding)
        except DatasetNotFoundError:
            raise
        except LanceRefsError as error:
            findings.append(Finding("not-checked", doing, str(error), "mend that, and run again"))
    return Report(tuple(findings))


def _mended(wrong: _Wrong) -> Finding:
    """Mend; what has changed since it was looked at is left to the next run."""
    if wrong.mend is None:
        return wrong.finding
    try:
        wrong.mend()
    except LanceRefsError as error:
        return replace(wrong.finding, detail=f"{wrong.finding.detail}; not mended: {error}")
    return replace(wrong.finding, repaired=True)


@dataclass
class Survey:
    """What stands in the dataset, read once.

    Tags are read before branches: one made on a branch that is made meanwhile is then not seen.
    """

    dataset: Dataset
    orphan_age: timedelta
    _manifests: dict[Version, Manifest] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tag_entries = refs.list_tags(self.dataset.storage)
        self.tags = refs.read_tags(self.dataset.storage, self._tag_entries)

    @cached_property
    def tag_ages(self) -> dict[str, timedelta]:
        return {one.name: now() - one.entry.modified for one in self._tag_entries}

    @cached_property
    def all_branches(self) -> list[Branch | BrokenRef]:
        return refs.read_branches(self.dataset.storage, refs.list_branches(self.dataset.storage))

    @cached_property
    def branches(self) -> dict[str, Branch]:
        return {one.name: one for one in self.all_branches if isinstance(one, Branch)}

    @cached_property
    def names(self) -> set[str]:
        """Every branch that has a ref, readable or not."""
        return {one.name for one in self.all_branches}

    @cached_property
    def tree(self) -> Sequence[Entry]:
        return self.dataset.storage.list(f"{layout.TREE}/")

    @cached_property
    def tree_by_branch(self) -> dict[str, list[Entry]]:
        """The files of each branch folder, whether a ref stands for it or not."""
        owners = self.names | {name for entry in self.tree if (name := layout.tree_of(entry.path))}
        found: dict[str, list[Entry]] = {}
        for entry in self.tree:
            owner = layout.owner(entry.path, owners)
            if owner is not None:
                found.setdefault(owner, []).append(entry)
        return found

    @cached_property
    def readable(self) -> bool:
        """Whether every branch ref can be read, so that nothing unknown may need a file."""
        return len(self.branches) == len(self.all_branches)

    def needed_by(self, branch: str) -> str | None:
        """Who needs the files of a branch folder, by its ref or by any manifest, if anybody."""
        for child in self.branches.values():
            if child.parent == branch:
                return f"branch {child.name}"
        for tag in self.tags:
            if isinstance(tag, Tag) and tag.branch == branch:
                return f"tag {tag.name}"
        for name in [MAIN, *self.tree_by_branch]:
            for version in [] if name == branch else self._inspected(name):
                with contextlib.suppress(VersionNotFoundError):  # mended away in this very run
                    if deleting.points_into(self.read(version).bases.values(), branch):
                        return str(version)
        return None

    def _inspected(self, name: str) -> list[Version]:
        """The versions in which a foreign pointer is looked for: all of a branch, main's head."""
        numbers = self.manifests(name)
        chosen = numbers if name != MAIN or not numbers else [max(numbers)]
        return [Version(name, one, 0) for one in chosen]

    def manifests(self, branch: str) -> dict[int, Entry]:
        if branch == MAIN:
            return self._main_manifests
        return versions.manifests_among(branch, self.tree_by_branch.get(branch, []))

    @cached_property
    def _main_manifests(self) -> dict[int, Entry]:
        found = versions.list_manifests(self.dataset.storage, MAIN)
        if not found:
            versions.head(self.dataset.storage, MAIN)
        return found

    def has(self, version: Version) -> bool:
        return version.number in self.manifests(version.branch)

    def read(self, version: Version) -> Manifest:
        if version not in self._manifests:
            path = self.manifests(version.branch)[version.number].path
            blob = self.dataset.storage.read(path)
            if blob is None:
                raise VersionNotFoundError(f"{version} was cleaned up meanwhile.")
            self._manifests[version] = parse_manifest(blob.data, str(version))
        return self._manifests[version]


def _unreadable_refs(survey: Survey) -> Iterator[_Wrong]:
    for ref in [*survey.all_branches, *survey.tags]:
        if isinstance(ref, BrokenRef):
            yield _Wrong(
                Finding(
                    "unreadable-ref",
                    f"{ref.kind} {ref.name}",
                    ref.broken,
                    "restore the file from a copy, or delete the ref with --force",
                )
            )


def _unfinished_deletes(survey: Survey) -> Iterator[_Wrong]:
    for branch in survey.branches.values():
        if not branch.state.ending or now() - branch.state_since < survey.dataset.grace:
            continue

        def finish(branch: Branch = branch) -> None:
            failure = deleting.delete_branches(survey.dataset, [branch])[branch.name]
            if isinstance(failure, ConflictError):
                raise failure

        yield _Wrong(
            Finding(
                "unfinished-delete",
                f"branch {branch.name}",
                f"its deletion began at {branch.state_since:%Y-%m-%d %H:%M:%S} UTC and did not end",
                f"delete it again; {_MEND}",
            ),
            finish,
        )


def _headless_branches(survey: Survey) -> Iterator[_Wrong]:
    for branch in survey.branches.values():
        young = now() - branch.created_at < survey.dataset.grace
        manifests = survey.manifests(branch.name)
        if branch.state.ending or young:
            continue
        cleaned_up = bool(manifests) and min(manifests) > branch.parent_version
        if cleaned_up or (manifests and branching.is_fork(survey.dataset, branch, manifests)):
            continue
        subject = f"branch {branch.name}"
        if manifests:
            yield _Wrong(
                Finding(
                    "wrong-head",
                    subject,
                    f"its versions do not start from {branch.source}, as its ref says",
                    "delete the branch, after copying out what you need",
                )
            )
        elif survey.has(branch.source):
            yield _Wrong(
                Finding(
                    "ref-without-head",
                    subject,
                    "its creation was cut short",
                    f"create it again from the same source; {_MEND}",
                ),
                partial(branching.complete, survey.dataset, branch),
            )
        else:
            yield _Wrong(
                Finding(
                    "ref-without-head",
                    subject,
                    f"its creation was cut short, and its source {branch.source} is gone",
                    f"delete it; {_MEND}",
                ),
                partial(refs.remove, survey.dataset.storage, branch),
            )


def _lost_parents(survey: Survey) -> Iterator[_Wrong]:
    for branch in survey.branches.values():
        if branch.parent == MAIN or branch.state.ending:
            continue
        parent = survey.branches.get(branch.parent)
        if branch.parent not in survey.names or (parent and not branch.is_child_of(parent)):
            yield _Wrong(
                Finding(
                    "lost-parent",
                    f"branch {branch.name}",
                    f"the branch {branch.parent!r} that it was forked from is gone",
                    "delete it, after copying out what can still be read",
                )
            )


def _trees_without_refs(survey: Survey) -> Iterator[_Wrong]:
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
        yield _Wrong(
            Finding(
                "tree-without-ref",
                f"branch {name}",
                f"{len(entries)} files stand under tree/{name} without a ref"
                + (f", and {needed_by} needs them" if needed_by else ""),
                _MEND if safe else "mend the other refs first, or restore its own from a copy",
            ),
            remove if safe else None,
        )


def _dangling_tags(survey: Survey) -> Iterator[_Wrong]:
    for tag in survey.tags:
        if not isinstance(tag, Tag) or survey.tag_ages[tag.name] < survey.dataset.grace:
            continue
        there = tag.branch == MAIN or tag.branch in survey.names
        if there and survey.has(tag.target):
            continue
        yield _Wrong(
            Finding(
                "dangling-tag",
                f"tag {tag.name}",
                f"it names {tag.target}, which "
                + ("does not exist" if there else "is on a branch that does not exist"),
                "delete it with --force" if tag.protected else f"delete it; {_MEND}",
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


def _overlapping_names(survey: Survey) -> Iterator[_Wrong]:
    for name in sorted(survey.names):
        for other in sorted(survey.names):
            inner = name.removeprefix(f"{other}/")
            if inner != name and layout.is_dataset_folder(inner.partition("/")[0]):
                yield _Wrong(
                    Finding(
                        "overlapping-names",
                        f"branch {name}",
                        f"its folder lies where the branch {other!r} keeps its own files",
                        "delete one of the two",
                    )
                )


def _missing_files(survey: Survey) -> Iterator[_Wrong]:
    wanted: dict[str, str] = {}
    for version in _revisions_in_use(survey):
        try:
            found = files.resolve_files(survey.dataset, version, survey.read(version))
        except LanceRefsError as error:
            yield _Wrong(
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
            yield _Wrong(
                Finding(
                    "missing-file",
                    uri,
                    f"{needed_by} needs it",
                    "restore the file from a copy, or publish a version without it",
                )
            )


def _orphans(survey: Survey) -> Iterator[_Wrong]:
    """Files of a living branch that no version reaches, and forgotten scratch files."""
    reached = _reached_below_tree(survey)
    storage = survey.dataset.storage
    for name, branch in survey.branches.items() if survey.readable else ():
        if branch.state.ending:
            continue
        orphans = [
            entry
            for entry in survey.tree_by_branch.get(name, [])
            if layout.is_content(entry.path[len(layout.branch_root(name)) + 1 :])
            and survey.dataset.at(entry.path) not in reached
            and now() - entry.modified >= survey.orphan_age
        ]
        if orphans:
            size = sum(entry.size for entry in orphans)
            yield _Wrong(
                Finding(
                    "orphan-files",
                    f"branch {name}",
                    f"no version reaches {len(orphans)} of its files ({size} bytes)",
                    _MEND,
                ),
                partial(storage.delete_many, orphans),
            )
    scratch = [
        entry
        for entry in storage.list(layout.SCRATCH_PREFIX)
        if now() - entry.modified >= survey.orphan_age
    ]
    if scratch:
        yield _Wrong(
            Finding(
                "scratch-files",
                layout.REFS,
                f"{len(scratch)} half-written files of dead processes",
                _MEND,
            ),
            partial(storage.delete_many, scratch),
        )


def _lost_pins(survey: Survey) -> Iterator[_Wrong]:
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
            yield _Wrong(
                Finding(
                    "lost-pin",
                    root,
                    "this dataset shares its files, but no tag there keeps them from cleanup",
                    "tag the version there that this was cloned from, before it is cleaned up",
                )
            )


_LOOKS: tuple[tuple[str, Callable[[Survey], Iterator[_Wrong]]], ...] = (
    ("reading refs", _unreadable_refs),
    ("looking for unfinished deletes", _unfinished_deletes),
    ("looking at branch heads", _headless_branches),
    ("looking at parents", _lost_parents),
    ("looking at branch folders", _trees_without_refs),
    ("looking at tags", _dangling_tags),
    ("looking at names", _overlapping_names),
    ("looking for missing files", _missing_files),
    ("looking for orphans", _orphans),
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


def _reached_below_tree(survey: Survey) -> set[str]:
    """Every file that some version of a branch, or the head of main, needs.

    What a version that cannot be read needs is not known, so then every file counts as reached.
    """
    reached: set[str] = set()
    for name in [MAIN, *survey.tree_by_branch]:
        numbers = survey.manifests(name)
        for number in [max(numbers)] if name == MAIN else numbers:
            version = Version(name, number, 0)
            try:
                found = files.resolve_files(survey.dataset, version, survey.read(version))
            except LanceRefsError:
                reached |= {survey.dataset.at(entry.path) for entry in survey.tree}
                continue
            reached |= {file.uri for file in found}
    return reached


def _existing(dataset: Dataset, folders: set[str]) -> set[str]:
    found: set[str] = set()
    for folder in folders:
        below = dataset.elsewhere(folder)
        found |= {below.at(entry.path) for entry in below.storage.list("")}
    return found
