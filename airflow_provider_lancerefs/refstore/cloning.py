"""Datasets in other places: shallow clones that pin their source, and relocated copies."""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from airflow_provider_lancerefs.refstore import files, layout, refs, tagging, versions
from airflow_provider_lancerefs.refstore.branching import check_source
from airflow_provider_lancerefs.refstore.committing import clone
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    FormatError,
    InvalidInputError,
    StorageError,
)
from airflow_provider_lancerefs.refstore.manifest import (
    Manifest,
    parse_manifest,
    rewrite_base_paths,
)
from airflow_provider_lancerefs.refstore.models import PIN_KEY, Tag, Version
from airflow_provider_lancerefs.refstore.names import MAIN
from airflow_provider_lancerefs.refstore.progress import Progress
from airflow_provider_lancerefs.refstore.revision import Revision, parse_revision
from airflow_provider_lancerefs.refstore.storage import Storage
from airflow_provider_lancerefs.refstore.storage.concurrency import side_by_side

_PARALLEL = 8


def pin_name(target_uri: str) -> str:
    """The tag that keeps a clone's source version: one for each place, so a retry finds it."""
    return f"clone-{hashlib.sha256(target_uri.encode()).hexdigest()[:16]}"


def shallow_clone(dataset: Dataset, target_uri: str, revision: str | Revision | Version) -> Version:
    """Pin a version, then clone it. The pin comes first and is looked at again afterwards, so that
    no clone is ever without one; it is a protected tag, and deleting it is the user's own act.
    """
    target = _other_place(dataset, target_uri)
    wanted = parse_revision(revision) if isinstance(revision, str) else revision
    name = pin_name(target_uri)
    with side_by_side(dataset.storage) as pool:
        resolving = pool.submit(versions.resolve, dataset.storage, wanted)
        finding = pool.submit(refs.find_tag, dataset.storage, name)
        looking = pool.submit(versions.find_head, target.storage, MAIN)
    version, pin, head = resolving.result(), finding.result(), looking.result()
    if pin is not None and isinstance(wanted, Revision) and not wanted.pinned:
        version = pin.target if pin.branch == version.branch else version
    if head is not None:
        return _existing_clone(dataset, target, version, pin)
    made = pin is None
    pin = tagging.create_tag(dataset, name, version, {PIN_KEY: target_uri}, protected=True)
    try:
        clone(dataset, version, target, MAIN, str(uuid.uuid4()))
    except StorageError:
        if versions.find_head(target.storage, MAIN) is not None:
            return _existing_clone(dataset, target, version, pin)
        if made:
            _unpin(dataset, target, pin)
        check_source(dataset, version)
        raise
    with side_by_side(target.storage) as pool:
        cloned = pool.submit(versions.exact, target.storage, MAIN, version.number)
        _keep_pinned(dataset, version, target_uri)
    return cloned.result()


def _unpin(dataset: Dataset, target: Dataset, pin: Tag) -> None:
    """Take back the pin of a clone that came to nothing, unless a twin's came to something."""
    refs.remove(dataset.storage, pin)
    if versions.find_head(target.storage, MAIN) is not None:
        _keep_pinned(dataset, pin.target, target.uri)


@dataclass(frozen=True, slots=True)
class _Copy:
    source: Storage
    source_path: str
    target: Storage
    target_path: str


