"""What one dataset should hold, as plain values: a truth of its own to hold the library against.

It knows the rules of the ref store (who may take, need and delete what) and never asks the library
or the disk for its expectation. Only where a call was cut short is it told what was found, and it
then says whether that could be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import singledispatchmethod

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
    """`fresh` says whether the tag is still as the caller holds it, `guarded` what that says."""

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


@dataclass
class Truth:
    main: dict[int, Rows]
    branches: dict[str, BranchTruth] = field(default_factory=dict)
    tags: dict[str, TagTruth] = field(default_factory=dict)
    clones: dict[str, CloneTruth] = field(default_factory=dict)
    residue: dict[str, Residue] = field(default_factory=dict)
    lives: int = 0

    def copy(self) -> Truth:
        return Truth(
            dict(self.main),
            {
                name: replace(one, metadata=dict(one.metadata), versions=dict(one.versions))
                for name, one in self.branches.items()
            },
            dict(self.tags),
            dict(self.clones),
            dict(self.residue),
            self.lives,
        )

    def with_tag(self, name: str, tag: TagTruth | None) -> Truth:
        after = self.copy()
        after.tags.pop(name, None)
        if tag is not None:
            after.tags[name] = tag
        return after

    def shows(self, found: Found) -> bool:
        """Whether the refs that were found are those that this truth would show."""
        branches = {
            name: (one.parent, one.fork, one.face, one.metadata, one.identifier)
            for name, one in self.branches.items()
        }
        there = {
            name: (
                one.parent,
                one.fork,
                one.face,
                one.metadata,
                one.identifier if name in branches and branches[name][4] else None,
            )
            for name, one in found.branches.items()
        }
        return branches == there and self.tags == found.tags

    def versions(self, branch: str) -> dict[int, Rows]:
        if branch == MAIN:
            return self.main
        there = self.branches.get(branch)
        return there.versions if there else {}

    def rows(self, branch: str) -> Rows:
        versions = self.versions(branch)
        return versions[max(versions)]

    def write(self, branch: str, rows: Iterable[int]) -> int:
        versions = self.versions(branch)
        number = max(versions) + 1
        versions[number] = tuple(sorted(rows))
        return number

    def needing(self, name: str) -> list[str]:
        """The tags and children that keep a branch from being deleted."""
        there = self.branches[name]
        return [tag for tag, one in self.tags.items() if one.branch == name] + [
            child
            for child, one in self.branches.items()
            if one.parent == name and one.parent_life == there.life
        ]

    def forked_from(self, number: int) -> bool:
        """Whether a branch with a head, or a tag, keeps that version of main from cleanup."""
        return any(
            one.parent == MAIN and one.fork == number and one.versions
            for one in self.branches.values()
        ) or any(one.branch == MAIN and one.version == number for one in self.tags.values())

    def resolve(self, at: At) -> tuple[str, int] | Outcome:
        if at.tag is not None:
            tag = self.tags.get(at.tag)
            if tag is None:
                return Outcome.ABSENT
            on = self.branches.get(tag.branch)
            going = on is not None and on.state is State.REMOVING
            return Outcome.GOING if going else (tag.branch, tag.version)
        there = self.branches.get(at.branch)
        if there and there.state is State.REMOVING:
            return Outcome.GOING
        versions = self.versions(at.branch)
        if not versions or (at.number is not None and at.number not in versions):
            return Outcome.ABSENT
        return at.branch, at.number or max(versions)

    @singledispatchmethod
    def apply(self, call: Call) -> Outcome:
        """Do what the call does, alone and without a failure."""
        raise NotImplementedError(call)

    @apply.register
    def _(self, call: CreateBranch) -> Outcome:
        born = self.born(call)
        if isinstance(born, Outcome):
            return born
        there = self.branches.get(call.name)
        if there is not None:
            return self._existing(call, there, born)
        if call.name in self.residue and call.patient:
            return Outcome.CONFLICT
        rows = self.versions(born.parent).get(born.fork)
        if rows is None:
            return Outcome.ABSENT
        self.residue.pop(call.name, None)
        self.lives += 1
        self.branches[call.name] = replace(born, versions={born.fork: rows})
        return Outcome.DONE

    def born(self, call: CreateBranch) -> BranchTruth | Outcome:
        """The branch as the call's ref file would say, without a head."""
        found = self.resolve(call.source)
        if isinstance(found, Outcome):
            return found
        parent, fork = found
        above = self.branches.get(parent)
        if parent != MAIN and above is None:
            return Outcome.ABSENT
        if above and above.state.ending:
            return Outcome.CONFLICT
        return BranchTruth(
            parent, above.life if above else 0, fork, self.lives + 1, dict(call.metadata)
        )

    def _existing(self, call: CreateBranch, there: BranchTruth, born: BranchTruth) -> Outcome:
        if there.state.ending:
            return Outcome.CONFLICT
        same = (there.parent, there.parent_life) == (born.parent, born.parent_life)
        if not same or (call.source.pinned and there.fork != born.fork):
            return Outcome.TAKEN
        return self._complete(call.name, there, patient=call.patient)

    def _complete(self, name: str, there: BranchTruth, *, patient: bool) -> Outcome:
        if there.versions:
            return Outcome.DONE
        if name in self.residue and (patient or self.residue[name].lowest > there.fork):
            return Outcome.CONFLICT
        rows = self.versions(there.parent).get(there.fork)
        if rows is None:
            return Outcome.ABSENT
        self.residue.pop(name, None)
        there.versions[there.fork] = rows
        return Outcome.DONE

    @apply.register
    def _(self, call: DeleteBranch) -> Outcome:
        there = self.branches.get(call.name)
        if there is None:
            return Outcome.DONE if call.missing_ok else Outcome.ABSENT
        if there.protected and not call.force:
            return Outcome.PROTECTED
        return self.remove(call.name)

    def remove(self, name: str) -> Outcome:
        """A deletion that is not refused by the ref itself."""
        there = self.branches[name]
        if there.state is not State.REMOVING and self.needing(name):
            there.state = State.OPEN
            return Outcome.NEEDED
        del self.branches[name]
        self.residue.pop(name, None)
        return Outcome.DONE

    @apply.register
    def _(self, call: Expire) -> Outcome:
        self.expire(call)
        return Outcome.DONE

    def matched(self, call: Expire) -> list[str]:
        return sorted(
            name
            for name, one in self.branches.items()
            if fnmatchcase(name, call.pattern) and not one.protected
        )

    def expire(self, call: Expire) -> dict[str, bool]:
        """By name, whether the sweep deletes the branch (in a dry run: whether it would)."""
        if call.dry_run:
            return {name: not self.needing(name) for name in self.matched(call)}
        return {name: self.remove(name) is Outcome.DONE for name in self.matched(call)}

    @apply.register
    def _(self, call: CreateTag) -> Outcome:
        metadata = {PROTECTED: "true"} if call.protected else {}
        return self._tag(call.name, call.at, metadata)

    def _tag(self, name: str, at: At, metadata: Mapping[str, str]) -> Outcome:
        there = self.tags.get(name)
        found = self.resolve(at)
        if isinstance(found, Outcome):
            return Outcome.UNSURE if found is Outcome.GOING and there else found
        if found[1] not in self.versions(found[0]):
            return Outcome.ABSENT
        if there is not None and (there.branch, there.version) != found:
            return Outcome.TAKEN
        self.tags[name] = there or TagTruth(*found, metadata)
        if found[0] in self.branches:
            self.branches[found[0]].state = State.OPEN
        return Outcome.DONE

    @apply.register
    def _(self, call: MoveTag) -> Outcome:
        if call.guarded and not call.force:
            return Outcome.PROTECTED
        found = self.resolve(call.at)
        if isinstance(found, Outcome):
            return found
        if found[1] not in self.versions(found[0]):
            return Outcome.ABSENT
        there = self.tags.get(call.name)
        branch = self.branches.get(found[0])
        if there is None or not call.fresh or (branch and branch.state.ending):
            return Outcome.CONFLICT
        self.tags[call.name] = TagTruth(*found, there.metadata)
        return Outcome.DONE

    @apply.register
    def _(self, call: DeleteTag) -> Outcome:
        there = self.tags.get(call.name)
        if there is None:
            return Outcome.DONE if call.missing_ok else Outcome.ABSENT
        if there.protected and not call.force:
            return Outcome.PROTECTED
        del self.tags[call.name]
        return Outcome.DONE

    @apply.register
    def _(self, call: SetMetadata) -> Outcome:
        refs: Mapping[str, BranchTruth | TagTruth] = (
            self.branches if call.kind == "branch" else self.tags
        )
        there = refs.get(call.name)
        if there is None or not call.fresh:
            return Outcome.CONFLICT
        if isinstance(there, BranchTruth) and there.state.ending:
            return Outcome.CONFLICT
        merged = {**there.metadata, **call.changes}
        metadata = {key: value for key, value in merged.items() if value is not None}
        refs[call.name] = replace(there, metadata=metadata)  # type: ignore[index]
        return Outcome.DONE

    @apply.register
    def _(self, call: ShallowClone) -> Outcome:
        found = self.resolve(call.at)
        pin = self.tags.get(call.pin)
        if isinstance(found, Outcome):
            return Outcome.UNSURE if found is Outcome.GOING and pin else found
        if pin and not call.at.pinned and pin.branch == found[0]:
            found = pin.branch, pin.version
        if call.target in self.clones:
            same = pin is not None and (pin.branch, pin.version) == found
            return Outcome.DONE if same else Outcome.TAKEN
        branch, version = found
        pinned = self._tag(call.pin, At(branch, version), {PROTECTED: "true", PIN: call.target})
        if pinned is Outcome.DONE:
            self.clones[call.target] = CloneTruth(branch, version, self.versions(branch)[version])
        return pinned

    @apply.register
    def _(self, call: Mend) -> Outcome:
        """A repair finishes what it can of one ref, and takes away what names nothing."""
        tag = self.tags.get(call.name)
        if call.kind == "tag" and tag and self.dangles(tag):
            del self.tags[call.name]
        there = self.branches.get(call.name)
        if call.kind == "branch" and there:
            if there.state.ending:
                self.remove(call.name)
            elif self._complete(call.name, there, patient=False) is Outcome.ABSENT:
                del self.branches[call.name]
        return Outcome.DONE

    @apply.register
    def _(self, call: Append) -> Outcome:
        self.write(call.branch, [*self.rows(call.branch), call.row])
        return Outcome.DONE

    def dangles(self, tag: TagTruth) -> bool:
        return tag.version not in self.versions(tag.branch)

    def mended(self) -> dict[str, set[Face | None]]:
        """What a repair without patience may make of each branch: in which order is its own."""
        found: dict[str, set[Face | None]] = {}
        for name, one in self.branches.items():
            found[name] = {one.face}
            needing = self.needing(name)
            if one.state is State.REMOVING or (one.state.ending and not needing):
                found[name] = {None}
            elif one.state.ending:
                found[name] = {Face(not one.versions)}
                if all(
                    need in self.branches and self.branches[need].state.ending for need in needing
                ):
                    found[name].add(None)
            elif not one.versions and name not in self.residue:
                found[name] = {Face() if one.fork in self.versions(one.parent) else None}
        return found

    def fates(self, call: Call) -> Fates:
        """What may be found once the call was cut short anywhere."""
        after = self.copy()
        if not isinstance(call, Repair):
            after.apply(call)
        branches: dict[str, set[Face | None]] = {}
        for name in {*self.branches, *after.branches}:
            refs = (self.branches.get(name), after.branches.get(name))
            branches[name] = {one.face if one else None for one in refs}
        tags: dict[str, set[TagTruth | None]] = {
            name: {self.tags.get(name), after.tags.get(name)} for name in {*self.tags, *after.tags}
        }
        born = {name: one for name, one in after.branches.items() if name not in self.branches}
        if isinstance(call, CreateBranch) and call.name not in self.branches:
            made = self.born(call)
            if isinstance(made, BranchTruth):
                born[call.name] = born.get(call.name, made)
                branches.setdefault(call.name, {None}).add(Face(headless=True))
        for name in self._going(call):
            branches[name] |= self._cut_short(name)
        if isinstance(call, CreateTag | ShallowClone):
            self._put_and_not_taken_back(call, tags)
        if isinstance(call, Repair):
            self._half_mended(branches, tags)
        return Fates(branches, tags, born)

    def _half_mended(
        self, branches: dict[str, set[Face | None]], tags: dict[str, set[TagTruth | None]]
    ) -> None:
        for name, faces in self.mended().items():
            branches[name] |= faces
        for name, tag in self.tags.items():
            if self._may_dangle(tag):
                tags[name].add(None)

    def _may_dangle(self, tag: TagTruth) -> bool:
        there = self.branches.get(tag.branch)
        return self.dangles(tag) or (there is not None and there.state is State.REMOVING)

    def _going(self, call: Call) -> list[str]:
        """The branches that a call may be deleting."""
        if isinstance(call, DeleteBranch):
            there = self.branches.get(call.name)
            return [call.name] if there and (call.force or not there.protected) else []
        if isinstance(call, Expire) and not call.dry_run:
            return self.matched(call)
        if isinstance(call, Repair):
            return [name for name, one in self.branches.items() if one.state.ending]
        return []

    def _cut_short(self, name: str) -> set[Face | None]:
        there = self.branches[name]
        if there.state is State.REMOVING:
            return {GOING_AWAY, None}
        marked: set[Face | None] = {Face(not there.versions, State.DELETING)}
        blocked = [need for need in self.needing(name) if need in self.tags]
        return marked | (set() if blocked else {GOING_AWAY})

    def _put_and_not_taken_back(
        self, call: CreateTag | ShallowClone, tags: dict[str, set[TagTruth | None]]
    ) -> None:
        """A dead call may leave its tag on a branch whose files are going."""
        name = call.name if isinstance(call, CreateTag) else call.pin
        metadata = {PROTECTED: "true", PIN: call.target} if isinstance(call, ShallowClone) else {}
        if isinstance(call, CreateTag) and call.protected:
            metadata = {PROTECTED: "true"}
        source = self.tags.get(call.at.tag or "")
        on = source.branch if source else call.at.branch
        there = self.branches.get(on)
        if there and there.state is State.REMOVING and name not in self.tags:
            left = {TagTruth(on, number, metadata) for number in there.versions}
            tags.setdefault(name, {None}).update(left)

    def adopt_branch(self, name: str, face: Face | None, born: BranchTruth | None) -> None:
        """Believe what was found of a branch, once it is known that it may be so."""
        if face is None:
            self.branches.pop(name, None)
            return
        if name not in self.branches:
            assert born is not None
            self.lives += 1
            self.branches[name] = replace(born, life=self.lives)
        there = self.branches[name]
        there.state = face.state
        if face.headless:
            there.versions.clear()
        elif not there.versions and face != GOING_AWAY:
            there.versions[there.fork] = self.versions(there.parent)[there.fork]

    def findings(self) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
        """What a check without patience must find and may find, as codes and subjects."""
        must: set[tuple[str, str]] = set()
        may: set[tuple[str, str]] = set()
        for name, one in self.branches.items():
            above = self.branches.get(one.parent)
            if one.state.ending:
                must.add(("unfinished-delete", f"branch {name}"))
                continue
            if not one.versions:
                code = "wrong-head" if name in self.residue else "ref-without-head"
                must.add((code, f"branch {name}"))
            if one.parent != MAIN and (above is None or above.life != one.parent_life):
                must.add(("lost-parent", f"branch {name}"))
        for name in self.residue:
            if name not in self.branches:
                must.add(("tree-without-ref", f"branch {name}"))
        for name, tag in self.tags.items():
            if self.dangles(tag):
                must.add(("dangling-tag", f"tag {name}"))
            elif self._may_dangle(tag):
                may.add(("dangling-tag", f"tag {name}"))
        return must, may


