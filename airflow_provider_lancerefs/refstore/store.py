"""RefStore: branches, tags, clones and layout of one Lance dataset."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TypeVar

from airflow_provider_lancerefs.refstore import (
    branching,
    checking,
    cloning,
    deleting,
    expiring,
    files,
    history,
    publications,
    publishing,
    refs,
    tagging,
    versions,
    writers,
)
from airflow_provider_lancerefs.refstore.comparing import compare, difference
from airflow_provider_lancerefs.refstore.dataset import PUBLISH_LEASE, RESIDUE_GRACE, Dataset
from airflow_provider_lancerefs.refstore.errors import InvalidInputError
from airflow_provider_lancerefs.refstore.manifest import Manifest
from airflow_provider_lancerefs.refstore.models import (
    Branch,
    BrokenRef,
    DatasetFile,
    Expiry,
    ListedRef,
    LogEntry,
    PublishResult,
    Report,
    Tag,
    Version,
    WriteTarget,
)
from airflow_provider_lancerefs.refstore.plans import Difference, PublishPlan
from airflow_provider_lancerefs.refstore.progress import Progress, silent
from airflow_provider_lancerefs.refstore.revision import Revision
from airflow_provider_lancerefs.refstore.snapshot import read_snapshot
from airflow_provider_lancerefs.refstore.storage import (
    checked_options,
    normalise_uri,
    open_storage,
)

_Ref = TypeVar("_Ref", Branch, Tag)
AnyRevision = str | Revision | Version


class RefStore:
    """The refs of one Lance dataset. Holds no state: any number may be open on one dataset.

    Every mutating call can be made again after a crash, and finishes what the dead one began.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    @classmethod
    def open(
        cls,
        uri: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        *,
        grace: timedelta = RESIDUE_GRACE,
        publish_lease: timedelta = PUBLISH_LEASE,
    ) -> RefStore:
        """A store for the dataset at a local path, `s3://` or `memory://`; contacts nothing yet.

        Args:
            uri: The dataset's root.
            storage_options: pylance's own keys, such as `aws_access_key_id` and `aws_endpoint`.
            grace: How old the remains of another life of a branch must be to be reclaimed.
            publish_lease: How long a publisher that says nothing is taken to be alive.
        """
        root = normalise_uri(uri)
        options = checked_options(storage_options or {})
        storage = open_storage(root, options)
        return cls(Dataset(storage, options, grace, publish_lease=publish_lease))

    def __repr__(self) -> str:
        return f"RefStore({self.uri!r})"

    @property
    def uri(self) -> str:
        """The dataset's root as pylance spells it."""
        return self._dataset.uri

    def branches(self) -> list[Branch | BrokenRef]:
        """Every branch but main, by name; a ref that cannot be read is listed as broken."""
        storage = self._dataset.storage
        return sorted(
            refs.read_branches(storage, refs.list_branches(storage)), key=lambda one: one.name
        )

    def branch_names(self) -> list[str]:
        """The names alone: one request per thousand."""
        return sorted(one.name for one in refs.list_branches(self._dataset.storage) if one.sound)

    def list_branches(self) -> list[ListedRef]:
        """Every branch but main, unread: one request per thousand."""
        return [one.listed for one in refs.list_branches(self._dataset.storage) if one.sound]

    def find_branches(self, names: Iterable[str]) -> list[Branch | BrokenRef]:
        """Those of these branches that there are, one request each and all at once."""
        return refs.find_branches(self._dataset.storage, names)

    def branch(self, name: str) -> Branch:
        """One branch; raises RefNotFoundError, or FormatError if its file cannot be read."""
        return refs.read_branch(self._dataset.storage, name)

    def tags(self) -> list[Tag | BrokenRef]:
        """Every tag, by name; one that cannot be read is listed as broken."""
        storage = self._dataset.storage
        return sorted(refs.read_tags(storage, refs.list_tags(storage)), key=lambda one: one.name)

    def tag_names(self) -> list[str]:
        """The names alone: one request per thousand."""
        return sorted(one.name for one in refs.list_tags(self._dataset.storage) if one.sound)

    def list_tags(self) -> list[ListedRef]:
        """Every tag, unread: one request per thousand."""
        return [one.listed for one in refs.list_tags(self._dataset.storage) if one.sound]

    def find_tags(self, names: Iterable[str]) -> list[Tag | BrokenRef]:
        """Those of these tags that there are, one request each and all at once."""
        return refs.find_tags(self._dataset.storage, names)

    def tag(self, name: str) -> Tag:
        """One tag, in one request; raises RefNotFoundError, or FormatError."""
        return refs.read_tag(self._dataset.storage, name)

    def resolve(self, revision: AnyRevision) -> Version:
        """The exact version that 'main', 'main@3', 'branch:x' or 'tag:v1' means now."""
        return versions.resolve(self._dataset.storage, revision)

    def manifest(self, revision: AnyRevision = "main") -> Manifest:
        """What a version consists of, read from its manifest alone."""
        return versions.read_manifest(self._dataset.storage, self.resolve(revision))

    def create_branch(
        self,
        name: str,
        source: str | Revision = "main",
        metadata: Mapping[str, str] | None = None,
    ) -> Branch:
        """Fork a branch. A retry returns the branch its first try made.

        The same name from another source raises AlreadyExistsError. An unpinned source ('main') is
        the same source whatever its head is by now.
        """
        return branching.create_branch(self._dataset, name, source, metadata or {})

    def delete_branch(self, name: str, missing_ok: bool = False, force: bool = False) -> bool:
        """Delete a branch and its files; False if it was gone and `missing_ok`.

        Raises RefusedError if a tag or a child branch needs it, or it is protected (unless `force`)
        or being published.
        """
        return deleting.delete_branch(self._dataset, name, missing_ok=missing_ok, force=force)

    def plan_publish(self, branch: str, require_writers: Iterable[str] = ()) -> PublishPlan:
        """What publishing a branch into its parent would do now; writes nothing.

        A refusal is in the plan, as a code and a sentence.
        """
        return publishing.plan_publish(self._dataset, branch, require_writers)

    def publish(
        self,
        branch: str,
        message: str | None = None,
        properties: Mapping[str, str] | None = None,
        require_writers: Iterable[str] = (),
        optimize_indices: bool = False,
        progress: Progress = silent,
    ) -> PublishResult:
        """Make a branch's changes its parent's, in one commit; a retry returns the first result.

        Args:
            branch: The branch; its parent is the target.
            message: A commit message, as pylance keeps them.
            properties: Noted on the commit.
            require_writers: Who must have written, by the branch's `lancerefs.writers`.
            optimize_indices: Bring new fragments into the parent's indices afterwards.
            progress: Called with what is being done.

        Raises PublishRefusedError with the plan, ConflictError while somebody else publishes or
        deletes the branch, OutcomeUnknownError where an earlier publish may have landed.
        """
        request = publishing.Request(
            message,
            publishing.check_properties(properties or {}),
            tuple(require_writers),
            optimize_indices,
            progress,
        )
        return publishing.publish(self._dataset, branch, request)

    def find_publication(self, branch: Branch) -> int | None:
        """The version of the parent that published this life of a branch, which may be gone by now.

        Raises OutcomeUnknownError where versions since its fork were cleaned up and none shows it.
        """
        return publications.find_version(self._dataset, branch)

    def record_writer(self, branch: str, writer: str, life: str | None = None) -> Branch:
        """Note that somebody has written to a branch, for `publish` to require; twice is as once.

        `life` is the branch's own, as read: in another life of the name nothing is noted.
        """
        return writers.record_writer(self._dataset, branch, writer, life)

    def writers(self, branch: str) -> set[str]:
        """Who is noted to have written to a branch."""
        return writers.writers_of(self.branch(branch))

    def diff(self, old: AnyRevision, new: AnyRevision) -> Difference:
        """What one version has over another: fragments, files, rows and columns."""
        before, after = (
            read_snapshot(self._dataset, self.resolve(revision)) for revision in (old, new)
        )
        return difference(compare(before, after))

    def write_target(self, branch: str) -> WriteTarget:
        """Where to write a branch's new data files, so that publishing it copies nothing.

        Write with `write_fragments(data, lance.dataset(<branch>), mode="append",
        target_bases=[target.uri])` and set `base_id` on the files. Given the root's URI alone,
        Lance takes the field ids of main's head, which may differ from the branch's.
        """
        return publishing.write_target(self._dataset, branch)

    def log(self, revision: AnyRevision = "main") -> list[LogEntry]:
        """The versions up to a revision, newest first: what made them, and which publish."""
        return history.log(self._dataset, self.resolve(revision))

    def create_tag(
        self,
        name: str,
        revision: AnyRevision,
        metadata: Mapping[str, str] | None = None,
        protected: bool = False,
    ) -> Tag:
        """Name a version, or return the tag that does; on another version it is an error."""
        return tagging.create_tag(
            self._dataset, name, revision, metadata or {}, protected=protected
        )

    def move_tag(self, tag: Tag, revision: AnyRevision, force: bool = False) -> Tag:
        """Let a tag name another version, if it still is as it was read (else ConflictError)."""
        return tagging.move_tag(self._dataset, tag, revision, force=force)

    def delete_tag(self, name: str, missing_ok: bool = False, force: bool = False) -> bool:
        """Delete a tag; False if it was gone and `missing_ok`. A protected one needs `force`."""
        return tagging.delete_tag(self._dataset, name, missing_ok=missing_ok, force=force)

    def set_metadata(self, ref: _Ref, metadata: Mapping[str, str | None]) -> _Ref:
        """Set keys of a ref's metadata, or remove those set to None, by compare-and-swap.

        `lancerefs.protected` set to 'true' protects the ref; other such keys are the store's.
        """
        return refs.set_metadata(self._dataset.storage, ref, metadata)

    def shallow_clone(
        self, target_uri: str | os.PathLike[str], revision: AnyRevision = "main"
    ) -> Version:
        """Make a dataset elsewhere that shares this one's files, and pin its source version."""
        return cloning.shallow_clone(self._dataset, normalise_uri(target_uri), revision)

    def files(self, revision: AnyRevision = "main") -> list[DatasetFile]:
        """Every data, deletion and index file of a version, by absolute URI."""
        return files.files_of(self._dataset, self.resolve(revision))

    def relocate(
        self,
        target_uri: str | os.PathLike[str],
        revision: AnyRevision = "main",
        bases: Mapping[str, str] | None = None,
        progress: Progress = silent,
    ) -> Version:
        """Copy a version to another place, and re-point the base paths named in `bases`."""
        if not isinstance(bases or {}, Mapping):
            raise InvalidInputError(
                "The bases that move are a map of base paths to their new places."
            )
        moves = {normalise_uri(old): normalise_uri(new) for old, new in (bases or {}).items()}
        return cloning.relocate(self._dataset, normalise_uri(target_uri), revision, moves, progress)

    def check(
        self,
        repair: bool = False,
        orphan_age: timedelta = checking.ORPHAN_AGE,
        progress: Progress = silent,
    ) -> Report:
        """Name every way in which the dataset's refs are wrong; `repair` mends what is safe.

        Args:
            repair: Mend; what was mended is in the report as repaired.
            orphan_age: How old a file that no version reaches must be to be called an orphan.
            progress: Called with what is being looked at.
        """
        return checking.check(
            self._dataset, repair=repair, orphan_age=orphan_age, progress=progress
        )

    def expire_branches(
        self,
        pattern: str,
        older_than: timedelta,
        dry_run: bool = False,
        progress: Progress = silent,
        spare: Callable[[Branch], str | None] = expiring.none_spared,
    ) -> list[Expiry]:
        """Delete the branches that match a glob and have been idle for that long.

        Never one that is tagged, protected, being published or the parent of another, nor one for
        which `spare` gives a reason to keep it.
        """
        return expiring.expire_branches(
            self._dataset, pattern, older_than, dry_run=dry_run, progress=progress, spare=spare
        )
