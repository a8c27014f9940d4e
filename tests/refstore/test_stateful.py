"""The ref store against a plain model: alone, and with calls that overlap, crash and hang.

A long random session: `HYPOTHESIS_PROFILE=nightly pytest tests/refstore/test_stateful.py`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from airflow_provider_lancerefs.refstore import (
    AlreadyExistsError,
    Branch,
    ConflictError,
    ErrorKind,
    LanceRefsError,
    NotFoundError,
    OutcomeUnknownError,
    RefStore,
    RefusedError,
    StorageError,
    Tag,
)
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.storage import open_storage
from tests.refstore.faults import Crash, CrashingDataset, Fuse, Mode, Suspended
from tests.refstore.model import (
    MAIN,
    PIN,
    PROTECTED,
    Append,
    At,
    BranchFound,
    Call,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    DeleteTag,
    Expire,
    Face,
    Found,
    MoveTag,
    Outcome,
    Repair,
    Residue,
    Rows,
    SetMetadata,
    ShallowClone,
    State,
    TagTruth,
    Truth,
)
from tests.tables import Place

pytestmark = pytest.mark.timeout(7200)

BRANCHES = ("a", "a/b", "b", "b.1/c", "é")
TAGS = ("t", "u-1", "v1.0")
CLONES = ("one", "two")
NOW = timedelta(0)
HIGHEST = 2**64 - 1
NOT_USERS = ("lancerefs.state", "lancerefs.state_since", "lancerefs.state_before")
CODES_OF_HALF_GONE = ("missing-file", "unreadable-version")


class Disk:
    """What stands under a dataset's root, read without the library."""

    def __init__(self, uri: str) -> None:
        self.root = Path(uri)

    def ref(self, kind: str, name: str) -> bytes | None:
        try:
            return self._folder(kind).joinpath(f"{quote(name, safe='')}.json").read_bytes()
        except FileNotFoundError:
            return None

    def refs(self, kind: str) -> dict[str, Any]:
        return {
            unquote(path.name.removesuffix(".json")): json.loads(path.read_bytes())
            for path in self._folder(kind).glob("*.json")
        }

    def _folder(self, kind: str) -> Path:
        return self.root / "_refs" / ("branches" if kind == "branch" else "tags")

    def manifests(self, branch: str) -> dict[Path, int]:
        folder = self.root / "tree" / branch / "_versions"
        return {path: HIGHEST - int(path.stem) for path in folder.glob("*.manifest")}

    def trees(self) -> set[str]:
        tree = self.root / "tree"
        return {
            path.parent.parent.relative_to(tree).as_posix()
            for path in tree.rglob("*.manifest")
            if path.parent.name == "_versions"
        }

    def files(self) -> dict[str, tuple[int, int]]:
        """Every file but the lock, with what changes when it is written again."""
        found = {}
        folders = [self.root]
        while folders:
            for child in os.scandir(folders.pop()):
                if child.is_dir():
                    folders.append(Path(child.path))
                elif not child.name.endswith(".lock"):
                    status = child.stat()
                    found[os.path.relpath(child.path, self.root)] = stamp(status)
        return found

    def found(self, spoilt: Mapping[str, set[tuple[int, int]]]) -> Found:
        """The refs; manifests with a known stamp are no head, for they were there before."""
        return Found(
            {
                name: self._branch(name, body, spoilt.get(name, set()))
                for name, body in self.refs("branch").items()
            },
            {
                name: TagTruth(body["branch"] or MAIN, body["version"], body["metadata"])
                for name, body in self.refs("tag").items()
            },
        )

    def _branch(self, name: str, body: Any, spoilt: set[tuple[int, int]]) -> BranchFound:
        state = State(body["metadata"].get("lancerefs.state", "open"))
        heads = [path for path in self.manifests(name) if stamp(path.stat()) not in spoilt]
        headless = not heads and state is not State.REMOVING
        return BranchFound(
            body["parentBranch"] or MAIN,
            body["parentVersion"],
            Face(headless, state),
            {key: value for key, value in body["metadata"].items() if key not in NOT_USERS},
            tuple((version, life) for version, life in body["identifier"]["version_mapping"]),
        )


