"""The one place that calls pylance: whatever writes a manifest is left to the reference writer.

pylance's errors are untyped, so they are passed on as StorageError and never interpreted; callers
look at the storage to learn what happened.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from airflow_provider_lancerefs.refstore import layout
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.errors import ConflictError, StorageError
from airflow_provider_lancerefs.refstore.manifest import Columns, rewrite_base_paths
from airflow_provider_lancerefs.refstore.models import Version
from airflow_provider_lancerefs.refstore.names import MAIN
from airflow_provider_lancerefs.refstore.plans import PublishStep
from airflow_provider_lancerefs.refstore.versions import read_manifest_file

if TYPE_CHECKING:
    import lance
    import lance.fragment

Opened: TypeAlias = "lance.LanceDataset"


def clone(source: Dataset, version: Version, target: Dataset, branch: str, identity: str) -> None:
    """Commit a shallow clone of a version as the first manifest of a place that has none.

    The target is a branch of the source dataset, or another dataset's root (`branch` is main).
    `identity`, a UUID, becomes the transaction's own, by which the clone is known afterwards.
    Raises StorageError if pylance refuses, which it does where the target has a manifest already.
    """
    if source.uri.startswith("memory://"):
        _clone_in_memory(source, version, target, branch, identity)
        return
    _commit_clone(
        source.at(layout.branch_root(version.branch)),
        version,
        target.at(layout.branch_root(branch)),
        branch,
        identity,
        dict(source.storage_options),
    )


def _commit_clone(
    source_uri: str,
    version: Version,
    target_uri: str,
    branch: str,
    identity: str,
    options: dict[str, str],
) -> None:
    import lance

    operation = lance.LanceOperation.Clone(
        is_shallow=True,
        ref_name=None if version.branch == MAIN else version.branch,
        ref_version=version.number,
        ref_path=source_uri,
        branch_name=None if branch == MAIN else branch,
    )
    try:
        committed = lance.LanceDataset.commit(
            target_uri,
            lance.Transaction(version.number, operation, uuid=identity),
            storage_options=options or None,
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise StorageError(
            f"pylance could not clone {version} to {target_uri}.", ref=branch
        ) from error
    if committed.version != version.number:
        raise StorageError(
            f"pylance cloned {version} to {target_uri} as version {committed.version}.", ref=branch
        )


def _clone_in_memory(
    source: Dataset, version: Version, target: Dataset, branch: str, identity: str
) -> None:
    """pylance cannot reach this process's memory file system: clone on disk, and carry it over."""
    path, manifest = read_manifest_file(source.storage, version)
    with tempfile.TemporaryDirectory(prefix="lancerefs-") as folder:
        staged_source, staged_target = Path(folder, "source"), Path(folder, "target")
        staged_manifest = staged_source / path
        staged_manifest.parent.mkdir(parents=True)
        staged_manifest.write_bytes(manifest.data)
        target_root = layout.branch_root(branch)
        if target.storage.list(layout.versions_folder(branch), limit=1):
            raise StorageError(f"{target.uri} has versions already.", ref=branch)
        _commit_clone(
            str(staged_source / layout.branch_root(version.branch)),
            version,
            str(staged_target / target_root),
            branch,
            identity,
            {},
        )
        for file in sorted(staged_target.rglob("*")):
            if not file.is_file():
                continue
            data = file.read_bytes()
            relative = file.relative_to(staged_target).as_posix()
            if layout.manifest_number(relative) is not None:
                data = rewrite_base_paths(
                    data, str(version), lambda base: base.replace(str(staged_source), source.uri, 1)
                )
            target.storage.put_new(relative, data)


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A data file as the new version's manifest is to name it."""

    path: str
    base_id: int | None
    columns: Columns
    size: int | None


@dataclass(frozen=True, slots=True)
class NamedVector:
    """A deletion file as the new version's manifest is to name it: a Roaring bitmap."""

    read_version: int
    identity: int
    rows: int


@dataclass(frozen=True, slots=True)
class NamedFragment:
    """A fragment to commit. Where it stands already, None means 'as it is there'."""

    identity: int
    physical_rows: int
    files: tuple[NamedFile, ...] | None = None
    vector: NamedVector | None = None
    row_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Landing:
    """One commit on a branch: which operation, on which version, with which fragments.

    `removed` may name a fragment that never was: two commits that name it exclude each other.
    `schema_of` is the version whose columns are committed too, where the operation takes any, and
    `fields_kept` are the ids of those.
    """

    step: PublishStep
    branch: str
    read_version: int
    removed: tuple[int, ...] = ()
    changed: tuple[NamedFragment, ...] = ()
    added: tuple[NamedFragment, ...] = ()
    fields_modified: tuple[int, ...] = ()
    schema_of: Version | None = None
    fields_kept: frozenset[int] = frozenset()


def open_head(dataset: Dataset, branch: str) -> Opened:
    """A branch's newest version, through which several commits can be made."""
    try:
        return _open(dataset, branch, None)
    except (OSError, ValueError, RuntimeError) as error:
        raise StorageError(f"pylance could not open {branch} ({error}).", ref=branch) from error


