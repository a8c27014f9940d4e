"""What may be found once a call was cut short, and what a check or a repair then makes of it."""

from __future__ import annotations

from tests.refstore.model import Truth
from tests.refstore.model_values import (
    GOING_AWAY,
    MAIN,
    PIN,
    PROTECTED,
    BranchTruth,
    Call,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    Expire,
    Face,
    Fates,
    Repair,
    ShallowClone,
    State,
    TagTruth,
)


def fates(truth: Truth, call: Call) -> Fates:
    """What may be found once the call was cut short anywhere."""
    after = truth.copy()
    if not isinstance(call, Repair):
        after.apply(call)
    branches: dict[str, set[Face | None]] = {}
    for name in {*truth.branches, *after.branches}:
        refs = (truth.branches.get(name), after.branches.get(name))
        branches[name] = {one.face if one else None for one in refs}
    tags: dict[str, set[TagTruth | None]] = {
        name: {truth.tags.get(name), after.tags.get(name)} for name in {*truth.tags, *after.tags}
    }
    born = {name: one for name, one in after.branches.items() if name not in truth.branches}
    if isinstance(call, CreateBranch) and call.name not in truth.branches:
        made = truth.born(call)
        if isinstance(made, BranchTruth):
            born[call.name] = born.get(call.name, made)
            branches.setdefault(call.name, {None}).add(Face(headless=True))
    for name in _going(truth, call):
        branches[name] |= _cut_short(truth, name)
    if isinstance(call, CreateTag | ShallowClone):
        _put_and_not_taken_back(truth, call, tags)
    if isinstance(call, Repair):
        _half_mended(truth, branches, tags)
    return Fates(branches, tags, born)


def mended(truth: Truth) -> dict[str, set[Face | None]]:
    """What a repair without patience may make of each branch: in which order is its own."""
    found: dict[str, set[Face | None]] = {}
    for name, one in truth.branches.items():
        found[name] = {one.face}
        needing = truth.needing(name)
        if one.state is State.REMOVING or (one.state.ending and not needing):
            found[name] = {None}
        elif one.state.ending:
            found[name] = {Face(not one.versions)}
            if all(
                need in truth.branches and truth.branches[need].state.ending for need in needing
            ):
                found[name].add(None)
        elif not one.versions and name not in truth.residue:
            found[name] = {Face() if one.fork in truth.versions(one.parent) else None}
        elif not one.versions and not truth.undated(name, one):
            found[name].add(Face() if one.fork in truth.versions(one.parent) else None)
    return found


def findings(truth: Truth) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """What a check without patience must find and may find, as codes and subjects."""
    must: set[tuple[str, str]] = set()
    may: set[tuple[str, str]] = set()
    for name, one in truth.branches.items():
        above = truth.branches.get(one.parent)
        if one.state.ending:
            must.add(("unfinished-delete", f"branch {name}"))
            continue
        must |= _headless(truth, name, one)
        if name in truth.residue and not one.versions:
            may.add(("wrong-head", f"branch {name}"))
        if one.parent != MAIN and (above is None or above.life != one.parent_life):
            must.add(("lost-parent", f"branch {name}"))
    for name in truth.residue:
        if name not in truth.branches:
            must.add(("tree-without-ref", f"branch {name}"))
    for name, tag in truth.tags.items():
        if truth.dangles(tag):
            must.add(("dangling-tag", f"tag {name}"))
        elif _may_dangle(truth, tag):
            may.add(("dangling-tag", f"tag {name}"))
    return must, may


def _half_mended(
    truth: Truth, branches: dict[str, set[Face | None]], tags: dict[str, set[TagTruth | None]]
) -> None:
    for name, faces in mended(truth).items():
        branches[name] |= faces
    for name, tag in truth.tags.items():
        if _may_dangle(truth, tag):
            tags[name].add(None)


def _may_dangle(truth: Truth, tag: TagTruth) -> bool:
    there = truth.branches.get(tag.branch)
    return truth.dangles(tag) or (there is not None and there.state is State.REMOVING)


def _going(truth: Truth, call: Call) -> list[str]:
    """The branches that a call may be deleting."""
    if isinstance(call, DeleteBranch):
        there = truth.branches.get(call.name)
        return [call.name] if there and (call.force or not there.protected) else []
    if isinstance(call, Expire) and not call.dry_run:
        return truth.matched(call)
    if isinstance(call, Repair):
        return [name for name, one in truth.branches.items() if one.state.ending]
    return []


def _cut_short(truth: Truth, name: str) -> set[Face | None]:
    there = truth.branches[name]
    if there.state is State.REMOVING:
        return {GOING_AWAY, None}
    marked: set[Face | None] = {Face(not there.versions, State.DELETING)}
    blocked = [need for need in truth.needing(name) if need in truth.tags]
    return marked | (set() if blocked else {GOING_AWAY})


def _put_and_not_taken_back(
    truth: Truth, call: CreateTag | ShallowClone, tags: dict[str, set[TagTruth | None]]
) -> None:
    """A dead call may leave its tag on a branch whose files are going."""
    name = call.name if isinstance(call, CreateTag) else call.pin
    metadata = {PROTECTED: "true", PIN: call.target} if isinstance(call, ShallowClone) else {}
    if isinstance(call, CreateTag) and call.protected:
        metadata = {PROTECTED: "true"}
    source = truth.tags.get(call.at.tag or "")
    on = source.branch if source else call.at.branch
    there = truth.branches.get(on)
    if there and there.state is State.REMOVING and name not in truth.tags:
        left = {TagTruth(on, number, metadata) for number in there.versions}
        tags.setdefault(name, {None}).update(left)


def _headless(truth: Truth, name: str, one: BranchTruth) -> set[tuple[str, str]]:
    """Later remains may pass for what followed a fork that was cleaned up."""
    if one.versions or (name in truth.residue and truth.undated(name, one)):
        return set()
    return {("wrong-head" if name in truth.residue else "ref-without-head", f"branch {name}")}