def stamp(status: os.stat_result) -> tuple[int, int]:
    return status.st_ino, status.st_mtime_ns


@dataclass(frozen=True)
class Held:
    """A ref as a caller read it, and the bytes that it was."""

    ref: Any
    data: bytes


@dataclass(frozen=True)
class Fault:
    """What goes wrong with a call, and what its caller does next."""

    nth: int
    mode: Mode
    error: type[LanceRefsError]
    then: str

    def fuse(self) -> Fuse:
        return Fuse(self.nth, self.mode, self.error)


FAULTS = st.one_of(
    st.none(),
    st.builds(
        Fault,
        st.sampled_from([1, 1, 1, 2, 2, 3, 3, 4, 5, 7, 10]),
        st.sampled_from(Mode),
        st.sampled_from([OutcomeUnknownError, StorageError]),
        st.sampled_from(["retry", "repair", "go on"]),
    ),
)
_OUTCOMES: tuple[tuple[type[LanceRefsError], Outcome], ...] = (
    (NotFoundError, Outcome.ABSENT),
    (AlreadyExistsError, Outcome.TAKEN),
    (ConflictError, Outcome.CONFLICT),
)


def outcome_of(error: LanceRefsError) -> Outcome:
    if isinstance(error, RefusedError):
        return Outcome.PROTECTED if error.kind is ErrorKind.PROTECTED else Outcome.NEEDED
    for kind, outcome in _OUTCOMES:
        if isinstance(error, kind):
            return outcome
    raise error


def perform(store: RefStore, call: Call) -> Any:
    """The call as a user makes it."""
    match call:
        case CreateBranch():
            return store.create_branch(call.name, str(call.source), call.metadata)
        case DeleteBranch():
            return store.delete_branch(call.name, call.missing_ok, call.force)
        case CreateTag():
            return store.create_tag(call.name, str(call.at), protected=call.protected)
        case MoveTag():
            return store.move_tag(call.held or store.tag(call.name), str(call.at), call.force)
        case DeleteTag():
            return store.delete_tag(call.name, call.missing_ok, call.force)
        case SetMetadata():
            held = call.held or getattr(store, call.kind)(call.name)
            return store.set_metadata(held, call.changes)
    return _perform_large(store, call)


def _perform_large(store: RefStore, call: Call) -> Any:
    match call:
        case Expire():
            return store.expire_branches(call.pattern, NOW, call.dry_run)
        case ShallowClone():
            return store.shallow_clone(call.target, str(call.at))
        case Repair(patient=False):
            return store.check(repair=True, orphan_age=NOW)
        case Repair():
            return store.check(repair=True)
    raise NotImplementedError(call)


def sweep(place: Place) -> None:
    """pylance's own cleanup of everything that it believes nobody needs."""
    place.open().cleanup_old_versions(
        older_than=NOW, delete_unverified=True, error_if_tagged_old_versions=False
    )


