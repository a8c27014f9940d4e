"""Where every file of a version is, through any number of base paths."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_lancerefs.refstore import layout, versions
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.manifest import FileRef, IndexRef, Manifest
from airflow_provider_lancerefs.refstore.models import DatasetFile, FileKind, Version

_KINDS: dict[str, FileKind] = {
    layout.DATA: "data",
    layout.DELETIONS: "deletion",
    layout.INDICES: "index",
}


def files_of(dataset: Dataset, version: Version) -> list[DatasetFile]:
    """Every data, deletion and index file that a version needs, each once.

    One request for the manifest, and a listing for each index whose manifest entry names no files.
    """
    manifest = versions.read_manifest(dataset.storage, version)
    return resolve_files(dataset, version, manifest)


def resolve_files(dataset: Dataset, version: Version, manifest: Manifest) -> list[DatasetFile]:
    """The files of a manifest that was read already."""
    home = dataset.at(layout.branch_root(version.branch))
    found = {manifest.resolve(file, home): file for file in file_refs(dataset, manifest, home)}
    return [
        DatasetFile(_KINDS[file.folder], uri, file.size, file.base_id)
        for uri, file in found.items()
    ]


def file_refs(dataset: Dataset, manifest: Manifest, home: str) -> list[FileRef]:
    """The files of a manifest as it names them, with those of every index folder."""
    refs = list(manifest.files)
    for index in manifest.indices:
        refs += index.files or _listed(dataset, manifest, index, home)
    return refs


def _listed(dataset: Dataset, manifest: Manifest, index: IndexRef, home: str) -> list[FileRef]:
    folder = FileRef(layout.INDICES, index.identity, index.base_id)
    below = dataset.elsewhere(manifest.resolve(folder, home))
    return [
        replace(folder, path=f"{index.identity}/{entry.path}", size=entry.size)
        for entry in below.storage.list("")
    ]
