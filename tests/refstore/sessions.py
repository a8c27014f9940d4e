"""One dataset under a state machine: a disk, a model, and what must be true of the two."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from airflow_provider_lancerefs.refstore import Branch, RefStore, RefusedError, Tag
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.storage import open_storage
from tests.refstore.disk import Disk, stamp
from tests.refstore.model import Truth
from tests.refstore.model_fates import fates, findings, mended
from tests.refstore.model_values import MAIN, PIN, At, Call, Face, Repair, Residue, Rows, State
from tests.refstore.performing import NOW
from tests.tables import Place

BRANCHES = ("a", "a/b", "b", "b.1/c", "é")
TAGS = ("t", "u-1", "v1.0")
CLONES = ("one", "two")
CODES_OF_HALF_GONE = ("missing-file", "unreadable-version")
EXAMPLES = settings.default.max_examples if settings.default else 100
SESSION = settings(
    max_examples=max(EXAMPLES // 4, 1),
    stateful_step_count=50,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
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
        must, may = findings(self.truth)
        found = {
            (finding.code, finding.subject)
            for finding in self.impatient.check().findings
            if not self._half_gone(finding.code, finding.subject)
        }
        assert must <= found <= must | may, (must, may, found)
        ageless = {one for one in must if one[0] == "lost-parent"}
        patient = {
            (one.code, one.subject)
            for one in self.store.check().findings
            if not self._half_gone(one.code, one.subject)
        }
        assert patient == ageless, (patient, ageless)

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
        allowed = mended(self.truth)
        self.impatient.check(repair=True, orphan_age=NOW)
        self.adopt(allowed, Repair())
        self.settled()

    def settled(self) -> None:
        left = self.impatient.check(orphan_age=NOW).findings
        protected = [f"tag {name}" for name, tag in self.truth.tags.items() if tag.protected]
        spoilt = [f"branch {name}" for name in self.truth.residue]
        for finding in left:
            beyond = {"dangling-tag": protected, "wrong-head": spoilt}.get(finding.code, [])
            gone = self._half_gone(finding.code, finding.subject)
            assert finding.subject in beyond or gone, finding

    def adopt(self, allowed: Mapping[str, set[Face | None]], call: Call) -> None:
        """Believe what a call left, if it may have."""
        found = self.disk.found(self.spoilt)
        after = fates(self.truth, call)
        for name in sorted({*self.truth.branches, *found.branches}):
            face = found.branches[name].face if name in found.branches else None
            there = self.truth.branches.get(name)
            assert face in allowed.get(name, {there.face if there else None}), (name, face)
            self.truth.adopt_branch(name, face, after.born.get(name))
            if face is not None:
                self.truth.branches[name].metadata = dict(found.branches[name].metadata)
        for name in sorted({*self.truth.tags, *found.tags}):
            tag = found.tags.get(name)
            assert tag in after.tags.get(name, {self.truth.tags.get(name)}), (name, tag)
            self.truth = self.truth.with_tag(name, tag)
        self.look_at_residue()

    def look_at_residue(self) -> None:
        """Which manifests without a ref are still there, and which refs date their life."""
        self.truth.rewritten = self.disk.rewritten()
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
