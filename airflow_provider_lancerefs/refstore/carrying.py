"""The files that a publish brings to the parent: copied data files and new deletion files.

Every attempt names its files as no other does, so it may take back its own, and nobody trips over
another's. A cleanup of the parent may remove them before the commit that needs them: whoever
commits looks at them once more.
"""

from __future__ import annotations

import io
import posixpath
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace

from airflow_provider_lancerefs.refstore import layout, rowsets
from airflow_provider_lancerefs.refstore.committing import (
    Landing,
    NamedFile,
    NamedFragment,
    NamedVector,
)
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.errors import StorageError
from airflow_provider_lancerefs.refstore.planning import Draft, Touch, place
from airflow_provider_lancerefs.refstore.plans import PublishStep
from airflow_provider_lancerefs.refstore.progress import Progress
from airflow_provider_lancerefs.refstore.rowsets import RowSet
from airflow_provider_lancerefs.refstore.snapshot import StoredFile
from airflow_provider_lancerefs.refstore.storage import Entry, Storage
from airflow_provider_lancerefs.refstore.storage.concurrency import side_by_side

_PARALLEL = 8
_FEW = 16
_SMALL_FOLDER = 100
_ATTEMPT_LENGTH = 32
_IDENTITY_BITS = 63


@dataclass
class Cargo:
    """What one attempt brings along, by the URIs it will have, and how the commit names it."""

    dataset: Dataset
    draft: Draft
    attempt: str
    read_version: int
    copies: dict[str, StoredFile] = field(default_factory=dict)
    vectors: dict[str, bytes] = field(default_factory=dict)

    @property
    def uris(self) -> list[str]:
        return [*self.copies, *self.vectors]

    def reservation(self) -> tuple[NamedFragment, ...]:
        """A fragment of as many rows as row ids are wanted, all of them deleted.

        Lance gives the rows ids and drops the fragment.
        """
        wanted = self.draft.ids_to_reserve
        if not wanted:
            return ()
        identity = self._first_identity() + len(self.draft.added)
        files = tuple(self._named(file) for file in self.draft.added[0].files)
        vector = self._vector(identity, RowSet.first(wanted))
        return (NamedFragment(identity, wanted, files, vector),)

    def landing(self, fence: int) -> Landing:
        """The commit, but for the row ids that are reserved for it."""
        step, ours = self.draft.step, self.draft.both.ours
        removed = [*self.draft.removed]
        changed = []
        for touch in self.draft.touched:
            struck = self._struck(touch)
            if step is PublishStep.UPDATE and len(struck or ()) == touch.fragment.physical_rows:
                removed.append(touch.fragment.identity)
            else:
                changed.append(self._touched(touch, struck))
        if step is PublishStep.MERGE:
            changed += [self._emptied(number) for number in self.draft.removed]
        return Landing(
            step=step,
            branch=self.draft.both.theirs.version.branch,
            read_version=self.read_version,
            removed=(*removed, fence),
            changed=tuple(changed),
            added=tuple(self._added()),
            fields_modified=self.draft.fields_modified,
            schema_of=None if step is PublishStep.UPDATE else ours.version,
            fields_kept=frozenset(ours.fields),
        )

    def with_reserved(self, landing: Landing, reserved: Iterable[int]) -> Landing:
        """The commit with the row ids that were reserved for its new rows."""
        if not self.draft.ids_to_reserve:
            return landing
        free = iter(reserved)
        pairs = zip(landing.added, self.draft.row_ids, strict=True)
        return replace(
            landing, added=tuple(replace(one, row_ids=said.filled(free)) for one, said in pairs)
        )

    def _first_identity(self) -> int:
        theirs = self.draft.both.theirs
        return max(theirs.manifest.max_fragment_id, *theirs.fragments, 0) + 1

    def _struck(self, touch: Touch) -> RowSet | None:
        """All rows deleted on either side, or None where the branch deleted none."""
        if touch.deleted is None:
            return None
        return touch.deleted | self.draft.both.theirs.deleted(touch.fragment)

    def _touched(self, touch: Touch, struck: RowSet | None) -> NamedFragment:
        number = touch.fragment.identity
        return NamedFragment(
            identity=number,
            physical_rows=touch.fragment.physical_rows,
            files=None if touch.files is None else tuple(map(self._named, touch.files)),
            vector=None if struck is None else self._vector(number, struck),
        )

    def _emptied(self, number: int) -> NamedFragment:
        """A merge may leave no fragment out; one without rows is dropped by Lance."""
        rows = self.draft.both.theirs.fragments[number].physical_rows
        return NamedFragment(number, rows, vector=self._vector(number, RowSet.first(rows)))

    def _added(self) -> Iterator[NamedFragment]:
        keeps_ids = self.draft.both.theirs.stable and self.draft.step is not PublishStep.MERGE
        pairs = zip(self.draft.added, self.draft.row_ids, strict=True)
        for number, (fragment, said) in enumerate(pairs, self._first_identity()):
            dead = self.draft.both.ours.deleted(fragment)
            yield NamedFragment(
                identity=number,
                physical_rows=fragment.physical_rows,
                files=tuple(map(self._named, fragment.files)),
                vector=self._vector(number, dead) if dead else None,
                row_ids=(said.kept or None) if keeps_ids else None,
            )

    def _named(self, file: StoredFile) -> NamedFile:
        name = f"{self.attempt}-{file.name}"
        placed = place(file.uri, self.draft, self.dataset.uri, name)
        if placed is None:
            raise StorageError(f"The parent has no base path for {file.uri}.", ref=file.uri)
        if placed.copy_to is not None:
            self.copies[placed.copy_to] = file
        return NamedFile(placed.path, placed.base_id, file.columns, file.size)

    def _vector(self, fragment: int, rows: RowSet) -> NamedVector:
        theirs = self.draft.both.theirs
        vector = NamedVector(theirs.version.number, random.getrandbits(_IDENTITY_BITS), len(rows))
        name = layout.deletion_name(fragment, vector.read_version, vector.identity, bitmap=True)
        self.vectors[f"{theirs.home}/{layout.DELETIONS}/{name}"] = rowsets.encode(rows)
        return vector


