"""What stands in a dataset, read once for all the checks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property

from airflow_provider_lancerefs.refstore import (
    deleting,
    files,
    layout,
    refs,
    transactions,
    versions,
)
from airflow_provider_lancerefs.refstore.dataset import Dataset, now
from airflow_provider_lancerefs.refstore.errors import LanceRefsError, VersionNotFoundError
from airflow_provider_lancerefs.refstore.manifest import Manifest, parse_manifest
from airflow_provider_lancerefs.refstore.models import Branch, BrokenRef, Finding, Tag, Version
from airflow_provider_lancerefs.refstore.names import MAIN
from airflow_provider_lancerefs.refstore.storage import Entry

ORPHAN_AGE = timedelta(days=7)
MEND = "fsck --repair mends it"
Mend = Callable[[], object]


@dataclass(frozen=True)
class Wrong:
    """A finding, and how to mend it where that is safe."""

    finding: Finding
    mend: Mend | None = None


@dataclass
class Survey:
    """What stands in the dataset, read once.

    Tags are read before branches: one made on a branch that is made meanwhile is then not seen.
    """

    dataset: Dataset
    orphan_age: timedelta
    _manifests: dict[Version, Manifest] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tag_entries = refs.list_tags(self.dataset.storage)
        self.tags = refs.read_tags(self.dataset.storage, self._tag_entries)

    @cached_property
    def tag_ages(self) -> dict[str, timedelta]:
        return {one.name: now() - one.entry.modified for one in self._tag_entries}

    @cached_property
    def all_branches(self) -> list[Branch | BrokenRef]:
        return refs.read_branches(self.dataset.storage, refs.list_branches(self.dataset.storage))

    @cached_property
    def branches(self) -> dict[str, Branch]:
        return {one.name: one for one in self.all_branches if isinstance(one, Branch)}

    @cached_property
    def names(self) -> set[str]:
        """Every branch that has a ref, readable or not."""
        return {one.name for one in self.all_branches}

    @cached_property
    def tree(self) -> Sequence[Entry]:
        return self.dataset.storage.list(f"{layout.TREE}/")

    @cached_property
    def tree_by_branch(self) -> dict[str, list[Entry]]:
        """The files of each branch folder, whether a ref stands for it or not."""
        owners = self.names | {name for entry in self.tree if (name := layout.tree_of(entry.path))}
        found: dict[str, list[Entry]] = {}
        for entry in self.tree:
            owner = layout.owner(entry.path, owners)
            if owner is not None:
                found.setdefault(owner, []).append(entry)
        return found

    @cached_property
    def readable(self) -> bool:
        """Whether every branch ref can be read, so that nothing unknown may need a file."""
        return len(self.branches) == len(self.all_branches)

    def needed_by(self, branch: str) -> str | None:
        """Who needs the files of a branch folder, by its ref or by any manifest, if anybody."""
        for child in self.branches.values():
            if child.parent == branch:
                return f"branch {child.name}"
        for tag in self.tags:
            if isinstance(tag, Tag) and tag.branch == branch:
                return f"tag {tag.name}"
        for name in [MAIN, *self.tree_by_branch]:
            for version in [] if name == branch else self._inspected(name):
                with contextlib.suppress(VersionNotFoundError):  # mended away in this very run
                    if deleting.points_into(self.read(version).bases.values(), branch):
                        return str(version)
        return None

    def _inspected(self, name: str) -> list[Version]:
        """The versions in which a foreign pointer is looked for: all of a branch, main's head."""
        numbers = self.manifests(name)
        chosen = numbers if name != MAIN or not numbers else [max(numbers)]
        return [Version(name, one, 0) for one in chosen]

    def manifests(self, branch: str) -> dict[int, Entry]:
        if branch == MAIN:
            return self._main_manifests
        return versions.manifests_among(branch, self.tree_by_branch.get(branch, []))

    @cached_property
    def _main_manifests(self) -> dict[int, Entry]:
        found = versions.list_manifests(self.dataset.storage, MAIN)
        if not found:
            versions.head(self.dataset.storage, MAIN)
        return found

    def has(self, version: Version) -> bool:
        return version.number in self.manifests(version.branch)

    def read(self, version: Version) -> Manifest:
        if version not in self._manifests:
            path = self.manifests(version.branch)[version.number].path
            blob = self.dataset.storage.read(path)
            if blob is None:
                raise VersionNotFoundError(f"{version} was cleaned up meanwhile.")
            self._manifests[version] = parse_manifest(blob.data, str(version))
        return self._manifests[version]

    def reached(self, branch: str, *, every_version: bool = True) -> set[str] | None:
        """Every file that the versions of a branch need, or its head; None if one is unreadable."""
        numbers = self.manifests(branch)
        chosen = numbers if every_version or not numbers else [max(numbers)]
        found: set[str] = set()
        for number in chosen:
            version = Version(branch, number, 0)
            try:
                manifest = self.read(version)
                needed = files.resolve_files(self.dataset, version, manifest)
            except VersionNotFoundError:
                continue
            except LanceRefsError:
                return None
            found |= {file.uri for file in needed}
            if manifest.transaction_file:
                transaction = transactions.transaction_path(branch, manifest.transaction_file)
                found.add(self.dataset.at(transaction))
        return found