def land(
    dataset: Dataset,
    landing: Landing,
    identity: str,
    properties: Mapping[str, str],
    *,
    through: Opened | None = None,
) -> int:
    """Commit once, and return the version; others may have come between it and the one it read.

    `through` is the branch as it was opened before, so that it need not be opened again. Lance does
    not look whether the very version that is open still stands, only whether a later one does.
    Raises ConflictError where somebody else was quicker, which may have been an earlier try of the
    same request, and StorageError if pylance refuses, or cannot say what became of it.
    """
    import lance
    import lance.commit

    target = through or dataset.at(layout.branch_root(landing.branch))
    try:
        transaction = lance.Transaction(
            landing.read_version,
            _operation(dataset, landing, through),
            uuid=identity,
            transaction_properties=dict(properties),
        )
        committed = lance.LanceDataset.commit(
            target, transaction, storage_options=_options(dataset), max_retries=0
        )
    except lance.commit.CommitConflictError as error:
        raise ConflictError(
            f"Somebody else changed {landing.branch} meanwhile ({error}).", ref=landing.branch
        ) from error
    except (OSError, ValueError, RuntimeError) as error:
        raise StorageError(
            f"pylance did not commit to {landing.branch} ({error}).", ref=landing.branch
        ) from error
    version: int = committed.version
    return version


def optimize_indices(dataset: Dataset, branch: str) -> int:
    """Bring new fragments into a branch's indices; its version then."""
    try:
        opened = _open(dataset, branch, None)
        opened.optimize.optimize_indices()
    except (OSError, ValueError, RuntimeError) as error:
        raise StorageError(
            f"pylance did not optimize the indices of {branch} ({error}).", ref=branch
        ) from error
    version: int = opened.version
    return version


def _operation(
    dataset: Dataset, landing: Landing, through: Opened | None
) -> lance.LanceOperation.BaseOperation:
    import lance

    added = [_new_fragment(fragment) for fragment in landing.added]
    if landing.schema_of is None:
        return lance.LanceOperation.Update(
            removed_fragment_ids=list(landing.removed),
            updated_fragments=_changed_fragments(dataset, landing, through),
            new_fragments=added,
            fields_modified=list(landing.fields_modified),
        )
    schema = _open(dataset, landing.schema_of.branch, landing.schema_of.number).lance_schema
    if landing.step is PublishStep.PROJECT:
        return lance.LanceOperation.Project(schema)
    if landing.step is PublishStep.OVERWRITE:
        return lance.LanceOperation.Overwrite(schema, added)
    kept = [_without_dead_files(one, landing) for one in _all_fragments(dataset, landing, through)]
    return lance.LanceOperation.Merge([*kept, *added], schema)


def _changed_fragments(
    dataset: Dataset, landing: Landing, through: Opened | None
) -> list[lance.fragment.FragmentMetadata]:
    if not landing.changed:
        return []
    changed = {fragment.identity for fragment in landing.changed}
    return [one for one in _all_fragments(dataset, landing, through) if one.id in changed]


def _all_fragments(
    dataset: Dataset, landing: Landing, through: Opened | None
) -> list[lance.fragment.FragmentMetadata]:
    """The fragments of the version that the commit reads, as they are to be."""
    if through is None:
        opened = _open(dataset, landing.branch, landing.read_version)
    else:
        opened = through.checkout_version(landing.read_version)
    changes = {fragment.identity: fragment for fragment in landing.changed}
    found = (fragment.metadata for fragment in opened.get_fragments())
    return [_changed_fragment(one, changes[one.id]) if one.id in changes else one for one in found]


def _changed_fragment(
    there: lance.fragment.FragmentMetadata, change: NamedFragment
) -> lance.fragment.FragmentMetadata:
    return replace(
        there,
        files=there.files if change.files is None else [_data_file(one) for one in change.files],
        deletion_file=_deletion_file(change.vector) if change.vector else there.deletion_file,
    )


def _without_dead_files(
    fragment: lance.fragment.FragmentMetadata, landing: Landing
) -> lance.fragment.FragmentMetadata:
    """Lance calls a fragment damaged that has a file of which no column is left."""
    living = [one for one in fragment.files if landing.fields_kept & {*one.fields}]
    return replace(fragment, files=living)


def _new_fragment(fragment: NamedFragment) -> lance.fragment.FragmentMetadata:
    import lance

    return lance.fragment.FragmentMetadata(
        id=fragment.identity,
        files=[_data_file(one) for one in fragment.files or ()],
        physical_rows=fragment.physical_rows,
        deletion_file=_deletion_file(fragment.vector) if fragment.vector else None,
        row_id_meta=lance.fragment.RowIdSequence(fragment.row_ids).to_inline_metadata()
        if fragment.row_ids
        else None,
    )


def _data_file(file: NamedFile) -> lance.fragment.DataFile:
    import lance

    return lance.fragment.DataFile(
        file.path,
        list(file.columns.fields),
        list(file.columns.indices),
        *file.columns.file_version,
        file_size_bytes=file.size,
        base_id=file.base_id,
    )


def _deletion_file(vector: NamedVector) -> lance.fragment.DeletionFile:
    import lance

    return lance.fragment.DeletionFile(
        vector.read_version, vector.identity, "bitmap", vector.rows, None
    )


def _open(dataset: Dataset, branch: str, version: int | None) -> Opened:
    import lance

    return lance.dataset(
        dataset.at(layout.branch_root(branch)), version=version, storage_options=_options(dataset)
    )


def _options(dataset: Dataset) -> dict[str, str] | None:
    return dict(dataset.storage_options) or None