def carry(cargo: Cargo, progress: Progress, keep: Callable[[], None]) -> None:
    """Bring the files of a new attempt, none of which is there yet, and check their sizes.

    `keep` is called between files, for whoever must not seem dead.
    """
    _bring_all(cargo, cargo.uris, progress, keep)


def mend(cargo: Cargo, progress: Progress) -> None:
    """Bring again what a cleanup removed before it was committed, which needs no lease any more."""
    there = sizes_of(cargo.dataset, cargo.uris)
    _bring_all(cargo, [uri for uri in cargo.uris if uri not in there], progress, lambda: None)


def _bring_all(
    cargo: Cargo, wanted: Sequence[str], progress: Progress, keep: Callable[[], None]
) -> None:
    if not wanted:
        return
    with ThreadPoolExecutor(_PARALLEL) as pool:
        running = [pool.submit(_bring, cargo, uri) for uri in wanted]
        for done, one in enumerate(as_completed(running)):
            progress("copying files", done, len(wanted))
            one.result()
            keep()
    _check_sizes(cargo)


def take_back(cargo: Cargo) -> None:
    """Remove the attempt's files; only for one whose commit is known not to have landed."""
    for storage, entries in found_entries(cargo.dataset, cargo.uris):
        storage.delete_many(entries)


def sizes_of(dataset: Dataset, uris: Iterable[str]) -> Mapping[str, int]:
    """How large each file is that is there."""
    return {uri: entry.size for _, found in _located(dataset, uris) for uri, entry in found.items()}


def found_entries(dataset: Dataset, uris: Iterable[str]) -> Iterator[tuple[Storage, list[Entry]]]:
    for storage, found in _located(dataset, uris):
        yield storage, [*found.values()]


def _located(dataset: Dataset, uris: Iterable[str]) -> Iterator[tuple[Storage, dict[str, Entry]]]:
    """The files that are there, by folder."""
    folders: dict[str, set[str]] = defaultdict(set)
    for uri in uris:
        folders[uri.rpartition("/")[0]].add(uri)
    for wanted in folders.values():
        paths = {dataset.reach(uri)[1]: uri for uri in wanted}
        storage, _ = dataset.reach(next(iter(wanted)))
        entries = _listed(storage, [*paths])
        yield storage, {paths[one.path]: one for one in entries if one.path in paths}


def _listed(storage: Storage, paths: Sequence[str]) -> Iterable[Entry]:
    """Entries of one folder with those of the paths among them, by as little as can be listed.

    An attempt's files are listed by what their names begin with; a few files in a large folder one
    by one, side by side.
    """
    common = posixpath.commonprefix(paths)
    folder = paths[0][: paths[0].rfind("/") + 1]
    if len(paths) == 1 or len(common) >= len(folder) + _ATTEMPT_LENGTH:
        return storage.list(common)
    if len(paths) > _FEW:
        return storage.list(folder)
    some = storage.list(folder, limit=_SMALL_FOLDER)
    if len(some) < _SMALL_FOLDER:
        return some
    with side_by_side(storage) as pool:
        return [entry for found in pool.map(storage.list, paths) for entry in found]


def _bring(cargo: Cargo, uri: str) -> None:
    if uri in cargo.copies:
        copy(cargo.dataset, cargo.copies[uri].uri, uri)
        return
    storage, path = cargo.dataset.reach(uri)
    storage.upload(path, io.BytesIO(cargo.vectors[uri]))


def copy(dataset: Dataset, source: str, target: str) -> None:
    """Copy a file to where it is to be, store-side where that goes."""
    from_storage, from_path = dataset.reach(source)
    to_storage, to_path = dataset.reach(target)
    from_storage.copy(from_path, to_storage, to_path)


def _check_sizes(cargo: Cargo) -> None:
    there = sizes_of(cargo.dataset, cargo.uris)
    for uri, source in cargo.copies.items():
        if uri not in there or (source.size and source.size != there[uri]):
            raise StorageError(
                f"The copy of {source.uri} came to {there.get(uri, 0)} bytes instead of "
                f"{source.size}: try again.",
                ref=uri,
            )
