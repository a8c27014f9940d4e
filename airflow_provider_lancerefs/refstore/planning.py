"""Judging a publish: three snapshots in, a draft of the commit or a refusal out. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_lancerefs.refstore import layout
from airflow_provider_lancerefs.refstore.comparing import ThreeWay, difference
from airflow_provider_lancerefs.refstore.conflicts import (
    ROW_RULES,
    Rule,
    first_refusal,
    unproven_features,
)
from airflow_provider_lancerefs.refstore.errors import FormatError
from airflow_provider_lancerefs.refstore.plans import (
    PublishPlan,
    PublishStep,
    Refusal,
    RefusalCode,
)
from airflow_provider_lancerefs.refstore.rowsets import RowSet
from airflow_provider_lancerefs.refstore.schemas import SCHEMA_RULES, step_of
from airflow_provider_lancerefs.refstore.snapshot import Snapshot, StoredFile, StoredFragment

Sizes = Callable[[Iterable[str]], Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Place:
    """How the parent's manifest will name a data file, and where it is copied to, if it is."""

    base_id: int | None
    path: str
    copy_to: str | None = None


@dataclass(frozen=True, slots=True)
class Touch:
    """A fragment of the parent that gets the branch's files, loses rows, or both."""

    fragment: StoredFragment
    files: tuple[StoredFile, ...] | None
    deleted: RowSet | None


@dataclass(frozen=True)
class Draft:
    """The commit that a publish will make, before its files are placed."""

    both: ThreeWay
    step: PublishStep
    removed: tuple[int, ...]
    touched: tuple[Touch, ...]
    added: tuple[StoredFragment, ...]
    fields_modified: tuple[int, ...]

    @property
    def files(self) -> Iterator[StoredFile]:
        """Every data file that the commit will name anew."""
        for fragment in self.added:
            yield from fragment.files
        for touch in self.touched:
            yield from touch.files or ()

    @property
    def row_ids(self) -> list[RowIds]:
        """For each added fragment which of its stable row ids it keeps."""
        limit = self.both.fork.manifest.next_row_id
        return [RowIds.of(fragment, limit) for fragment in self.added]

    @property
    def ids_to_reserve(self) -> int:
        """How many row ids must be had before the commit: none unless old and new rows mix."""
        if not self.both.theirs.stable or not any(one.mixed for one in self.row_ids):
            return 0
        return sum(one.fresh for one in self.row_ids)


@dataclass(frozen=True, slots=True)
class RowIds:
    """The ids of a new fragment's rows: those of rows that existed before, None for new rows."""

    ids: tuple[int | None, ...]

    @staticmethod
    def of(fragment: StoredFragment, limit: int) -> RowIds:
        return RowIds(tuple(one if one < limit else None for one in fragment.stable_row_ids()))

    @property
    def fresh(self) -> int:
        return self.ids.count(None)

    @property
    def kept(self) -> tuple[int, ...]:
        """The ids that stand before the first new row."""
        end = self.ids.index(None) if self.fresh else len(self.ids)
        return tuple(one for one in self.ids[:end] if one is not None)

    @property
    def mixed(self) -> bool:
        """A commit can give ids to the last rows of a fragment, and not to those in between."""
        return len(self.kept) + self.fresh != len(self.ids)

    def filled(self, reserved: Iterator[int]) -> tuple[int, ...]:
        return tuple(next(reserved) if one is None else one for one in self.ids)


def plan(both: ThreeWay, root: str, sizes: Sizes) -> tuple[PublishPlan, Draft | None]:
    """What publishing would do, with the draft of its commit unless it is refused or nothing.

    `sizes` tells how large files are that are there.
    """
    draft = _draft(both)
    said = PublishPlan(
        branch=both.ours.version.branch,
        branch_version=both.ours.version.number,
        parent=both.theirs.version.branch,
        parent_version=both.theirs.version.number,
        step=draft.step,
        difference=difference(both.branch),
    )
    if draft.step is PublishStep.NOTHING:
        return said, None
    try:
        refusal = first_refusal((unproven_features, *ROW_RULES, *SCHEMA_RULES, *_ID_RULES), both)
    except FormatError as error:
        refusal = Refusal(RefusalCode.MISSING_FILE, str(error))
    if refusal is not None:
        return replace(said, refusal=refusal), None
    return _with_files(said, draft, root, sizes)


def place(uri: str, draft: Draft, root: str, name: str) -> Place | None:
    """How the parent can name a data file; None where it has no base path for it.

    What lies in the branch's own folder must be copied, under a `name` that nobody else uses.
    """
    theirs, own = draft.both.theirs, f"{draft.both.ours.home}/{layout.DATA}/"
    if not uri.startswith(own):
        return _within(uri, theirs)
    for target in (root, theirs.home):
        copy = f"{target}/{layout.DATA}/{name}"
        found = _within(copy, theirs)
        if found is not None:
            return replace(found, copy_to=copy)
    return None