@dataclass(frozen=True)
class Event:
    """A call that ran from one moment to another; no outcome means that its process died."""

    call: Call
    began: int
    ended: int
    outcome: Outcome | None = None
    identifier: object = None

    def overlaps(self, other: Event) -> bool:
        return self is not other and self.began <= other.ended and other.began <= self.ended


def explanations(truth: Truth, events: list[Event], found: Found) -> Iterator[Truth]:
    """Every truth that shows the refs that were found, and that some order of the calls, one at a
    time, leads to with the outcomes they had.

    A call that had ended before another began comes before it. A call that lost a race, and says
    so, counts as not made; one whose process died may have got anywhere.
    """
    for after in _explain(truth, events, events, found):
        if after.shows(found):
            yield after


def _explain(truth: Truth, left: list[Event], events: list[Event], found: Found) -> Iterator[Truth]:
    if not left:
        yield truth
        return
    for event in left:
        rest = [other for other in left if other is not event]
        if any(other.ended < event.began for other in rest):
            continue
        for after in _after(truth, event, events, found):
            yield from _explain(after, rest, events, found)


def _after(truth: Truth, event: Event, events: list[Event], found: Found) -> Iterator[Truth]:
    if event.outcome is None:
        yield from _got_anywhere(truth, event.call, found)
        return
    after = truth.copy()
    if after.apply(event.call).allows(event.outcome) and _owns(after, event):
        yield after
    if any(event.overlaps(other) and _excuses(event, other) for other in events):
        yield truth
        name = getattr(event.call, "name", "")
        if event.outcome is Outcome.NEEDED and name in truth.branches:
            yield from _reopened(truth, name)


