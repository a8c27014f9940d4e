"""Finding a branch's versions and reading their manifests, without opening the dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_lancerefs.refstore import layout
from airflow_provider_lancerefs.refstore.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    RefNotFoundError,
    VersionNotFoundError,
)
from airflow_provider_lancerefs.refstore.manifest import Manifest, parse_manifest
from airflow_provider_lancerefs.refstore.models import Version
from airflow_provider_lancerefs.refstore.names import MAIN, check_branch_name, shown
from airflow_provider_lancerefs.refstore.refs import read_tag
from airflow_provider_lancerefs.refstore.revision import (
    LARGEST_VERSION,
    Revision,
    parse_revision,
)
from airflow_provider_lancerefs.refstore.storage import Blob, Entry, Storage


@dataclass(frozen=True, slots=True)
class Located:
    """A version, and its manifest file as it was listed."""

    version: Version
    entry: Entry


def resolve(storage: Storage, revision: str | Revision | Version) -> Version:
    """The exact version that a revision means now.

    One request, or two for an old version in V1 naming. Raises the NotFoundError that fits.
    """
    wanted = _checked(revision)
    if isinstance(wanted, Version):
        return wanted
    if wanted.tag is not None:
        return read_tag(storage, wanted.tag).target
    return locate(storage, wanted).version


def locate(storage: Storage, revision: str | Revision | Version) -> Located:
    """As `resolve`, and that the manifest is there, whoever names it."""
    wanted = _checked(revision)
    if isinstance(wanted, Revision) and wanted.tag is not None:
        wanted = read_tag(storage, wanted.tag).target
    branch = wanted.branch or MAIN
    if wanted.number is None:
        return _head(storage, branch)
    return _exact(storage, branch, wanted.number)


def _checked(revision: str | Revision | Version) -> Revision | Version:
    """A revision that a person wrote or a program built, its names by the rules."""
    if not isinstance(revision, Revision | Version):
        return parse_revision(revision)
    if revision.branch not in (None, MAIN):
        check_branch_name(revision.branch)
    if revision.number is not None and not 0 < revision.number < LARGEST_VERSION:
        raise InvalidInputError(f"{revision.number!r} is no version: they start at 1.")
    return revision


def head(storage: Storage, branch: str) -> Version:
    """The newest version of a branch."""
    return _head(storage, branch).version


def _head(storage: Storage, branch: str) -> Located:
    found = _find_head(storage, branch)
    if found is None:
        if branch == MAIN:
            raise DatasetNotFoundError(f"There is no Lance dataset at {storage.uri}.")
        raise RefNotFoundError(f"There is no branch {shown(branch)} in {storage.uri}.", ref=branch)
    return found


def find_head(storage: Storage, branch: str) -> Version | None:
    """The newest version of a branch, or None where it has no manifest."""
    found = _find_head(storage, branch)
    return found.version if found else None


def _find_head(storage: Storage, branch: str) -> Located | None:
    folder = layout.versions_folder(branch)
    first = storage.list(folder, limit=1)
    if not first:
        return None
    entries = first if layout.is_v2_manifest(first[0].path) else storage.list(folder)
    located = (_located(branch, entry) for entry in entries)
    return max((one for one in located if one), key=lambda one: one.version.number, default=None)


def exact(storage: Storage, branch: str, number: int) -> Version:
    """One version of a branch, if its manifest is there."""
    return _exact(storage, branch, number).version


def _exact(storage: Storage, branch: str, number: int) -> Located:
    entry = find_manifest(storage, branch, number)
    if entry is None:
        raise VersionNotFoundError(
            f"{Version(branch, number, 0)} of {storage.uri} does not exist or was cleaned up.",
            ref=branch,
        )
    return Located(Version(branch, number, entry.size), entry)


def find_manifest(storage: Storage, branch: str, number: int) -> Entry | None:
    """A version's manifest file in either naming, or None."""
    for v2 in (True, False):
        path = layout.manifest_path(branch, number, v2=v2)
        for entry in storage.list(path, limit=1):
            if entry.path == path:
                return entry
    return None


def list_manifests(storage: Storage, branch: str) -> dict[int, Entry]:
    """Every manifest of a branch by its number."""
    entries = storage.list(layout.versions_folder(branch))
    return manifests_among(branch, entries)


def manifests_among(branch: str, entries: Sequence[Entry]) -> dict[int, Entry]:
    """Of files listed anywhere below a branch, its own manifests by their number."""
    folder = layout.versions_folder(branch)
    numbered = (
        (layout.manifest_number(entry.path), entry)
        for entry in entries
        if entry.path.startswith(folder) and "/" not in entry.path[len(folder) :]
    )
    return {number: entry for number, entry in numbered if number is not None}


def read_manifest(storage: Storage, version: Version) -> Manifest:
    """A version's manifest; one request, or two in V1 naming."""
    return parse_manifest(read_manifest_file(storage, version)[1].data, str(version))


def read_manifest_file(storage: Storage, version: Version) -> tuple[str, Blob]:
    """A version's manifest as the path and the bytes of its file."""
    for v2 in (True, False):
        path = layout.manifest_path(version.branch, version.number, v2=v2)
        blob = storage.read(path)
        if blob is not None:
            return path, blob
    raise VersionNotFoundError(
        f"{version} of {storage.uri} does not exist or was cleaned up.", ref=version.branch
    )


def _located(branch: str, entry: Entry) -> Located | None:
    number = layout.manifest_number(entry.path)
    return None if number is None else Located(Version(branch, number, entry.size), entry)
