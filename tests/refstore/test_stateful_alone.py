"""The ref store against a plain model: one caller, who may die at any durable write.

A long random session: `HYPOTHESIS_PROFILE=nightly pytest tests/refstore/test_stateful_alone.py`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import replace
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from airflow_provider_lancerefs.refstore import (
    LanceRefsError,
    OutcomeUnknownError,
    RefStore,
    RefusedError,
    StorageError,
)
from tests.refstore.faults import Crash, CrashingDataset
from tests.refstore.model import Truth
from tests.refstore.model_fates import fates
from tests.refstore.model_values import (
    MAIN,
    PIN,
    PROTECTED,
    Append,
    At,
    Call,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    DeleteTag,
    Expire,
    MoveTag,
    Outcome,
    Repair,
    SetMetadata,
    ShallowClone,
    State,
    TagTruth,
)
from tests.refstore.performing import FAULTS, Fault, Held, outcome_of, perform
from tests.refstore.sessions import BRANCHES, CLONES, SESSION, TAGS, OneDataset
from tests.tables import Place

pytestmark = pytest.mark.timeout(7200)


class Alone(OneDataset):
    """One caller, whose process may die at any durable write."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[tuple[str, str], Held] = {}

    def make(self, call: Call, fault: Fault | None = None) -> Any:
        """Make a call and compare how it ends; if it dies, look at what it left and go on."""
        self.sound = False
        after = self.truth.copy()
        expected = after.apply(call)
        crashed, seen, value = self.attempt(call, fault)
        event(f"{type(call).__name__}: {'died' if crashed else seen}")
        if not crashed:
            assert expected.allows(seen), f"{call}: {seen}, expected {expected}"
            self.truth = after
            self.look_at_residue()
            return value
        assert fault is not None
        self.adopt_clones(call, after)
        self.adopt(fates(self.truth, call).branches, call)
        if fault.then == "repair":
            self.repaired()
        if fault.then == "retry":
            return self.retry(call, expected)
        return None

    def retry(self, call: Call, expected: Outcome) -> Any:
        """Whatever a dead call left, the same call can be made again and gets there."""
        kind = "tag" if isinstance(call, MoveTag) else getattr(call, "kind", "")
        if isinstance(call, MoveTag | SetMetadata):
            fresh = self.disk.ref(kind, call.name) == call.held.data  # type: ignore[attr-defined]
            call = replace(call, fresh=fresh)
        again = self.truth.copy().apply(call)
        if expected is Outcome.DONE:
            over = {
                DeleteBranch: Outcome.ABSENT,
                DeleteTag: Outcome.ABSENT,
                MoveTag: Outcome.CONFLICT,
                SetMetadata: Outcome.CONFLICT,
            }
            assert again in (Outcome.DONE, over.get(type(call)))
        return self.make(call)

    def attempt(self, call: Call, fault: Fault | None) -> tuple[bool, Outcome, Any]:
        dataset = self.dataset
        if isinstance(call, Repair):
            dataset = self.hasty
        if isinstance(call, CreateBranch):
            dataset = self.patient if call.patient else self.hasty
        if fault is not None:
            dataset = CrashingDataset.over(dataset, fault.fuse())
        held = getattr(call, "held", None)
        real = replace(call, held=held.ref) if held else call  # type: ignore[call-arg]
        try:
            value = perform(RefStore(dataset), real)
        except Crash:
            return True, Outcome.UNSURE, None
        except LanceRefsError as error:
            if isinstance(dataset, CrashingDataset) and dataset.fuse.blown:
                return True, Outcome.UNSURE, None
            return False, outcome_of(error), None
        if isinstance(dataset, CrashingDataset) and isinstance(call, Expire | Repair):
            return dataset.fuse.blown, Outcome.DONE, value
        return False, Outcome.DONE, value

    def adopt_clones(self, call: Call, after: Truth) -> None:
        if isinstance(call, ShallowClone) and os.path.exists(call.target):
            self.truth.clones[call.target] = after.clones[call.target]

    def hold(self, kind: str, name: str) -> Held:
        data = self.disk.ref(kind, name)
        assert data is not None
        return Held(getattr(self.store, kind)(name), data)

    @initialize(parents=st.lists(st.sampled_from(["", *BRANCHES]), max_size=len(BRANCHES)))
    def begin(self, parents: list[str]) -> None:
        """Some branches to begin with, each with a row of its own."""
        for name, parent in zip(BRANCHES, parents, strict=False):
            source = At(parent) if parent in self.truth.branches else At()
            self.created(CreateBranch(name, source), None)
            row = self.row()
            self.place.branch(name).append(row)
            self.truth.apply(Append(name, row))

    @rule(data=st.data(), name=st.sampled_from(BRANCHES), fault=FAULTS)
    def create_branch(self, data: st.DataObject, name: str, fault: Fault | None) -> None:
        source = data.draw(self.revisions(), "source")
        metadata = data.draw(st.sampled_from([{}, {"k": "v"}, {PROTECTED: "true"}]), "metadata")
        patient = data.draw(st.booleans(), "patient")
        self.created(CreateBranch(name, source, metadata, patient), fault)

    def created(self, call: CreateBranch, fault: Fault | None) -> None:
        branch = self.make(call, fault)
        if branch is not None:
            one = self.truth.branches[call.name]
            assert (branch.name, branch.parent, branch.parent_version) == (
                call.name,
                one.parent,
                one.fork,
            )

    @precondition(lambda self: self.truth.branches)
    @rule(data=st.data(), pinned=st.booleans(), fault=FAULTS)
    def create_branch_again(self, data: st.DataObject, pinned: bool, fault: Fault | None) -> None:
        """The same call once more, or with the version spelt out."""
        name = data.draw(st.sampled_from(sorted(self.truth.branches)), "name")
        one = self.truth.branches[name]
        self.created(CreateBranch(name, At(one.parent, one.fork if pinned else None)), fault)

    @rule(data=st.data(), missing_ok=st.booleans(), force=st.booleans(), fault=FAULTS)
    def delete_branch(
        self, data: st.DataObject, missing_ok: bool, force: bool, fault: Fault | None
    ) -> None:
        known = sorted(self.truth.branches)
        name = data.draw(st.sampled_from([*known, *known, *known, *BRANCHES]), "name")
        there = name in self.truth.branches
        deleted = self.make(DeleteBranch(name, missing_ok, force), fault)
        if fault is None and deleted is not None:
            assert deleted is there

    @rule(
        data=st.data(),
        name=st.sampled_from(TAGS),
        protected=st.sampled_from([0, 0, 1]),
        fault=FAULTS,
    )
    def create_tag(
        self, data: st.DataObject, name: str, protected: int, fault: Fault | None
    ) -> None:
        at = data.draw(self.revisions(), "at")
        tag = self.make(CreateTag(name, at, bool(protected)), fault)
        if tag is not None:
            self.held.setdefault(("tag", name), Held(tag, self.disk.ref("tag", name) or b""))

    @precondition(
        lambda self: any(one.metadata.get(PIN) is None for one in self.truth.tags.values())
    )
    @rule(data=st.data(), force=st.booleans(), earlier=st.booleans(), fault=FAULTS)
    def move_tag(
        self, data: st.DataObject, force: bool, earlier: bool, fault: Fault | None
    ) -> None:
        """With the tag as it is, or as it was some time ago."""
        movable = sorted(name for name, one in self.truth.tags.items() if PIN not in one.metadata)
        name = data.draw(st.sampled_from(movable), "name")
        held = self.held.get(("tag", name)) if earlier else None
        held = held or self.hold("tag", name)
        fresh = self.disk.ref("tag", name) == held.data
        at = data.draw(self.revisions(), "at")
        self.make(MoveTag(name, at, force, fresh, held.ref.protected, held), fault)

    @rule(data=st.data(), missing_ok=st.booleans(), force=st.booleans(), fault=FAULTS)
    def delete_tag(
        self, data: st.DataObject, missing_ok: bool, force: bool, fault: Fault | None
    ) -> None:
        known = self.tags()
        name = data.draw(st.sampled_from([*known, *known, *TAGS]), "name")
        self.make(DeleteTag(name, missing_ok, force), fault)

    @precondition(lambda self: self.truth.branches or self.truth.tags)
    @rule(data=st.data(), earlier=st.booleans(), fault=FAULTS)
    def set_metadata(self, data: st.DataObject, earlier: bool, fault: Fault | None) -> None:
        """Protects, frees, or notes something, on a ref as it is or as it was some time ago."""
        refs = [("branch", name) for name in sorted(self.truth.branches)]
        refs += [("tag", name) for name in sorted(self.truth.tags) if name in TAGS]
        if not refs:
            return
        kind, name = data.draw(st.sampled_from(refs), "ref")
        held = self.held.get((kind, name)) if earlier else None
        held = held or self.hold(kind, name)
        fresh = self.disk.ref(kind, name) == held.data
        changes: dict[str, str | None] = data.draw(
            st.sampled_from([{PROTECTED: "true"}, {PROTECTED: None}, {"k": "2"}, {"k": None}]),
            "changes",
        )
        self.make(SetMetadata(kind, name, changes, fresh, held), fault)

    @precondition(lambda self: self.truth.branches or self.truth.tags)
    @rule(data=st.data())
    def keep_in_mind(self, data: st.DataObject) -> None:
        """Read a ref now, to change it later."""
        refs = [("branch", name) for name in sorted(self.truth.branches)]
        refs += [("tag", name) for name in self.tags()]
        kind, name = data.draw(st.sampled_from(refs), "ref")
        self.held[kind, name] = self.hold(kind, name)

    @rule(data=st.data(), how=st.sampled_from(["append", "append", "overwrite", "delete"]))
    def write(self, data: st.DataObject, how: str) -> None:
        branch = data.draw(st.sampled_from([MAIN, *self.standing()]), "branch")
        place = self.place if branch == MAIN else self.place.branch(branch)
        rows: tuple[int, ...] = self.truth.rows(branch)
        if how == "delete":
            place.delete("n % 2 = 0")
            rows = tuple(row for row in rows if row % 2)
        else:
            row = self.row()
            rows = (row,) if how == "overwrite" else (*rows, row)
            getattr(place, how)(row)
        assert self.truth.write(branch, rows) == place.open().version

    @rule(data=st.data(), name=st.sampled_from(BRANCHES))
    def pylance_creates_branch(self, data: st.DataObject, name: str) -> None:
        """Another tool's branch is a branch like any other."""
        branch = data.draw(st.sampled_from([MAIN, *self.open_branches()]), "from")
        if name in self.truth.branches or name in self.disk.trees():
            return
        number = max(self.truth.versions(branch))
        source = None if branch == MAIN else branch
        self.place.open().create_branch(name, (source, number))
        assert self.truth.apply(CreateBranch(name, At(branch, number))) is Outcome.DONE

    def open_branches(self) -> list[str]:
        return [
            name
            for name in self.standing()
            if not self.truth.branches[name].state.ending and name not in self.truth.residue
        ]

    @rule(data=st.data(), name=st.sampled_from(TAGS))
    def pylance_creates_tag(self, data: st.DataObject, name: str) -> None:
        branch = data.draw(st.sampled_from([MAIN, *self.open_branches()]), "on")
        if name in self.truth.tags:
            return
        number = max(self.truth.versions(branch))
        self.place.open().tags.create(name, (None if branch == MAIN else branch, number))
        self.truth.tags[name] = TagTruth(branch, number)

    @precondition(lambda self: self.truth.branches)
    @rule(data=st.data())
    def pylance_deletes_branch(self, data: st.DataObject) -> None:
        """pylance deletes what nothing needs, and leaves the files of one with branches below."""
        free = [
            name
            for name, one in self.truth.branches.items()
            if one.state is State.OPEN and not self.truth.needing(name)
        ]
        if not free:
            return
        name = data.draw(st.sampled_from(sorted(free)), "name")
        self.place.open().branches.delete(name)
        del self.truth.branches[name]
        self.look_at_residue()
        if name in self.disk.trees():
            self.spoil(name)

    @rule()
    def pylance_cleans_up_main(self) -> None:
        """What a branch forks from or a tag names stays; the rest of main's history goes."""
        self.place.clean_up()
        left = {one["version"] for one in self.place.open().versions()}
        kept = {number for number in self.truth.main if self.truth.forked_from(number)}
        assert kept | {max(self.truth.main)} <= left <= set(self.truth.main)
        self.truth.main = {
            number: rows for number, rows in self.truth.main.items() if number in left
        }

    @rule(data=st.data(), clone=st.sampled_from(CLONES), fault=FAULTS)
    def shallow_clone(self, data: st.DataObject, clone: str, fault: Fault | None) -> None:
        at = data.draw(self.revisions(), "at")
        target = self.place.beside(clone).uri
        self.make(ShallowClone(target, self.pin(target), at), fault)

    @precondition(lambda self: self.truth.clones)
    @rule(data=st.data(), pin_too=st.booleans())
    def drop_clone(self, data: st.DataObject, pin_too: bool) -> None:
        """Deleting a clone is up to its user, and so is deleting its pin."""
        clone = data.draw(st.sampled_from(sorted(self.truth.clones)), "clone")
        shutil.rmtree(clone)
        del self.truth.clones[clone]
        if pin_too and self.pin(clone) in self.truth.tags:
            self.make(DeleteTag(self.pin(clone), force=True))

    @precondition(lambda self: self.truth.clones)
    @rule(data=st.data())
    def check_clone(self, data: st.DataObject) -> None:
        """A clone with a pin is well; fsck misses a pin that was deleted."""
        clone = data.draw(st.sampled_from(sorted(self.truth.clones)), "clone")
        found = [one.code for one in Place(clone).store().check().findings]
        if self.pin(clone) in self.truth.tags:
            assert found == []
            if data.draw(st.booleans(), "unpin"):
                self.make(DeleteTag(self.pin(clone), force=True))
        else:
            assert "lost-pin" in found

    @rule(data=st.data(), fault=FAULTS)
    def relocate(self, data: st.DataObject, fault: Fault | None) -> None:
        """A copy holds the rows; one that was cut short is finished by the same call."""
        branch = data.draw(st.sampled_from([MAIN, *self.open_branches()]), "branch")
        version = data.draw(st.sampled_from(sorted(self.truth.versions(branch))), "version")
        copy = self.place.beside("copy")
        dataset = CrashingDataset.over(self.dataset, fault.fuse()) if fault else self.dataset
        with contextlib.suppress(Crash, OutcomeUnknownError, StorageError):
            RefStore(dataset).relocate(copy.uri, str(At(branch, version)))
        self.store.relocate(copy.uri, str(At(branch, version)))
        assert tuple(copy.values()) == self.truth.versions(branch)[version]
        assert self.store.delete_tag(self.pin(copy.uri), missing_ok=True, force=True) is (
            branch != MAIN
        )
        shutil.rmtree(copy.uri)

    @rule(pattern=st.sampled_from(["*", "a*", "b", "*/*"]), dry_run=st.booleans(), fault=FAULTS)
    def expire(self, pattern: str, dry_run: bool, fault: Fault | None) -> None:
        """A sweep deletes what it may, in the order of the names; a dry run deletes nothing."""
        call = Expire(pattern, dry_run)
        expected = self.truth.copy().expire(call)
        swept = self.make(call, fault)
        if fault is None and swept is not None:
            seen = {one.branch: one.due for one in swept}
            assert not dry_run or not any(one.deleted for one in swept)
            kept = {name: False for name in seen if name not in expected}
            assert seen == {**kept, **expected}

    @rule(name=st.sampled_from(BRANCHES))
    def pylance_dies_creating(self, name: str) -> None:
        """Another tool leaves a manifest without a ref."""
        if name in self.truth.branches or name in self.disk.trees():
            return
        number = max(self.truth.main)
        self.half_create(name, number)
        self.spoil(name)

    def half_create(self, name: str, number: int) -> None:
        clone = lance.LanceOperation.Clone(True, None, number, self.place.uri, name)
        lance.LanceDataset.commit(self.place.branch(name).uri, clone, read_version=number)

    @precondition(lambda self: self.standing())
    @rule(data=st.data())
    def write_through_an_old_handle(self, data: st.DataObject) -> None:
        """Who opened a branch before it was deleted can still write to where it was."""
        name = data.draw(st.sampled_from(self.standing()), "name")
        handle = self.place.branch(name).open()
        with contextlib.suppress(RefusedError):
            self.store.delete_branch(name)
        if self.disk.ref("branch", name) is None:
            self.truth.remove(name)
            rows = pa.table({"n": pa.array([self.row()], pa.int64())})
            lance.write_dataset(rows, handle, mode="append")
            self.spoil(name)
        elif not self.truth.branches[name].protected:
            assert self.truth.remove(name) is Outcome.NEEDED

    @rule(fault=FAULTS)
    def repair(self, fault: Fault | None) -> None:
        """fsck mends what there is to mend; one that was cut short is finished by the next."""
        if fault is None:
            self.repaired()
            return
        crashed, _, _ = self.attempt(Repair(), fault)
        self.adopt(fates(self.truth, Repair()).branches, Repair())
        if crashed and fault.then != "go on":
            self.repaired()

    @invariant()
    def all_is_well(self) -> None:
        self.agrees()


TestAlone = Alone.TestCase
TestAlone.settings = SESSION