def _reopened(truth: Truth, name: str) -> Iterator[Truth]:
    """A refused deletion opens again what a dead one had marked."""
    if truth.branches[name].state is State.DELETING:
        after = truth.copy()
        after.branches[name].state = State.OPEN
        yield after


def _owns(truth: Truth, event: Event) -> bool:
    """Whether the branch that a create returned is the one that stands."""
    if not isinstance(event.call, CreateBranch) or event.identifier is None:
        return True
    there = truth.branches[event.call.name]
    if there.identifier is None:
        there.identifier = event.identifier
    return there.identifier == event.identifier


def _excuses(event: Event, other: Event) -> bool:
    """Whether a call at the same time explains that this one came to nothing."""
    call, rival = event.call, other.call
    if event.outcome is Outcome.CONFLICT:
        return True
    if isinstance(call, DeleteBranch):
        if event.outcome is Outcome.NEEDED:
            return isinstance(rival, CreateBranch | CreateTag | MoveTag | ShallowClone)
        return event.outcome is Outcome.DONE and isinstance(rival, DeleteBranch | Mend)
    if event.outcome is Outcome.TAKEN:
        return type(rival) is type(call) and subject(rival) == subject(call)
    return False


def subject(call: Call) -> object:
    return getattr(call, "name", getattr(call, "target", None))


