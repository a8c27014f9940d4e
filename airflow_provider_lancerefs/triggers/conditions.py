"""What can be waited for, and the small JSON that says what was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from airflow_provider_lancerefs.refstore import (
    Branch,
    BrokenRef,
    InvalidInputError,
    Tag,
    check_branch_name,
    check_tag_name,
)
from airflow_provider_lancerefs.refstore.models import PUBLISHED_VERSION_KEY

Found = dict[str, Any]
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_MAIN = "main"


class Until(StrEnum):
    """What of a branch can be waited for."""

    EXISTS = "exists"
    ADVANCED = "advanced"
    PUBLISHED = "published"


@dataclass(frozen=True)
class TagCondition:
    """A tag of that name, or one that matches a glob, at that version or a later one."""

    tag: str | None
    pattern: str | None
    min_version: int | None

    @classmethod
    def of(
        cls, tag: str | None, pattern: str | None, min_version: int | str | None
    ) -> TagCondition:
        """Raises InvalidInputError for what can never come true."""
        if bool(tag) == bool(pattern):
            raise InvalidInputError("Give either the name of a tag or a pattern to wait for.")
        if tag:
            check_tag_name(tag)
        return cls(tag or None, pattern or None, _number("min_version", min_version))

    def names(self, listed: Iterable[str]) -> list[str]:
        """Those that may be what is waited for."""
        return [name for name in listed if self._fits(name)]

    def best(self, tags: Iterable[Tag | BrokenRef]) -> Tag | None:
        """The one that was made or moved last."""
        least = self.min_version or 0
        fit = [tag for tag in tags if isinstance(tag, Tag) and tag.version >= least]
        return max(fit, key=by_time, default=None)

    def _fits(self, name: str) -> bool:
        return name == self.tag if self.tag else fnmatchcase(name, self.pattern or "")


@dataclass(frozen=True)
class BranchCondition:
    """A branch that exists, has versions of its own, or was published."""

    branch: str
    until: Until
    after_version: int | None

    @classmethod
    def of(cls, branch: str, until: str, after_version: int | str | None) -> BranchCondition:
        """Raises InvalidInputError for what can never come true."""
        if until not in [*Until]:
            known = ", ".join(repr(one.value) for one in Until)
            raise InvalidInputError(f"A branch is waited for until {known}, not until {until!r}.")
        after = _number("after_version", after_version)
        if branch != _MAIN:
            check_branch_name(branch)
        elif until != Until.ADVANCED or after is None:
            raise InvalidInputError(
                "main is always there and never published: wait until it has 'advanced', and say "
                "after which version."
            )
        return cls(branch, Until(until), after)

    @property
    def needs_head(self) -> bool:
        return self.until is Until.ADVANCED

    @property
    def of_main(self) -> bool:
        return self.branch == _MAIN

    def found(self, dataset: str, branch: Branch | None, head: int | None) -> Found | None:
        """What there is, if it is what is waited for; the head counts for ADVANCED only."""
        if branch is None and not self.of_main:
            return None
        if self.until is Until.EXISTS and branch is not None:
            return self.shown(dataset, branch, branch.parent_version)
        if self.until is Until.PUBLISHED and branch is not None:
            version = branch.metadata.get(PUBLISHED_VERSION_KEY, "")
            return self.shown(dataset, branch, int(version)) if version.isdigit() else None
        return self._advanced(dataset, branch, head)

    def shown(self, dataset: str, branch: Branch | None, version: int) -> Found:
        """The version is the parent's where the branch was published, else the branch's own."""
        return {
            "dataset": dataset,
            "branch": self.branch,
            "until": self.until.value,
            "version": version,
            **({"parent": branch.parent, "life": branch.life} if branch else {}),
        }

    def _advanced(self, dataset: str, branch: Branch | None, head: int | None) -> Found | None:
        after = self.after_version
        if after is None:
            after = branch.parent_version if branch else 0
        return self.shown(dataset, branch, head) if head is not None and head > after else None


def tag_found(dataset: str, tag: Tag) -> Found:
    """What is said of a tag; `key` is the same only for the same move of the same tag."""
    moved = tag.updated_at.isoformat() if tag.updated_at else None
    return {
        "dataset": dataset,
        "tag": tag.name,
        "branch": tag.branch,
        "version": tag.version,
        "updated_at": moved,
        "key": f"{dataset}#{tag.name}={tag.branch}@{tag.version}/{moved or ''}",
    }


def by_time(tag: Tag) -> tuple[datetime, str]:
    return tag.updated_at or tag.created_at or _EARLIEST, tag.name


def life_of(branch: Branch) -> Found:
    """What tells this life of a branch from any other, in JSON."""
    return {
        "parent": branch.parent,
        "parent_version": branch.parent_version,
        "identifier": [list(pair) for pair in branch.identifier],
    }


def branch_of(name: str, life: Mapping[str, Any]) -> Branch:
    """A branch as it was when it was seen, as far as its publication can be found by it."""
    return Branch(
        name=name,
        parent=life["parent"],
        parent_version=life["parent_version"],
        created_at=_EARLIEST,
        manifest_size=0,
        identifier=tuple((number, mark) for number, mark in life["identifier"]),
    )


def _number(name: str, value: int | str | None) -> int | None:
    """A version, which a template renders as text."""
    if value is None or value == "" or value == "None":
        return None
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if number < 1 or isinstance(value, float | bool):
        raise InvalidInputError(f"{name} is a version, counted from 1, not {value!r}.")
    return number