class OneDataset(RuleBasedStateMachine):
    """A dataset on local disk, its model, and what has to be true of the two at all times."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="lancerefs-")
        self.place = Place(f"{self.folder}/table").create((1, 2, 3))
        self.disk = Disk(self.place.uri)
        self.truth = Truth({1: (1, 2, 3)})
        self.spoilt: dict[str, set[tuple[int, int]]] = {}
        self.next_row = 10
        self.sound = True
        self.patient = Dataset(open_storage(self.place.uri))
        self.dataset = replace(self.patient, creation_lease=NOW)
        self.hasty = replace(self.dataset, grace=NOW)
        self.store = RefStore(self.dataset)
        self.impatient = RefStore(self.hasty)
        self._files: dict[str, tuple[int, int]] = {}
        self._read: dict[object, object] = {}

    def pin(self, target: str) -> str:
        return f"clone-{hashlib.sha256(target.encode()).hexdigest()[:16]}"

    def row(self) -> int:
        self.next_row += 1
        return self.next_row

    def version_rows(self, branch: str, number: int | None = None) -> Rows:
        place = self.place if branch == MAIN else self.place.branch(branch)
        return tuple(place.values(number))

    def tags(self) -> list[str]:
        """In an order that does not hang on the names of pins, which differ from run to run."""
        return sorted(
            self.truth.tags, key=lambda name: (self.truth.tags[name].metadata.get(PIN, ""), name)
        )

    def standing(self) -> list[str]:
        """The branches that can be written to: they have a head, and their files are not going."""
        return [
            name
            for name, one in sorted(self.truth.branches.items())
            if one.versions and one.state is not State.REMOVING
        ]

    def revisions(self) -> st.SearchStrategy[At]:
        """Mostly revisions that mean something."""
        found = [At(), At(), *(At(number=number) for number in self.truth.main)]
        for name, one in sorted(self.truth.branches.items()):
            if name not in self.truth.residue:
                found.append(At(name))
            if one.state is not State.REMOVING:
                found += [At(name, number) for number in sorted(one.versions)]
        found += [At(MAIN, tag=name) for name in self.tags()]
        found += [At(number=99), At("missing"), At(tag="missing")]
        return st.sampled_from(found)

    def check_names(self) -> None:
        assert self.store.branch_names() == sorted(self.truth.branches)
        assert self.store.tag_names() == sorted(self.truth.tags)

    def check_refs(self) -> None:
        found = self.disk.found(self.spoilt)
        branches = {one.name: one for one in self.store.branches()}
        tags = {one.name: one for one in self.store.tags()}
        for name, one in self.truth.branches.items():
            branch = branches[name]
            assert isinstance(branch, Branch)
            assert (branch.parent, branch.parent_version) == (one.parent, one.fork)
            assert found.branches[name].face == one.face, name
            assert found.branches[name].metadata == one.metadata
            assert branch.protected == one.protected
        for name, tag in self.truth.tags.items():
            assert isinstance(tags[name], Tag)
            assert tags[name].target.branch == tag.branch
            assert tags[name].target.number == tag.version
            assert found.tags[name] == tag
            assert self.store.resolve(f"tag:{name}") == tags[name].target

    def check_pylance(self) -> None:
        """pylance lists what the library lists."""
        dataset = self.place.open()
        assert set(dataset.branches.list()) == set(self.truth.branches)
        tags = dataset.tags.list()
        assert {name: (tag["branch"] or MAIN, tag["version"]) for name, tag in tags.items()} == {
            name: (tag.branch, tag.version) for name, tag in self.truth.tags.items()
        }

    def check_rows(self, files: dict[str, tuple[int, int]]) -> None:
        """Everything acknowledged can be read; what cannot have changed is not read again."""
        if any(files.get(path) != stamp for path, stamp in self._files.items()):
            self._read.clear()
        for branch in [MAIN, *self.standing()]:
            head = max(self.truth.versions(branch))
            self._read_once(branch, head, self.truth.rows(branch))
            assert self.store.resolve(str(At(branch))).number == head
        for tag in self.truth.tags.values():
            rows = self.truth.versions(tag.branch).get(tag.version)
            going = self.truth.branches.get(tag.branch)
            if rows is not None and not (going and going.state is State.REMOVING):
                self._read_once(tag.branch, tag.version, rows)
        for target, clone in self.truth.clones.items():
            if self.pin(target) in self.truth.tags:
                assert tuple(Place(target).values()) == clone.rows
        self._files = files

    def _read_once(self, branch: str, number: int, rows: Rows) -> None:
        life = self.truth.branches[branch].life if branch != MAIN else 0
        if self._read.get((branch, life, number)) != rows:
            assert self.version_rows(branch, number) == rows, f"{branch}@{number}"
            self._read[branch, life, number] = rows

    def check_lineage(self) -> None:
        """No branch and no tag has lost what it stands on."""
        for name, one in self.truth.branches.items():
            above = self.truth.branches.get(one.parent)
            going = above is None or above.state is State.REMOVING
            assert one.parent == MAIN or one.parent_life == -1 or not going, name

    def check_findings(self) -> None:
        """fsck finds what is wrong, and nothing else."""
        must, may = self.truth.findings()
        found = {
            (finding.code, finding.subject)
            for finding in self.impatient.check().findings
            if not self._half_gone(finding.code, finding.subject)
        }
        assert must <= found <= must | may, (must, may, found)
        ageless = {one for one in must if one[0] in ("lost-parent", "wrong-head")}
        assert ageless == {
            (one.code, one.subject)
            for one in self.store.check().findings
            if not self._half_gone(one.code, one.subject)
        }

    def _half_gone(self, code: str, about: str) -> bool:
        """Whether a finding is about files that are going, or that residue never had."""
        return code in CODES_OF_HALF_GONE and any(
            f"/tree/{name}/" in about or f"branch:{name}@" in about
            for name, one in self.truth.branches.items()
            if one.state is State.REMOVING or name in self.truth.residue
        )

    def agrees(self) -> None:
        self.sound = False
        files = self.disk.files()
        if files != self._files:
            self.check_names()
            self.check_refs()
            self.check_pylance()
            self.check_lineage()
            self.check_rows(files)
            self.check_findings()
        self.sound = True

    def repaired(self) -> None:
        """Repair, and see that it mended everything."""
        allowed = self.truth.mended()
        self.impatient.check(repair=True, orphan_age=NOW)
        self.adopt(allowed, Repair())
        self.settled()

    def settled(self) -> None:
        left = self.impatient.check(orphan_age=NOW).findings
        protected = [f"tag {name}" for name, tag in self.truth.tags.items() if tag.protected]
        spoilt = [f"branch {name}" for name in self.truth.residue]
        for finding in left:
            beyond = {"dangling-tag": protected, "wrong-head": spoilt}.get(finding.code, [])
            assert finding.subject in beyond or self._half_gone(finding.code, finding.subject)

    def adopt(self, allowed: Mapping[str, set[Face | None]], call: Call) -> None:
        """Believe what a call left, if it may have."""
        found = self.disk.found(self.spoilt)
        fates = self.truth.fates(call)
        for name in sorted({*self.truth.branches, *found.branches}):
            face = found.branches[name].face if name in found.branches else None
            there = self.truth.branches.get(name)
            assert face in allowed.get(name, {there.face if there else None}), (name, face)
            self.truth.adopt_branch(name, face, fates.born.get(name))
            if face is not None:
                self.truth.branches[name].metadata = dict(found.branches[name].metadata)
        for name in sorted({*self.truth.tags, *found.tags}):
            tag = found.tags.get(name)
            assert tag in fates.tags.get(name, {self.truth.tags.get(name)}), (name, tag)
            self.truth = self.truth.with_tag(name, tag)
        self.look_at_residue()

    def look_at_residue(self) -> None:
        """Which manifests without a ref are still there."""
        for name in list(self.spoilt):
            left = {
                number
                for path, number in self.disk.manifests(name).items()
                if stamp(path.stat()) in self.spoilt[name]
            }
            if left:
                self.truth.residue[name] = Residue(min(left))
            else:
                del self.spoilt[name]
                self.truth.residue.pop(name, None)

    def spoil(self, name: str) -> None:
        """Take note of manifests that stand under a name without a ref."""
        manifests = self.disk.manifests(name)
        self.spoilt[name] = {stamp(path.stat()) for path in manifests}
        self.truth.residue[name] = Residue(min(manifests.values()))

    def teardown(self) -> None:
        try:
            if self.sound:
                self.ends_well()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def ends_well(self) -> None:
        """Whatever happened, repair mends it, and nothing is left once all is deleted."""
        self.repaired()
        for tag in self.store.tag_names():
            self.store.delete_tag(tag, force=True)
        for _ in self.truth.branches:
            for name in self.store.branch_names():
                with contextlib.suppress(RefusedError):
                    self.store.delete_branch(name, force=True)
        assert self.store.branch_names() == []
        assert [path for path in self.disk.root.glob("tree/**/*") if path.is_file()] == []
        assert self.version_rows(MAIN) == self.truth.rows(MAIN)
        assert self.impatient.check(orphan_age=NOW).findings == ()


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
        self.adopt(self.truth.fates(call).branches, call)
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
        sweep(self.place)
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
        self.adopt(self.truth.fates(Repair()).branches, Repair())
        if crashed and fault.then != "go on":
            self.repaired()

    @invariant()
    def all_is_well(self) -> None:
        self.agrees()


EXAMPLES = settings.default.max_examples if settings.default else 100
SESSION = settings(
    max_examples=max(EXAMPLES // 4, 1),
    stateful_step_count=50,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
TestAlone = Alone.TestCase
TestAlone.settings = SESSION


# What the machine found, each as small as it goes.


def hasty(place: Place) -> Dataset:
    """The dataset to one for whom no time has to pass."""
    return Dataset(open_storage(place.uri), grace=NOW, creation_lease=NOW)


def leave_residue(place: Place, name: str) -> None:
    """Write through a handle that is older than the branch's deletion."""
    store = place.store()
    store.create_branch(name)
    place.branch(name).append(7)
    handle = place.branch(name).open()
    store.delete_branch(name)
    lance.write_dataset(pa.table({"n": pa.array([99], pa.int64())}), handle, mode="append")


