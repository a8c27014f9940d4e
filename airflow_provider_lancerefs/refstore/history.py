"""The versions of a branch, and what made each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_lancerefs.refstore import versions
from airflow_provider_lancerefs.refstore.comparing import compare
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.errors import LanceRefsError
from airflow_provider_lancerefs.refstore.manifest import Manifest, parse_manifest
from airflow_provider_lancerefs.refstore.models import LogEntry, Version
from airflow_provider_lancerefs.refstore.publications import (
    MESSAGE_KEY,
    NAME_KEY,
    STEP_KEY,
    published_by,
)
from airflow_provider_lancerefs.refstore.snapshot import Snapshot, snapshot_of
from airflow_provider_lancerefs.refstore.transactions import (
    Transaction,
    read_transaction,
    read_transactions,
)

_OWN = "lancerefs."


@dataclass(frozen=True)
class Parent:
    """What happened on a parent between a fork and its head, as far as that can still be read."""

    dataset: Dataset
    since: int
    head: Version
    fork: Snapshot

    def operations(self) -> Mapping[int, str | None]:
        """Which operation made each version; None where that was cleaned up."""
        found: dict[int, str | None] = {}
        manifests = _manifests(self.dataset, self.head.branch)
        for number in range(self.since + 1, self.head.number + 1):
            manifest = manifests.get(number)
            made_by = (
                read_transaction(self.dataset.storage, self.head.branch, manifest)
                if manifest
                else None
            )
            found[number] = made_by.operation if made_by else None
        return found

    def blame(self, fragment: int) -> str:
        """The first version that has the fragment otherwise than the fork, and its operation."""
        try:
            return self._blame(fragment)
        except LanceRefsError:
            return f"by {self.head}"

    def _blame(self, fragment: int) -> str:
        manifests = _manifests(self.dataset, self.head.branch)
        for number in sorted(one for one in manifests if self.since < one <= self.head.number):
            version = Version(self.head.branch, number, 0)
            there = snapshot_of(self.dataset, version, manifests[number])
            changes = compare(self.fork, there)
            if fragment in changes.removed or fragment in changes.changed:
                made_by = read_transaction(
                    self.dataset.storage, self.head.branch, manifests[number]
                )
                return f"by {version} ({made_by.operation if made_by else 'unknown'})"
        return f"by {self.head}"


def log(dataset: Dataset, version: Version) -> list[LogEntry]:
    """The versions of a branch up to one of them, newest first."""
    manifests = _manifests(dataset, version.branch)
    wanted = {one: manifests[one] for one in manifests if one <= version.number}
    made_by = read_transactions(dataset.storage, version.branch, wanted.values())
    return [
        _entry(version.branch, manifest, made_by.get(number))
        for number, manifest in sorted(wanted.items(), reverse=True)
    ]


def _manifests(dataset: Dataset, branch: str) -> dict[int, Manifest]:
    """Every readable manifest of a branch, by its number."""
    paths = {
        entry.path: number
        for number, entry in versions.list_manifests(dataset.storage, branch).items()
    }
    return {
        paths[path]: parse_manifest(blob.data, f"{branch}@{paths[path]}")
        for path, blob in dataset.storage.read_many(paths).items()
    }


def _entry(branch: str, manifest: Manifest, made_by: Transaction | None) -> LogEntry:
    properties = made_by.properties if made_by else {}
    published = published_by(made_by) if made_by else None
    return LogEntry(
        version=Version(branch, manifest.version, 0),
        created_at=manifest.created_at,
        rows=manifest.rows,
        operation=made_by.operation if made_by else None,
        message=properties.get(MESSAGE_KEY),
        published_branch=properties.get(NAME_KEY) if published else None,
        published_version=published[1] if published else None,
        step=properties.get(STEP_KEY),
        properties={
            key: value
            for key, value in properties.items()
            if not key.startswith(_OWN) and key != MESSAGE_KEY
        },
    )
