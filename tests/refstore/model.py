"""What one dataset should hold, as plain values: a truth of its own to hold the library against.

It knows the rules of the ref store (who may take, need and delete what) and never asks the library
or the disk for its expectation. Only where a call was cut short is it told what was found, and
`model_fates` then says whether that could be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import singledispatchmethod

from tests.refstore.model_values import (
    GOING_AWAY,
    MAIN,
    PIN,
    PROTECTED,
    Append,
    At,
    BranchTruth,
    Call,
    CloneTruth,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    DeleteTag,
    Expire,
    Face,
    Found,
    Mend,
    MoveTag,
    Outcome,
    Residue,
    Rows,
    SetMetadata,
    ShallowClone,
    State,
    TagTruth,
    TakeBack,
)


@dataclass
class Truth:
    main: dict[int, Rows]
    branches: dict[str, BranchTruth] = field(default_factory=dict)
    tags: dict[str, TagTruth] = field(default_factory=dict)
    clones: dict[str, CloneTruth] = field(default_factory=dict)
    residue: dict[str, Residue] = field(default_factory=dict)
    lives: int = 0
    rewritten: frozenset[str] = frozenset()  # the branches whose ref no longer dates their life

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
            self.rewritten,
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

    def undated(self, name: str, there: BranchTruth) -> bool:
        """Whether remains may be what followed a fork that was cleaned up, for all one can tell."""
        return self.residue[name].lowest > there.fork and name in self.rewritten

    def _complete(self, name: str, there: BranchTruth, *, patient: bool) -> Outcome:
        if there.versions:
            return Outcome.DONE
        if name in self.residue and (patient or self.undated(name, there)):
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
        held = self.tags.get(call.name)
        if call.held is None and held is None:
            return Outcome.ABSENT
        guarded = call.guarded if call.held else held is not None and held.protected
        if guarded and not call.force:
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
            return Outcome.CONFLICT if call.held or there else Outcome.ABSENT
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
    def _(self, call: TakeBack) -> Outcome:
        there = self.branches.get(call.name)
        if call.put is None:
            if there is not None and there.life == call.life:
                self.remove(call.name)
        elif self.tags.get(call.name) == call.put:
            self.tags.pop(call.name)
            if call.before is not None:
                self.tags[call.name] = call.before
        return Outcome.DONE

    @apply.register
    def _(self, call: Append) -> Outcome:
        self.write(call.branch, [*self.rows(call.branch), call.row])
        return Outcome.DONE

    def dangles(self, tag: TagTruth) -> bool:
        return tag.version not in self.versions(tag.branch)

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