def relocate(
    dataset: Dataset,
    target_uri: str,
    revision: str | Revision | Version,
    bases: Mapping[str, str],
    progress: Progress,
) -> Version:
    """Copy one version to a place of its own: its files, those of the bases that move, and last of
    all its manifest with `base_paths` re-pointed. A base that is not named stays where it is; if it
    is this dataset's own, the version is pinned, as for a clone.

    Raises FormatError for features whose files may name bases of their own, and AlreadyExistsError
    where another dataset stands at the target.
    """
    target = _other_place(dataset, target_uri)
    version = versions.resolve(dataset.storage, revision)
    path, blob = versions.read_manifest_file(dataset.storage, version)
    manifest = parse_manifest(blob.data, str(version))
    _check_movable(manifest, version)
    _check_bases(manifest, bases)
    moved = rewrite_base_paths(
        blob.data, str(version), lambda base: bases.get(base.rstrip("/"), base), as_root=True
    )
    target_path = layout.manifest_path(MAIN, version.number, v2=layout.is_v2_manifest(path))
    _check_vacant(target, target_path, moved)
    if any(_is_below(base, dataset.uri) for base in _left_behind(manifest, bases)):
        _keep_pinned(dataset, version, target_uri)
    progress("listing files")
    copies = _copies(dataset, target, version, manifest, bases)
    _copy_all(copies, progress)
    with contextlib.suppress(AlreadyExistsError):
        target.storage.put_new(target_path, moved)
    _check_vacant(target, target_path, moved)
    return Version(MAIN, version.number, len(moved))


def _other_place(dataset: Dataset, target_uri: str) -> Dataset:
    if _is_below(target_uri, dataset.uri) or _is_below(dataset.uri, target_uri):
        raise InvalidInputError(
            f"{target_uri} and the dataset {dataset.uri} would lie inside each other: choose "
            "another place."
        )
    return dataset.elsewhere(target_uri)


def _existing_clone(
    dataset: Dataset, target: Dataset, version: Version, pin: Tag | None
) -> Version:
    """What stands at the target, if it is the clone that was asked for."""
    if pin is None or not _is_clone(dataset, target, pin):
        raise AlreadyExistsError(
            f"A dataset stands at {target.uri} already: choose another place, or delete it first.",
            ref=target.uri,
        )
    if (pin.branch, pin.version) != (version.branch, version.number):
        raise AlreadyExistsError(
            f"{target.uri} is a clone of {pin.target} already, not of {version}: choose another "
            "place, or delete it first.",
            ref=target.uri,
        )
    _keep_pinned(dataset, version, target.uri)
    return versions.head(target.storage, MAIN)


def _is_clone(dataset: Dataset, target: Dataset, pin: Tag) -> bool:
    """Whether the dataset at the target was forked from the pinned version."""
    there = versions.list_manifests(target.storage, MAIN)
    if pin.metadata.get(PIN_KEY) != target.uri or not there or min(there) < pin.version:
        return False
    manifest = versions.read_manifest(target.storage, Version(MAIN, max(there), 0))
    source = dataset.at(layout.branch_root(pin.branch))
    return any(base.path.rstrip("/") == source for base in manifest.bases.values())


def _keep_pinned(dataset: Dataset, version: Version, target_uri: str) -> None:
    """Write, then look: another caller whose own clone failed may have taken the pin away."""
    if refs.find_tag(dataset.storage, pin_name(target_uri)) is None:
        tagging.create_tag(
            dataset, pin_name(target_uri), version, {PIN_KEY: target_uri}, protected=True
        )


def _check_movable(manifest: Manifest, version: Version) -> None:
    if not manifest.movable:
        raise FormatError(
            f"{version} has an index that may name base paths of its own: it cannot be relocated.",
            kind=ErrorKind.UNSUPPORTED_FEATURE,
        )


def _check_bases(manifest: Manifest, bases: Mapping[str, str]) -> None:
    known = {base.path.rstrip("/") for base in manifest.bases.values()}
    for base in bases:
        if base not in known:
            has = ", ".join(sorted(known)) or "none"
            raise InvalidInputError(f"{base} is not a base path of this version; it has: {has}.")


def _check_vacant(target: Dataset, manifest_path: str, manifest: bytes) -> None:
    """Nothing stands at the target but what an earlier run of the same call left."""
    there = versions.list_manifests(target.storage, MAIN)
    blob = target.storage.read(manifest_path) if there else None
    if there and (len(there) > 1 or blob is None or blob.data != manifest):
        raise AlreadyExistsError(
            f"A dataset stands at {target.uri} already: choose another place, or delete it first.",
            ref=target.uri,
        )


