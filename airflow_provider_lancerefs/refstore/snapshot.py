"""One version of a branch as publishing sees it: fragments, their files by absolute URI, and which
rows are deleted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_lancerefs.refstore import layout, rowids, rowsets, versions
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.errors import FormatError
from airflow_provider_lancerefs.refstore.manifest import (
    BasePath,
    Columns,
    Feature,
    FileRef,
    Fragment,
    Manifest,
    SchemaField,
)
from airflow_provider_lancerefs.refstore.models import Version
from airflow_provider_lancerefs.refstore.rowsets import RowSet
from airflow_provider_lancerefs.refstore.storage import normalise_uri


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A data file: the same wherever it is named from."""

    uri: str
    columns: Columns
    size: int | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return self.uri.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class StoredFragment:
    """A fragment whose files are known by where they are."""

    identity: int
    physical_rows: int
    files: tuple[StoredFile, ...]
    deleted_rows: int = 0
    deletion: str | None = None
    row_ids: bytes = b""
    plain: bool = True

    @property
    def rows(self) -> int:
        return self.physical_rows - self.deleted_rows

    @property
    def uris(self) -> set[str]:
        return {file.uri for file in self.files}

    @property
    def field_ids(self) -> set[int]:
        return {one for file in self.files for one in file.columns.fields if one >= 0}

    def where(self) -> dict[int, str]:
        """In which file each of its fields is; a dropped column is no field any more."""
        return {one: file.uri for file in self.files for one in file.columns.fields if one >= 0}

    def stable_row_ids(self) -> Sequence[int]:
        return rowids.decode(self.row_ids)


@dataclass(frozen=True)
class Snapshot:
    """A version's fragments by number. Deletion vectors are read when they are asked for."""

    version: Version
    home: str
    manifest: Manifest
    fragments: Mapping[int, StoredFragment]
    load: Callable[[str], RowSet] = field(repr=False, compare=False)

    @property
    def stable(self) -> bool:
        return bool(self.manifest.reader_flags & Feature.STABLE_ROW_IDS)

    @property
    def bases(self) -> list[tuple[int | None, str, bool]]:
        """Where its files may be: the base's number, its place, and whether that is a dataset."""
        return [
            (None, self.home, True),
            *((number, _place(base), base.is_dataset_root) for number, base in self._bases()),
        ]

    @functools.cached_property
    def fields(self) -> dict[int, SchemaField]:
        return {one.identity: one for one in self.manifest.fields}

    @property
    def schema(self) -> tuple[tuple[bytes, ...], tuple[tuple[str, bytes], ...]]:
        """All that can be told of the columns, for comparing."""
        raw = tuple(one.raw for one in self.manifest.fields)
        return raw, tuple(sorted(self.manifest.schema_metadata.items()))

    def deleted(self, fragment: StoredFragment) -> RowSet:
        """Which rows of a fragment are deleted; raises FormatError where that cannot be read."""
        if fragment.deletion is None:
            return RowSet()
        rows = self.load(fragment.deletion)
        if len(rows) != fragment.deleted_rows:
            raise FormatError(
                f"{fragment.deletion} strikes out {len(rows)} rows where {self.version} says "
                f"{fragment.deleted_rows}: the dataset is damaged.",
                ref=fragment.deletion,
            )
        return rows

    def _bases(self) -> list[tuple[int, BasePath]]:
        return sorted(self.manifest.bases.items())


def read_snapshot(dataset: Dataset, version: Version) -> Snapshot:
    """The snapshot of a version, in one request."""
    return snapshot_of(dataset, version, versions.read_manifest(dataset.storage, version))


def snapshot_of(dataset: Dataset, version: Version, manifest: Manifest) -> Snapshot:
    """The snapshot of a manifest that was read already."""
    home = dataset.at(layout.branch_root(version.branch))

    def place(file: FileRef) -> str:
        return normalise_uri(manifest.resolve(file, home))

    return Snapshot(
        version=version,
        home=home,
        manifest=manifest,
        fragments={one.identity: _stored(one, place) for one in manifest.fragments},
        load=functools.cache(functools.partial(_read_vector, dataset)),
    )


def _stored(fragment: Fragment, place: Callable[[FileRef], str]) -> StoredFragment:
    return StoredFragment(
        identity=fragment.identity,
        physical_rows=fragment.physical_rows,
        files=tuple(StoredFile(place(file), file.columns, file.size) for file in fragment.data),
        deleted_rows=fragment.deleted_rows,
        deletion=place(fragment.deletion) if fragment.deletion else None,
        row_ids=fragment.row_ids,
        plain=fragment.plain,
    )


def _read_vector(dataset: Dataset, uri: str) -> RowSet:
    storage, path = dataset.reach(uri)
    blob = storage.read(path)
    if blob is None:
        raise FormatError(f"The deletion file {uri} is missing: restore it from a copy.", ref=uri)
    return rowsets.decode(blob.data, uri)


def _place(base: BasePath) -> str:
    return normalise_uri(base.path)
