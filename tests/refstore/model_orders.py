"""Whether overlapping calls can be explained by some order in which they ran one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.refstore.model import Truth
from tests.refstore.model_values import (
    Call,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    DeleteTag,
    Found,
    Mend,
    MoveTag,
    Outcome,
    State,
    TakeBack,
)


@dataclass(frozen=True)
class Event:
    """A call that ran from one moment to another, and how it ended."""

    call: Call
    began: int
    ended: int
    outcome: Outcome
    identifier: object = None

    def overlaps(self, other: Event) -> bool:
        return self is not other and self.began <= other.ended and other.began <= self.ended


def explanations(truth: Truth, events: list[Event], found: Found) -> Iterator[Truth]:
    """Every truth that shows the refs that were found, and that some order of the calls, one at a
    time, leads to with the outcomes they had.

    A call that had ended before another began comes before it. A call that lost a race, and says
    so, counts as not made, or as made and taken back later.
    """
    for after in _explain(truth, events, events):
        if after.shows(found):
            yield after


def _explain(truth: Truth, left: list[Event], events: list[Event]) -> Iterator[Truth]:
    if not left:
        yield truth
        return
    for event in left:
        rest = [other for other in left if other is not event]
        if any(other.ended < event.began for other in rest):
            continue
        for after, late in _after(truth, event, events):
            yield from _explain(after, [*rest, *late], events)


def _after(
    truth: Truth, event: Event, events: list[Event]
) -> Iterator[tuple[Truth, tuple[Event, ...]]]:
    after = truth.copy()
    if after.apply(event.call).allows(event.outcome) and _owns(after, event):
        yield after, ()
    rivals = [other for other in events if event.overlaps(other) and _excuses(event, other)]
    if not rivals:
        return
    yield truth, ()
    if event.outcome is Outcome.NEEDED:
        yield from ((one, ()) for one in _reopened(truth, event.call))
    if event.outcome is Outcome.CONFLICT and any(_finishes(other, event) for other in rivals):
        after = truth.copy()
        after.apply(event.call)
        yield after, ()
    if event.outcome in (Outcome.CONFLICT, Outcome.ABSENT):
        yield from _made_for_nothing(truth, event)


def _finishes(repair: Event, deletion: Event) -> bool:
    """Whether a repair may have removed what a sweep had marked, which then reports a conflict."""
    return (
        isinstance(deletion.call, DeleteBranch)
        and isinstance(repair.call, Mend)
        and (repair.call.kind, repair.call.name) == ("branch", deletion.call.name)
    )


def _reopened(truth: Truth, call: Call) -> Iterator[Truth]:
    """A refused deletion opens again what a dead one had marked."""
    name = getattr(call, "name", "")
    if name in truth.branches and truth.branches[name].state is State.DELETING:
        after = truth.copy()
        after.branches[name].state = State.OPEN
        yield after


def _made_for_nothing(truth: Truth, event: Event) -> Iterator[tuple[Truth, tuple[Event, ...]]]:
    """A call that others saw the effect of, before it took that back."""
    call = event.call
    if not isinstance(call, CreateBranch | CreateTag | MoveTag):
        return
    after = truth.copy()
    if after.apply(call) is not Outcome.DONE:
        return
    if isinstance(call, CreateBranch):
        back = TakeBack(call.name, life=after.branches[call.name].life)
        was_there = call.name in truth.branches
    else:
        back = TakeBack(call.name, put=after.tags[call.name], before=truth.tags.get(call.name))
        was_there = isinstance(call, CreateTag) and call.name in truth.tags
    late = Event(back, event.began, event.ended, Outcome.DONE)
    yield after, () if was_there else (late,)


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
    if isinstance(call, Mend) or event.outcome in (Outcome.CONFLICT, Outcome.ABSENT):
        return True
    if isinstance(call, DeleteBranch):
        if event.outcome is Outcome.NEEDED:
            return isinstance(rival, CreateBranch | CreateTag | MoveTag)
        return event.outcome is Outcome.DONE and isinstance(rival, DeleteBranch | Mend)
    if isinstance(call, DeleteTag):
        return isinstance(rival, DeleteTag | Mend) and subject(rival) == subject(call)
    if event.outcome is Outcome.TAKEN:
        return type(rival) is type(call) and subject(rival) == subject(call)
    return False


def subject(call: Call) -> object:
    return getattr(call, "name", getattr(call, "target", None))
