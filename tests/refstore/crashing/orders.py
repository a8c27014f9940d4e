"""What a victim is told to do, and what it says that it came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Moment(StrEnum):
    """When a victim on local disk dies."""

    AFTER_WRITE = "after write"
    BEFORE_CHANGE = "before change"


@dataclass(frozen=True)
class Order:
    """What a victim has to do; without a moment it is killed, or stopped, by somebody else.

    One that is `paused` stops where others die, and says what it came to once it goes on.
    """

    call: str
    uri: str
    options: dict[str, str] = field(default_factory=dict, repr=False)
    moment: Moment | None = None
    number: int = 0
    paused: bool = False


@dataclass(frozen=True)
class Ending:
    """What a call came to: the version of a publish, or the name of a typed error."""

    version: int | None = None
    error: str | None = None
