"""The ref store against a plain model, with calls of other stores inside a call of one.

A long random session: `HYPOTHESIS_PROFILE=nightly pytest tests/refstore/test_stateful_pairs.py`.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from airflow_provider_lancerefs.refstore import Branch, LanceRefsError, RefStore
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.storage import Storage
from tests.refstore.faults import Crash, CrashingDataset, Fuse, Suspended
from tests.refstore.model_fates import fates
from tests.refstore.model_orders import Event, explanations
from tests.refstore.model_values import (
    MAIN,
    PROTECTED,
    Append,
    At,
    Call,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    DeleteTag,
    Expire,
    Mend,
    MoveTag,
    Outcome,
    Repair,
    SetMetadata,
)
from tests.refstore.performing import outcome_of, perform
from tests.refstore.sessions import SESSION, OneDataset

pytestmark = pytest.mark.timeout(7200)

BRANCHES = ("a", "a/b", "b")
TAGS = ("t", "u-1")
LATE = 1000
OPERATIONS = st.sampled_from([0, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 10, 12, 15])
POINTS = 2  # one before and one after every storage operation


@dataclass(frozen=True)
class Result:
    """How a call ended: what it returned, or why it failed."""

    call: Call
    value: Any
    failure: BaseException | None

    def events(self, began: int, ended: int, refs: list[tuple[str, str]]) -> list[Event]:
        """What there is to explain; a sweep and a repair are many calls, each for one ref."""
        if self.failure is not None and not isinstance(self.failure, LanceRefsError):
            raise self.failure
        if isinstance(self.call, Expire) and self.failure is None:
            return [
                Event(DeleteBranch(one.branch), began, ended, _swept(one.deleted, one.reason))
                for one in self.value
            ]
        if isinstance(self.call, Repair) and self.failure is None:
            return [Event(Mend(kind, name), began, ended, Outcome.DONE) for kind, name in refs]
        outcome = outcome_of(self.failure) if self.failure else Outcome.DONE
        identifier = self.value.identifier if isinstance(self.value, Branch) else None
        if not isinstance(self.call, CreateBranch):
            identifier = None
        return [Event(self.call, began, ended, outcome, identifier)]


def _swept(deleted: bool, reason: str) -> Outcome:
    if deleted:
        return Outcome.DONE
    if reason.startswith("needed by"):
        return Outcome.NEEDED
    return Outcome.PROTECTED if reason == "protected" else Outcome.CONFLICT


class Pairs(OneDataset):
    """Two callers: one is stopped within a call while the other makes calls of its own."""

    @initialize(
        parents=st.lists(st.sampled_from(["", *BRANCHES]), min_size=1, max_size=3),
        tagged=st.sampled_from(["", *BRANCHES]),
    )
    def begin(self, parents: list[str], tagged: str) -> None:
        for name, parent in zip(BRANCHES, parents, strict=False):
            source = At(parent) if parent in self.truth.branches else At()
            self.settle(CreateBranch(name, source))
            row = self.row()
            self.place.branch(name).append(row)
            self.truth.apply(Append(name, row))
        if tagged in self.truth.branches:
            self.settle(CreateTag("t", At(tagged)))

    def settle(self, call: Call) -> None:
        """Make a call that nothing disturbs."""
        perform(self.store, call)
        assert self.truth.apply(call) is Outcome.DONE
        self.identify()

    def identify(self) -> None:
        for name, one in self.disk.found(self.spoilt).branches.items():
            self.truth.branches[name].identifier = one.identifier

    def names(self) -> st.SearchStrategy[str]:
        known = sorted(self.truth.branches)
        free = [name for name in BRANCHES if name not in known]
        return st.sampled_from([*known, *free, *free])

    def sources(self) -> st.SearchStrategy[At]:
        found = [At(), At(number=1), *(At(MAIN, tag=name) for name in self.tags())]
        for name in sorted(self.truth.branches):
            versions = sorted(self.truth.branches[name].versions)
            found += [At(name), At(name), *(At(name, number) for number in versions)]
        return st.sampled_from(found)

    def calls(self) -> st.SearchStrategy[Call]:
        """Calls about few names, so that they meet."""
        names, sources, tags = self.names(), self.sources(), st.sampled_from(TAGS)
        missing_ok, force = st.booleans(), st.booleans()
        changes = st.sampled_from([{PROTECTED: "true"}, {PROTECTED: None}, {"k": "2"}])
        create = st.builds(
            CreateBranch, names, sources, st.sampled_from([{}, {}, {"k": "v"}, {PROTECTED: "true"}])
        )
        delete = st.builds(DeleteBranch, names, missing_ok, force)
        create_tag = st.builds(CreateTag, tags, sources, st.sampled_from([False, False, True]))
        return st.one_of(
            create,
            create,
            delete,
            delete,
            delete,
            create_tag,
            create_tag,
            st.builds(MoveTag, tags, sources, force),
            st.builds(DeleteTag, tags, missing_ok, force),
            st.builds(SetMetadata, st.just("branch"), names, changes),
            st.builds(SetMetadata, st.just("tag"), tags, changes),
            st.builds(Expire, st.sampled_from(["*", "a*", "b"])),
            st.just(Repair(patient=True)),
        )

    def rivals(self, slow: Call) -> st.SearchStrategy[Call]:
        """Mostly calls that get in the way of the slow one."""
        at = getattr(slow, "at", getattr(slow, "source", At()))
        tagged = self.truth.tags.get(at.tag or "")
        on = {tagged.branch if tagged else at.branch} - {MAIN}
        if isinstance(slow, CreateBranch | DeleteBranch):
            on.add(slow.name)
        if not on:
            return self.calls()
        names = st.sampled_from(sorted(on))
        return st.one_of(
            self.calls(),
            st.builds(DeleteBranch, names, st.booleans(), st.booleans()),
            st.builds(CreateBranch, names, self.sources()),
            st.builds(CreateBranch, self.names(), names.map(At)),
            st.builds(CreateTag, st.sampled_from(TAGS), names.map(At)),
        )

    @rule(data=st.data())
    def interleave(self, data: st.DataObject) -> None:
        """A call is stopped, once or twice, and somebody else's call runs from end to end.

        No repair runs within a repair: cached properties of Python 3.11 share one lock, which the
        thread that is stopped in one of them keeps.
        """
        self.sound = False
        slow = data.draw(self.calls(), "the slow call")
        others = data.draw(st.lists(self.rivals(slow), min_size=1, max_size=2), "the others")
        if isinstance(slow, Repair):
            others = [one for one in others if not isinstance(one, Repair)] or [DeleteTag("t")]
        moments = [data.draw(OPERATIONS, "operations") for _ in others]
        self.meet(slow, list(zip(moments, others, strict=True)))
        self.sound = True

    def meet(self, slow: Call, others: list[tuple[int, Call]]) -> bool:
        """Let the others run, each after so many more operations of the slow call; and explain
        what came of it. False if the slow call had ended before."""
        self.sound = False
        refs = self.refs(slow, *(other for _, other in others))
        events: list[Event] = []
        ended = LATE
        suspended = Suspended(self.dataset.storage, lambda storage: self.within(storage, slow))
        try:
            for moment, (operations, other) in enumerate(others, 1):
                suspended.advance(POINTS * operations)
                if suspended.ended:
                    ended = min(ended, 2 * moment - 1)
                events += self.alone(other).events(2 * moment, 2 * moment, refs)
        finally:
            suspended.finish()
        result = Result(slow, suspended.value, suspended.failure)
        events += result.events(0, ended, refs)
        self.explain(events)
        return ended == LATE

    def refs(self, *calls: Call) -> list[tuple[str, str]]:
        branches = {*self.truth.branches}
        branches |= {call.name for call in calls if isinstance(call, CreateBranch)}
        tags = {*self.truth.tags, *(call.name for call in calls if isinstance(call, CreateTag))}
        return [
            *(("branch", name) for name in sorted(branches)),
            *(("tag", name) for name in sorted(tags)),
        ]

    def within(self, storage: Storage, call: Call) -> Any:
        return perform(RefStore(replace(self.dataset_for(call), storage=storage)), call)

    def alone(self, call: Call) -> Result:
        try:
            return Result(call, perform(RefStore(self.dataset_for(call)), call), None)
        except LanceRefsError as failure:
            return Result(call, None, failure)

    def dataset_for(self, call: Call) -> Dataset:
        return self.hasty if isinstance(call, Repair) else self.dataset

    def explain(self, events: list[Event]) -> None:
        found = self.disk.found(self.spoilt)
        after = next(explanations(self.truth, events, found), None)
        assert after is not None, (self.truth, events, found)
        self.truth = after
        self.identify()
        self.look_at_residue()

    @precondition(lambda self: self.truth.branches)
    @rule(data=st.data(), death=st.integers(1, 3))
    def die_deleting(self, data: st.DataObject, death: int) -> None:
        """Somebody died within a deletion; whoever comes next meets a marked branch."""
        self.sound = False
        call = DeleteBranch(data.draw(st.sampled_from(sorted(self.truth.branches)), "name"))
        self.die(call, death)

    @rule(data=st.data())
    def die_creating(self, data: st.DataObject) -> None:
        """Somebody died between a ref and its head."""
        call = CreateBranch(data.draw(self.names(), "name"), data.draw(self.sources(), "source"))
        if call.name not in self.truth.branches:
            self.die(call, 1)

    def die(self, call: Call, death: int) -> None:
        self.sound = False
        store = RefStore(CrashingDataset.over(self.dataset, Fuse(death)))
        with contextlib.suppress(Crash, LanceRefsError):
            perform(store, call)
        self.adopt(fates(self.truth, call).branches, call)
        self.identify()
        self.sound = True

    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        branch = data.draw(st.sampled_from([MAIN, *self.standing()]), "branch")
        row = self.row()
        place = self.place if branch == MAIN else self.place.branch(branch)
        place.append(row)
        self.truth.apply(Append(branch, row))

    @invariant()
    def all_is_well(self) -> None:
        self.agrees()


TestPairs = Pairs.TestCase
TestPairs.settings = settings(SESSION, stateful_step_count=30)


MEETINGS: list[tuple[Call, Call]] = [
    (CreateBranch("b"), DeleteBranch("b")),
    (CreateBranch("b"), CreateBranch("b")),
    (CreateBranch("b"), CreateBranch("b", At("a"))),
    (CreateBranch("b"), Repair(patient=True)),
    (CreateBranch("a/b", At("a")), DeleteBranch("a")),
    (CreateTag("u-1", At("a")), DeleteBranch("a")),
    (CreateTag("u-1", At("a")), DeleteTag("u-1")),
    (MoveTag("t", At("a")), DeleteBranch("a")),
    (MoveTag("t", At("a")), DeleteTag("t")),
    (DeleteBranch("a"), CreateBranch("b", At("a"))),
    (DeleteBranch("a"), CreateTag("u-1", At("a"))),
    (DeleteBranch("a"), MoveTag("t", At("a"))),
    (DeleteBranch("a"), DeleteBranch("a")),
    (DeleteBranch("a"), SetMetadata("branch", "a", {PROTECTED: "true"})),
    (DeleteBranch("a"), Repair(patient=True)),
    (Expire("*"), CreateTag("u-1", At("a"))),
    (Repair(patient=True), CreateTag("u-1", At("a"))),
    (Repair(patient=True), DeleteBranch("a")),
]


def spelt(call: Call) -> str:
    return "-".join(str(part) for part in (type(call).__name__, *vars(call).values()) if part)


@pytest.mark.parametrize(
    ("slow", "other"),
    [pytest.param(*pair, id="..".join(spelt(call) for call in pair)) for pair in MEETINGS],
)
def test_calls_may_meet_at_every_point(slow: Call, other: Call) -> None:
    """Wherever the slow call is when the other one runs, some order explains what came of it."""
    operations, met = 1, True
    while met:
        pairs = Pairs()
        try:
            pairs.begin([""], "")
            pairs.settle(CreateTag("t", At()))
            met = pairs.meet(slow, [(operations, other)])
            pairs.agrees()
            pairs.sound = True
        finally:
            pairs.teardown()
        operations += 1