def files_below_tree(place: Place) -> list[str]:
    return [path for path in Disk(place.uri).files() if path.startswith("tree/")]


def test_a_refused_deletion_leaves_another_tools_branch_whole(local_place: Place) -> None:
    """pylance's branch, once marked and opened again, is still the branch that a create finds."""
    local_place.create((1, 2, 3)).open().create_branch("a")
    local_place.branch("a").append(7)
    store = RefStore(hasty(local_place))
    store.create_tag("t", "branch:a")
    with pytest.raises(RefusedError):
        store.delete_branch("a")
    store.create_branch("a")

    assert local_place.branch("a").values() == [1, 2, 3, 7]
    assert store.check().findings == ()


def test_a_retry_does_not_take_residue_for_its_fork(local_place: Place) -> None:
    """A create that died over the remains of another life is not completed by those remains."""
    leave_residue(local_place.create((1, 2, 3)), "a")
    store = local_place.store()
    with pytest.raises(Crash):
        RefStore(CrashingDataset.over(store._dataset, Fuse(1))).create_branch("a")
    with contextlib.suppress(ConflictError):
        store.create_branch("a")
        assert local_place.branch("a").values() == [1, 2, 3]


def test_a_repair_that_died_is_finished_by_the_next(local_place: Place) -> None:
    """However far fsck came in removing a folder without a ref, the next run removes the rest."""
    leave_residue(local_place.create((1, 2, 3)), "a")
    for death in range(1, 5):
        with contextlib.suppress(Crash):
            dataset = CrashingDataset.over(hasty(local_place), Fuse(death))
            RefStore(dataset).check(repair=True)
    RefStore(hasty(local_place)).check(repair=True)

    assert files_below_tree(local_place) == []


def test_one_repair_removes_every_folder_without_a_ref(local_place: Place) -> None:
    """The second run of fsck finds nothing, however many folders the first had to remove."""
    local_place.create((1, 2, 3))
    for name in ("a", "b"):
        leave_residue(local_place, name)
    store = RefStore(hasty(local_place))
    store.check(repair=True)

    assert store.check().findings == ()
    assert files_below_tree(local_place) == []


def test_a_create_that_lost_its_name_leaves_nothing(local_place: Place) -> None:
    """Who finds, after the clone, that the ref was deleted takes every file of it away."""
    local_place.create((1, 2, 3))
    creator = Suspended(
        open_storage(local_place.uri),
        lambda storage: RefStore(Dataset(storage, creation_lease=NOW)).create_branch("a"),
    )
    store = RefStore(hasty(local_place))
    while store.branch_names() == []:
        creator.advance()
    store.delete_branch("a")
    creator.finish()

    assert isinstance(creator.failure, ConflictError)
    assert files_below_tree(local_place) == []
