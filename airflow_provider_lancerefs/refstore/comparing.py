"""What one snapshot has over another, fragment by fragment and row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_lancerefs.refstore.plans import Difference, SchemaChange
from airflow_provider_lancerefs.refstore.rowsets import NO_ROWS, RowSet
from airflow_provider_lancerefs.refstore.snapshot import Snapshot, StoredFile, StoredFragment


@dataclass(frozen=True, slots=True)
class FragmentChange:
    """A fragment that both snapshots have, with other files or with fewer rows."""

    old: StoredFragment
    new: StoredFragment
    deleted: RowSet = NO_ROWS
    restored: RowSet = NO_ROWS

    @property
    def files_changed(self) -> bool:
        return self.old.files != self.new.files

    @property
    def rewritten(self) -> set[int]:
        """The fields whose values are in another file than before, or in one for the first time."""
        before = self.old.where()
        return {one for one, uri in self.new.where().items() if before.get(one) != uri}


@dataclass(frozen=True)
class Changes:
    """All that leads from one snapshot to another.

    A fragment that shares no file with the one of its number is another fragment: the old one is
    `removed`, the new one `added`.
    """

    old: Snapshot
    new: Snapshot
    removed: Mapping[int, StoredFragment]
    added: tuple[StoredFragment, ...]
    changed: Mapping[int, FragmentChange]

    @property
    def schema(self) -> bool:
        return self.old.schema != self.new.schema

    @property
    def deletes(self) -> bool:
        return bool(self.removed) or any(change.deleted for change in self.changed.values())

    @property
    def rewrites(self) -> dict[int, FragmentChange]:
        """The changed fragments that have other files."""
        return {one: change for one, change in self.changed.items() if change.files_changed}

    @property
    def replaces_all(self) -> bool:
        """No fragment is left, and the columns are others."""
        return self.schema and len(self.removed) == len(self.old.fragments)

    @property
    def nothing(self) -> bool:
        return not (self.removed or self.added or self.changed or self.schema)

    def new_files(self) -> Iterator[StoredFile]:
        """The data files that the old snapshot had no use for."""
        known = {uri for fragment in self.old.fragments.values() for uri in fragment.uris}
        touched = [*self.added, *(change.new for change in self.rewrites.values())]
        seen: set[str] = set()
        for file in (file for fragment in touched for file in fragment.files):
            if file.uri not in known and file.uri not in seen:
                seen.add(file.uri)
                yield file


@dataclass(frozen=True)
class ThreeWay:
    """What a branch and its parent did since the fork.

    `blame` says which of the parent's versions touched a fragment, `operations` which operation
    made each of the parent's versions since the fork (None where that is gone).
    """

    branch: Changes
    parent: Changes
    blame: Callable[[int], str]
    operations: Callable[[], Mapping[int, str | None]]

    @property
    def fork(self) -> Snapshot:
        return self.branch.old

    @property
    def ours(self) -> Snapshot:
        return self.branch.new

    @property
    def theirs(self) -> Snapshot:
        return self.parent.new


def compare(old: Snapshot, new: Snapshot) -> Changes:
    """Reads the deletion vectors of the fragments whose deletion files differ, and no others."""
    pairs = {one: _heir(fragment, new) for one, fragment in old.fragments.items()}
    kept = {one: heir for one, heir in pairs.items() if heir is not None}
    changes = {one: _change(old, new, old.fragments[one], heir) for one, heir in kept.items()}
    return Changes(
        old=old,
        new=new,
        removed={one: old.fragments[one] for one, heir in pairs.items() if heir is None},
        added=tuple(fragment for one, fragment in new.fragments.items() if one not in kept),
        changed={
            one: change
            for one, change in changes.items()
            if change.files_changed or change.deleted or change.restored
        },
    )


def difference(changes: Changes) -> Difference:
    """The changes in numbers and names."""
    struck = sum(len(change.deleted) for change in changes.changed.values())
    gone = {uri for one in changes.old.fragments.values() for uri in one.uris} - {
        uri for one in changes.new.fragments.values() for uri in one.uris
    }
    return Difference(
        fragments_added=len(changes.added),
        fragments_removed=len(changes.removed),
        fragments_changed=len(changes.changed),
        rows_added=sum(one.rows for one in changes.added)
        + sum(len(change.restored) for change in changes.changed.values()),
        rows_removed=sum(one.rows for one in changes.removed.values()) + struck,
        files_added=tuple(sorted(file.uri for file in changes.new_files())),
        files_removed=tuple(sorted(gone)),
        schema=schema_change(changes.old, changes.new),
    )


def schema_change(old: Snapshot, new: Snapshot) -> SchemaChange:
    """The columns that one snapshot has and the other has not, or has otherwise."""
    both = old.fields.keys() & new.fields.keys()
    altered = (one for one in both if old.fields[one].raw != new.fields[one].raw)
    return SchemaChange(
        added=_names(new, new.fields.keys() - both),
        dropped=_names(old, old.fields.keys() - both),
        altered=_names(new, altered),
    )


def _names(snapshot: Snapshot, identities: Iterable[int]) -> tuple[str, ...]:
    return tuple(sorted(_path(snapshot, one) for one in identities))


def _path(snapshot: Snapshot, identity: int) -> str:
    field = snapshot.fields[identity]
    if field.parent not in snapshot.fields:
        return field.name
    return f"{_path(snapshot, field.parent)}.{field.name}"


def _heir(fragment: StoredFragment, new: Snapshot) -> StoredFragment | None:
    """What a fragment has become: it keeps its number, its rows, and a file if it had any."""
    heir = new.fragments.get(fragment.identity)
    if heir is None or heir.physical_rows != fragment.physical_rows:
        return None
    return heir if not fragment.files or fragment.uris & heir.uris else None


def _change(
    old: Snapshot, new: Snapshot, before: StoredFragment, after: StoredFragment
) -> FragmentChange:
    if before.deletion == after.deletion:
        return FragmentChange(before, after)
    struck, strikes = old.deleted(before), new.deleted(after)
    return FragmentChange(before, after, deleted=strikes - struck, restored=struck - strikes)