def _draft(both: ThreeWay) -> Draft:
    branch = both.branch
    touched = tuple(
        Touch(
            both.theirs.fragments[number],
            change.new.files if change.files_changed else None,
            change.deleted or None,
        )
        for number, change in branch.changed.items()
        if number in both.theirs.fragments
    )
    modified = {one for change in branch.rewrites.values() for one in change.rewritten}
    return Draft(
        both=both,
        step=step_of(both),
        removed=tuple(branch.removed),
        touched=touched,
        added=tuple(sorted(branch.added, key=lambda one: one.identity)),
        fields_modified=tuple(sorted(modified & both.fork.fields.keys())),
    )


def _with_files(
    said: PublishPlan, draft: Draft, root: str, sizes: Sizes
) -> tuple[PublishPlan, Draft | None]:
    vectors = [one for one in _vectors(draft) if one]
    there = sizes([*(file.uri for file in draft.files), *vectors])
    refusal = next(_missing(draft, vectors, there), None) or next(_unplaceable(draft, root), None)
    if refusal is not None:
        return replace(said, refusal=refusal), None
    own = {file.uri for file in draft.files if file.uri.startswith(f"{draft.both.ours.home}/")}
    copied = [*own, *vectors]
    size = sum(there[uri] for uri in copied)
    return replace(said, files_to_copy=len(copied), bytes_to_copy=size), draft


def _vectors(draft: Draft) -> Sequence[str | None]:
    return [fragment.deletion for fragment in draft.added]


def _missing(draft: Draft, vectors: Sequence[str], there: Mapping[str, int]) -> Iterator[Refusal]:
    for file in draft.files:
        if file.uri not in there:
            yield Refusal(
                RefusalCode.MISSING_FILE, f"The branch's data file {file.uri} is missing."
            )
        elif file.size and file.size != there[file.uri]:
            yield Refusal(
                RefusalCode.MISSING_FILE,
                f"The branch's data file {file.uri} has {there[file.uri]} bytes where the manifest "
                f"says {file.size}.",
            )
    for uri in vectors:
        if uri not in there:
            yield Refusal(RefusalCode.MISSING_FILE, f"The deletion file {uri} is missing.")


def _unplaceable(draft: Draft, root: str) -> Iterator[Refusal]:
    for file in draft.files:
        if place(file.uri, draft, root, file.name) is None:
            yield Refusal(
                RefusalCode.BASE_PATH_MISSING,
                f"{draft.both.theirs.version} has no base path for {file.uri}: add one to the "
                "parent.",
            )


def _within(uri: str, snapshot: Snapshot) -> Place | None:
    for number, base, is_dataset_root in snapshot.bases:
        prefix = f"{base}/{layout.DATA}/" if is_dataset_root else f"{base}/"
        if uri.startswith(prefix):
            return Place(number, uri.removeprefix(prefix))
    return None


def _rows_moved_otherwise(both: ThreeWay) -> Iterator[Refusal]:
    """An old row id may turn up in a new fragment only if the branch took it out of an old one."""
    if not both.ours.stable or not both.branch.added:
        return
    moved = _moved_ids(both)
    if len(set(moved)) != len(moved) or not set(moved) <= _freed_ids(both):
        yield Refusal(
            RefusalCode.ROW_IDS_CHANGED,
            f"The rows that {both.ours.version} rewrote are not those it removed, by their ids.",
        )


def _rows_moved_with_schema(both: ThreeWay) -> Iterator[Refusal]:
    if both.ours.stable and step_of(both) is PublishStep.MERGE and _moved_ids(both):
        yield Refusal(
            RefusalCode.MOVED_ROWS_WITH_SCHEMA_CHANGE,
            "The branch changed columns and rewrote rows that have stable ids, which Lance cannot "
            "commit at once: publish one before the other.",
        )


def _moved_ids(both: ThreeWay) -> list[int]:
    """Ids from before the fork among the live rows of new fragments; a row may have moved twice."""
    limit = both.fork.manifest.next_row_id
    found = []
    for fragment in both.branch.added:
        dead = both.ours.deleted(fragment)
        ids = enumerate(fragment.stable_row_ids())
        found += [one for offset, one in ids if one < limit and offset not in dead]
    return found


def _freed_ids(both: ThreeWay) -> set[int]:
    freed: set[int] = set()
    for fragment in both.branch.removed.values():
        freed.update(fragment.stable_row_ids())
    for change in both.branch.changed.values():
        ids = change.old.stable_row_ids()
        freed.update(ids[offset] for offset in change.deleted)
    return freed


_ID_RULES: tuple[Rule, ...] = (_rows_moved_otherwise, _rows_moved_with_schema)
