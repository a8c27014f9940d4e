"""The one place that calls pylance: whatever writes a manifest is left to the reference writer.

pylance's errors are untyped, so they are passed on as StorageError and never interpreted; callers
look at the storage to learn what happened.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from airflow_provider_lancerefs.refstore import layout
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.errors import StorageError
from airflow_provider_lancerefs.refstore.manifest import rewrite_base_paths
from airflow_provider_lancerefs.refstore.models import Version
from airflow_provider_lancerefs.refstore.names import MAIN
from airflow_provider_lancerefs.refstore.versions import read_manifest_file


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
