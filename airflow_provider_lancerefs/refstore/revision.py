"""How a person writes which version is meant: 'main@3', 'branch:x', 'tag:v1' and the like."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_lancerefs.refstore.errors import InvalidInputError
from airflow_provider_lancerefs.refstore.names import (
    MAIN,
    check_branch_name,
    check_tag_name,
    shown,
)

_GRAMMAR = "write 'main', 'main@3', 'branch:NAME', 'branch:NAME@7' or 'tag:NAME'"
LARGEST_VERSION = 2**63


@dataclass(frozen=True, slots=True)
class Revision:
    """A branch (its head, or one version of it) or a tag, as asked for; nothing is looked up."""

    branch: str | None = MAIN
    number: int | None = None
    tag: str | None = None

    @property
    def pinned(self) -> bool:
        """Whether it always means the same version while refs stand still."""
        return self.number is not None or self.tag is not None

    def __str__(self) -> str:
        if self.tag is not None:
            return f"tag:{self.tag}"
        head = MAIN if self.branch == MAIN else f"branch:{self.branch}"
        return head if self.number is None else f"{head}@{self.number}"


def parse_revision(text: str) -> Revision:
    """Read what a person wrote; raises InvalidInputError with the grammar in it."""
    if not isinstance(text, str):
        raise InvalidInputError(f"A revision is a string, not {type(text).__name__}: {_GRAMMAR}.")
    if text.startswith("tag:"):
        return Revision(branch=None, tag=check_tag_name(text.removeprefix("tag:")))
    head, at, number = text.partition("@")
    if head.startswith("branch:"):
        name = head.removeprefix("branch:")
        branch = MAIN if name == MAIN else check_branch_name(name)
    elif head == MAIN:
        branch = MAIN
    else:
        raise InvalidInputError(f"{shown(text)} is not a revision: {_GRAMMAR}.")
    return Revision(branch=branch, number=_parse_number(text, number) if at else None)


def _parse_number(text: str, number: str) -> int:
    if not (number.isascii() and number.isdigit() and len(number) <= 19):
        raise InvalidInputError(
            f"{shown(text)} is not a revision: after '@' comes a version number."
        )
    value = int(number)
    if not 0 < value < LARGEST_VERSION:
        raise InvalidInputError(f"{shown(text)} is not a revision: versions start at 1.")
    return value
