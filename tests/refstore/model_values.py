"""What the model of a dataset speaks of: calls, how they end, and what stands between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

MAIN = "main"
PROTECTED = "lancerefs.protected"
PIN = "lancerefs.pin"
Rows = tuple[int, ...]


class Outcome(StrEnum):
    """How a call ends; the last two are only ever expected, never seen."""

    DONE = "done"
    ABSENT = "not found"
    TAKEN = "exists already"
    CONFLICT = "conflict"
    PROTECTED = "protected"
    NEEDED = "needed by another ref"
    GOING = "conflict or not found, as much of a branch is gone"
    UNSURE = "anything but done, as much of a branch is gone"

    def allows(self, seen: Outcome) -> bool:
        either = {
            Outcome.GOING: {Outcome.CONFLICT, Outcome.ABSENT},
            Outcome.UNSURE: {Outcome.TAKEN, Outcome.CONFLICT, Outcome.ABSENT},
        }
        return seen in either.get(self, {self})


class State(StrEnum):
    OPEN = "open"
    DELETING = "deleting"
    REMOVING = "removing"

    @property
    def ending(self) -> bool:
        return self is not State.OPEN


@dataclass(frozen=True)
class At:
    """A revision as a caller writes it."""

    branch: str = MAIN
    number: int | None = None
    tag: str | None = None

    @property
    def pinned(self) -> bool:
        return self.number is not None or self.tag is not None

    def __str__(self) -> str:
        if self.tag is not None:
            return f"tag:{self.tag}"
        head = MAIN if self.branch == MAIN else f"branch:{self.branch}"
        return head if self.number is None else f"{head}@{self.number}"


@dataclass(frozen=True)
class CreateBranch:
    """With `patient`, what is younger than the grace time is left alone, else nothing is."""

    name: str
    source: At = At()
    metadata: Mapping[str, str] = field(default_factory=dict)
    patient: bool = True


@dataclass(frozen=True)
class DeleteBranch:
    name: str
    missing_ok: bool = False
    force: bool = False


@dataclass(frozen=True)
class CreateTag:
    name: str
    at: At = At()
    protected: bool = False


@dataclass(frozen=True)
class MoveTag:
    """`fresh` says whether the tag is still as the caller holds it, `guarded` what that says; a
    caller who holds none reads it first."""

    name: str
    at: At = At()
    force: bool = False
    fresh: bool = True
    guarded: bool = False
    held: object = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class DeleteTag:
    name: str
    missing_ok: bool = False
    force: bool = False


@dataclass(frozen=True)
class SetMetadata:
    kind: str
    name: str
    changes: Mapping[str, str | None] = field(default_factory=dict)
    fresh: bool = True
    held: object = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Expire:
    pattern: str = "*"
    dry_run: bool = False


@dataclass(frozen=True)
class ShallowClone:
    """`target` is a URI, `pin` the name of the tag that a clone there is pinned by."""

    target: str
    pin: str
    at: At = At()


@dataclass(frozen=True)
class Repair:
    """fsck with repair; with `patient`, what is younger than the grace time is left alone."""

    patient: bool = False


@dataclass(frozen=True)
class Mend:
    """What one repair does to one branch or tag."""

    kind: str
    name: str


@dataclass(frozen=True)
class TakeBack:
    """What a call that failed late does to the ref it put: a branch's life, or a tag."""

    name: str
    life: int = 0
    put: TagTruth | None = None
    before: TagTruth | None = None


@dataclass(frozen=True)
class Append:
    branch: str
    row: int


Call = (
    CreateBranch
    | DeleteBranch
    | CreateTag
    | MoveTag
    | DeleteTag
    | SetMetadata
    | Expire
    | ShallowClone
    | Repair
    | Mend
    | TakeBack
    | Append
)


@dataclass(frozen=True)
class Face:
    """What of a branch shows from outside; of one that is being removed, any part may be left."""

    headless: bool = False
    state: State = State.OPEN


GOING_AWAY = Face(state=State.REMOVING)


@dataclass
class BranchTruth:
    parent: str
    parent_life: int
    fork: int
    life: int
    metadata: dict[str, str]
    versions: dict[int, Rows] = field(default_factory=dict)
    state: State = State.OPEN
    identifier: object = None

    @property
    def face(self) -> Face:
        if self.state is State.REMOVING:
            return GOING_AWAY
        return Face(not self.versions, self.state)

    @property
    def protected(self) -> bool:
        return self.metadata.get(PROTECTED) == "true"


@dataclass(frozen=True)
class TagTruth:
    branch: str
    version: int
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def protected(self) -> bool:
        return self.metadata.get(PROTECTED) == "true"


@dataclass(frozen=True)
class CloneTruth:
    branch: str
    version: int
    rows: Rows


@dataclass(frozen=True)
class Residue:
    """Manifests below `tree/` that no ref stands for: the lowest of their numbers."""

    lowest: int


@dataclass(frozen=True)
class BranchFound:
    """A branch as it was found on disk."""

    parent: str
    fork: int
    face: Face
    metadata: Mapping[str, str]
    identifier: object


@dataclass(frozen=True)
class Found:
    """The refs as they were found on disk."""

    branches: Mapping[str, BranchFound]
    tags: Mapping[str, TagTruth]


@dataclass(frozen=True)
class Fates:
    """What may be found of every ref after a call was cut short; None is absence."""

    branches: Mapping[str, set[Face | None]]
    tags: Mapping[str, set[TagTruth | None]]
    born: Mapping[str, BranchTruth]