def _got_anywhere(truth: Truth, call: Call, found: Found) -> Iterator[Truth]:
    """The truths that a call may leave whose process died."""
    yield truth
    fates = truth.fates(call)
    for name, faces in fates.branches.items():
        there = truth.branches.get(name)
        for face in faces - {there.face if there else None}:
            after = truth.copy()
            after.adopt_branch(name, face, fates.born.get(name))
            yield after
    for name, tags in fates.tags.items():
        for tag in tags - {truth.tags.get(name)}:
            yield truth.with_tag(name, tag)
    if isinstance(call, CreateTag | MoveTag) and call.name in found.tags:
        yield truth.with_tag(call.name, found.tags[call.name])
    if isinstance(call, CreateBranch) and call.name not in truth.branches:
        yield from _written_too_late(truth, call, found)
    whole = truth.copy()
    if isinstance(call, ShallowClone | SetMetadata) and whole.apply(call) is Outcome.DONE:
        yield whole


def _written_too_late(truth: Truth, call: CreateBranch, found: Found) -> Iterator[Truth]:
    """A ref whose writer died before it could see that its parent had gone."""
    there = found.branches.get(call.name)
    if there is not None and there.parent == call.source.branch not in (MAIN, *truth.branches):
        after = truth.copy()
        after.lives += 1
        after.branches[call.name] = BranchTruth(
            there.parent, -1, there.fork, after.lives, dict(there.metadata)
        )
        yield after