def _left_behind(manifest: Manifest, bases: Mapping[str, str]) -> list[str]:
    """The base paths that the copy goes on reading."""
    paths = (base.path.rstrip("/") for base in manifest.bases.values())
    return [path for path in paths if path not in bases]


def _is_below(path: str, root: str) -> bool:
    return f"{path}/".startswith(f"{root}/")


def _copies(
    dataset: Dataset,
    target: Dataset,
    version: Version,
    manifest: Manifest,
    bases: Mapping[str, str],
) -> list[_Copy]:
    """What has to be copied from where to where: own files, and those of bases that move."""
    home = layout.branch_root(version.branch)
    copies = {}
    if manifest.transaction_file:
        name = f"{layout.TRANSACTIONS}/{manifest.transaction_file}"
        source = f"{home}/{name}" if home else name
        if dataset.storage.list(source, limit=1):
            copies[name] = _Copy(dataset.storage, source, target.storage, name)
    places = {
        base.identity: (dataset.elsewhere(base.path.rstrip("/")), dataset.elsewhere(new))
        for base in manifest.bases.values()
        if (new := bases.get(base.path.rstrip("/"))) is not None
    }
    for file in files.file_refs(dataset, manifest, dataset.at(home)):
        manifest.resolve(file, dataset.at(home))
        path = f"{file.folder}/{file.path}"
        if file.base_id is None:
            source = f"{home}/{path}" if home else path
            copies[path] = _Copy(dataset.storage, source, target.storage, path)
        elif file.base_id in places:
            old, moved = places[file.base_id]
            below = path if manifest.bases[file.base_id].is_dataset_root else file.path
            copies[moved.at(below)] = _Copy(old.storage, below, moved.storage, below)
    return list(copies.values())


def _copy_all(copies: list[_Copy], progress: Progress) -> None:
    """Copy what the target lacks, in parallel, and see that each file arrived whole."""
    wanted = _sizes({(copy.source, copy.source_path) for copy in copies})
    for copy in copies:
        if (copy.source.uri, copy.source_path) not in wanted:
            raise StorageError(
                f"{copy.source.uri}/{copy.source_path} is missing: the dataset is damaged, and "
                "nothing was changed.",
                ref=copy.source_path,
            )

    def arrived() -> dict[tuple[str, str], int]:
        return _sizes({(copy.target, copy.target_path) for copy in copies})

    there = arrived()
    left = [
        copy
        for copy in copies
        if there.get((copy.target.uri, copy.target_path))
        != wanted[copy.source.uri, copy.source_path]
    ]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        work = [
            pool.submit(copy.source.copy, copy.source_path, copy.target, copy.target_path)
            for copy in left
        ]
        for done, one in enumerate(as_completed(work), 1):
            one.result()
            progress("copying files", done, len(left))
    there = arrived()
    for copy in copies:
        if (
            there.get((copy.target.uri, copy.target_path))
            != wanted[copy.source.uri, copy.source_path]
        ):
            raise ConflictError(
                f"{copy.target.uri}/{copy.target_path} is not what was copied there: somebody else "
                "writes to that place.",
                ref=copy.target_path,
            )


def _sizes(files: set[tuple[Storage, str]]) -> dict[tuple[str, str], int]:
    """The sizes of files that exist, by listing each of their folders once."""
    folders = {(storage, path.rpartition("/")[0]) for storage, path in files}
    wanted = {(storage.uri, path) for storage, path in files}
    sizes = {}
    for storage, folder in folders:
        for entry in storage.list(f"{folder}/" if folder else ""):
            if (storage.uri, entry.path) in wanted:
                sizes[storage.uri, entry.path] = entry.size
    return sizes
