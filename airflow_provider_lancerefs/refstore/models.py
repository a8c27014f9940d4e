"""What the store speaks of: branches, tags, versions and files. Plain frozen values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Literal

from airflow_provider_lancerefs.refstore.names import MAIN

RESERVED_PREFIX = "lancerefs."
STATE_KEY = "lancerefs.state"
STATE_SINCE_KEY = "lancerefs.state_since"
STATE_BEFORE_KEY = "lancerefs.state_before"
LEASE_OWNER_KEY = "lancerefs.lease_owner"
LEASE_UNTIL_KEY = "lancerefs.lease_until"
ENTERED_PUBLISHING_KEY = "lancerefs.entered_publishing"
PUBLISHED_VERSION_KEY = "lancerefs.published_version"
PUBLISHED_FROM_KEY = "lancerefs.published_from"
WRITERS_KEY = "lancerefs.writers"
WRITE_ID = "writeId"
FORK_ID = "forkId"
PROTECTED_KEY = "lancerefs.protected"
PIN_KEY = "lancerefs.pin"

_HEX_UUID = re.compile("[0-9a-f]{32}")

Identifier = tuple[tuple[int, str], ...]
RefKind = Literal["branch", "tag"]
FileKind = Literal["data", "deletion", "index"]


class BranchState(StrEnum):
    """Where a branch is in its life; kept in its ref and moved by compare-and-swap only.

    `deleting` says that somebody wants it gone and is looking whether anything needs it;
    it can still become open again. From `removing` there is no way back.
    """

    OPEN = "open"
    PUBLISHING = "publishing"
    PUBLISHED = "published"
    DELETING = "deleting"
    REMOVING = "removing"

    @property
    def ending(self) -> bool:
        return self in (BranchState.DELETING, BranchState.REMOVING)


@dataclass(frozen=True, slots=True)
class Version:
    """One exact version: a number means nothing without its branch."""

    branch: str
    number: int
    manifest_size: int

    def __str__(self) -> str:
        head = MAIN if self.branch == MAIN else f"branch:{self.branch}"
        return f"{head}@{self.number}"


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch as its ref file says. `token` and `written` are the file's when it was read."""

    kind: ClassVar[RefKind] = "branch"
    broken: ClassVar[None] = None

    name: str
    parent: str
    parent_version: int
    created_at: datetime
    manifest_size: int
    identifier: Identifier = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)
    token: str = field(default="", repr=False, compare=False)
    written: datetime | None = field(default=None, repr=False, compare=False)

    @property
    def source(self) -> Version:
        """The version of the parent that this branch was forked from."""
        return Version(self.parent, self.parent_version, self.manifest_size)

    @property
    def state(self) -> BranchState:
        """A branch that another tool made has no state and counts as open."""
        try:
            return BranchState(self.metadata.get(STATE_KEY, BranchState.OPEN))
        except ValueError:
            return BranchState.OPEN

    @property
    def state_before(self) -> BranchState:
        """What the branch goes back to when a deletion is given up."""
        try:
            return BranchState(self.metadata.get(STATE_BEFORE_KEY, BranchState.OPEN))
        except ValueError:
            return BranchState.OPEN

    @property
    def life(self) -> str:
        """What tells this life of the name from any other: the last id of its identifier."""
        return self.identifier[-1][1] if self.identifier else ""

    @property
    def made_here(self) -> bool:
        """Whether this library made the branch, so that its fork carries the identifier."""
        return self.extra.get(FORK_ID) == self.life and bool(_HEX_UUID.fullmatch(self.life))

    @property
    def untouched(self) -> bool:
        """Whether the ref file is still the one that made the branch, so that it dates its life."""
        return self.made_here and self.extra.get(WRITE_ID) == self.extra.get(FORK_ID)

    @property
    def state_since(self) -> datetime:
        """When the branch came into its state; its creation where nobody noted it."""
        try:
            since = datetime.fromisoformat(self.metadata.get(STATE_SINCE_KEY, ""))
        except ValueError:
            return self.created_at
        return since if since.tzinfo else self.created_at

    @property
    def protected(self) -> bool:
        return is_protected(self.metadata)

    def is_child_of(self, parent: Branch) -> bool:
        """Whether this was forked from that life of the parent; in doubt, yes."""
        if self.parent != parent.name:
            return False
        if not self.identifier or not parent.identifier:
            return True
        return self.identifier[: len(parent.identifier)] == parent.identifier


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag as its file says. `token` is what the file was when it was read."""

    kind: ClassVar[RefKind] = "tag"
    broken: ClassVar[None] = None

    name: str
    branch: str
    version: int
    manifest_size: int
    created_at: datetime | None = None
    updated_at: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)
    token: str = field(default="", repr=False, compare=False)

    @property
    def target(self) -> Version:
        return Version(self.branch, self.version, self.manifest_size)

    @property
    def protected(self) -> bool:
        return is_protected(self.metadata)


@dataclass(frozen=True, slots=True)
class BrokenRef:
    """A ref file that cannot be read as one; `broken` says why."""

    kind: RefKind
    name: str
    broken: str
    data: bytes = field(default=b"", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ListedRef:
    """A branch or tag as a listing shows it, unread. Whoever changes it changes the token."""

    name: str
    token: str
    modified: datetime


@dataclass(frozen=True, slots=True)
class DatasetFile:
    """A file that a version needs: where it is, and its size where the manifest knows it."""

    kind: FileKind
    uri: str
    size: int | None
    base_id: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One way in which a dataset is wrong: a code, what it is about, and what to do."""

    code: str
    subject: str
    detail: str
    action: str
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found; `clean` when nothing is left to mend."""

    findings: tuple[Finding, ...] = ()

    @property
    def clean(self) -> bool:
        return all(finding.repaired for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Expiry:
    """What a sweep did with one branch, and why. In a dry run what is `due` is not deleted."""

    branch: str
    due: bool
    deleted: bool
    reason: str


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """Where to write new data files of a branch so that publishing them copies nothing.

    Give `uri` to pylance's `write_fragments`, and set `base_id` on the data files it returns before
    they are committed to the branch.
    """

    uri: str
    base_id: int


@dataclass(frozen=True, slots=True)
class PublishResult:
    """What a publish came to: the parent's version, by this call or an earlier one.

    `published` is False where the branch had nothing to publish. `unindexed` counts the new
    fragments that the parent's indices don't know yet.
    """

    branch: str
    branch_version: int
    parent: str
    version: int
    published: bool = True
    already_published: bool = False
    files_copied: int = 0
    bytes_copied: int = 0
    unindexed: int = 0


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A version of a branch, what made it, and the branch whose publish that was, if it was one.

    `operation` is None where the transaction's file is gone; `step` tells the versions that a
    publish only prepares with ('anchor', 'fence') from the one that carries its rows.
    """

    version: Version
    created_at: datetime
    rows: int
    operation: str | None
    message: str | None = None
    published_branch: str | None = None
    published_version: int | None = None
    step: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def is_protected(metadata: Mapping[str, str]) -> bool:
    return metadata.get(PROTECTED_KEY, "").lower() == "true"
