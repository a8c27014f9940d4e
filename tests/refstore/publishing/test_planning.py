"""Planning: three snapshots in, a draft or a refusal out, without a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airflow_provider_lancerefs.refstore import (
    PublishPlan,
    PublishStep,
    RefusalCode,
    SchemaChange,
    Version,
)
from airflow_provider_lancerefs.refstore.comparing import ThreeWay, compare, difference
from airflow_provider_lancerefs.refstore.manifest import (
    BasePath,
    Columns,
    Feature,
    Manifest,
    SchemaField,
)
from airflow_provider_lancerefs.refstore.planning import Draft, RowIds, plan
from airflow_provider_lancerefs.refstore.rowsets import RowSet
from airflow_provider_lancerefs.refstore.snapshot import Snapshot, StoredFile, StoredFragment

ROOT, TREE = "/t", "/t/tree/b"
ROWS = 10


def column(identity: int, name: str = "", kind: str = "int64") -> SchemaField:
    name = name or f"c{identity}"
    raw = f"{identity} {name} {kind}".encode()
    return SchemaField(identity, name, -1, (2, kind), True, {}, raw)


def file(name: str, *fields: int, home: str = ROOT) -> StoredFile:
    columns = Columns(fields or (0,), tuple(range(len(fields or (0,)))), (2, 1))
    return StoredFile(f"{home}/data/{name}", columns, 100)


def fragment(number: int, *files: StoredFile, dead: Iterable[int] = ()) -> StoredFragment:
    dead = sorted(dead)
    path = f"/v/{','.join(map(str, dead))}.bin" if dead else None
    return StoredFragment(number, ROWS, files or (file(f"f{number}"),), len(dead), path)


def read_vector(path: str) -> RowSet:
    """The offsets are in the name of the file."""
    return RowSet.of(int(one) for one in path[len("/v/") : -len(".bin")].split(","))


def snapshot(
    *fragments: StoredFragment,
    branch: str = "main",
    number: int = 1,
    fields: tuple[SchemaField, ...] = (column(0),),
    flags: int = 0,
    bases: Mapping[int, BasePath] | None = None,
) -> Snapshot:
    manifest = Manifest(
        version=number,
        branch=branch,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        reader_flags=flags,
        writer_flags=flags,
        bases=bases or {},
        fragments=(),
        indices=(),
        transaction_file="",
        movable=True,
        fields=fields,
        next_row_id=100,
    )
    home = ROOT if branch == "main" else TREE
    return Snapshot(
        Version(branch, number, 0),
        home,
        manifest,
        {one.identity: one for one in fragments},
        read_vector,
    )


FORK = snapshot(fragment(0), fragment(1))


def branch(*fragments: StoredFragment, **arguments: object) -> Snapshot:
    bases = {0: BasePath(0, ROOT, True, None)}
    return snapshot(*fragments, branch="b", number=3, bases=bases, **arguments)  # type: ignore[arg-type]


def parent(*fragments: StoredFragment, **arguments: object) -> Snapshot:
    return snapshot(*fragments, number=5, **arguments)  # type: ignore[arg-type]


def planned(
    ours: Snapshot,
    theirs: Snapshot,
    fork: Snapshot = FORK,
    operations: Mapping[int, str | None] | None = None,
    there: Mapping[str, int] | None = None,
) -> tuple[PublishPlan, Draft | None]:
    both = ThreeWay(
        compare(fork, ours),
        compare(fork, theirs),
        lambda number: f"by main@4 of {number}",
        lambda: operations or {},
    )

    def sizes(uris: Iterable[str]) -> Mapping[str, int]:
        return dict.fromkeys(uris, 100) if there is None else there

    return plan(both, ROOT, sizes)


def refused(*arguments: object, **named: object) -> RefusalCode | None:
    said, draft = planned(*arguments, **named)  # type: ignore[arg-type]
    assert (draft is None) or said.refusal is None
    return said.refusal.code if said.refusal else None


KEPT = fragment(0), fragment(1)
NEW = fragment(2, file("new", home=TREE))
APPENDED = branch(*KEPT, NEW)
SAME = parent(*KEPT)
DELETED = branch(fragment(0, dead=[1]), fragment(1))
RENAMED = (column(0, "x"),)
WIDER = (column(0), column(1))


def with_files(*names: str) -> tuple[StoredFragment, StoredFragment]:
    """The first fragment with more files, of which each holds another field."""
    more = (file(name, number) for number, name in enumerate(names, 1))
    return fragment(0, file("f0"), *more), fragment(1)


class TestWhatIsDrafted:
    def test_an_unchanged_branch(self) -> None:
        """Nothing is to be done, and nothing is refused, whatever the parent did."""
        said, draft = planned(branch(*FORK.fragments.values()), parent())
        assert (said.step, said.refusal, draft) == (PublishStep.NOTHING, None, None)

    def test_rows_of_one_fragment_deleted_on_both_sides(self) -> None:
        """Disjoint rows are no conflict; the draft names the branch's alone."""
        said, draft = planned(
            branch(fragment(0, dead=[1]), fragment(1)), parent(fragment(0, dead=[2]), fragment(1))
        )
        assert said.step is PublishStep.UPDATE
        assert draft is not None
        assert [list(touch.deleted or ()) for touch in draft.touched] == [[1]]

    def test_a_fragment_number_used_on_both_sides(self) -> None:
        """Numbers above the fork's mean different fragments on the two sides."""
        theirs = fragment(2, file("theirs"))
        said, draft = planned(APPENDED, parent(fragment(0), fragment(1), theirs))
        assert draft is not None
        assert draft.added == (NEW,)
        assert (said.files_to_copy, said.bytes_to_copy) == (1, 100)

    def test_a_file_in_the_root_is_not_copied(self) -> None:
        """It is where the parent's files are."""
        said, _ = planned(
            branch(fragment(0), fragment(1), fragment(2, file("new"))),
            SAME,
        )
        assert (said.files_to_copy, said.refusal) == (0, None)

    @pytest.mark.parametrize(
        ("ours", "step"),
        [
            (branch(fragment(0), fragment(1), fields=(column(0, "x"),)), PublishStep.PROJECT),
            (
                branch(
                    fragment(0, file("f0"), file("m0", 1)),
                    fragment(1, file("f1"), file("m1", 1)),
                    fields=(column(0), column(1)),
                ),
                PublishStep.MERGE,
            ),
            (branch(fragment(2, file("m", 1)), fields=(column(1),)), PublishStep.OVERWRITE),
            (branch(NEW), PublishStep.UPDATE),
        ],
        ids=["renamed", "added", "replaced", "overwritten"],
    )
    def test_the_step(self, ours: Snapshot, step: PublishStep) -> None:
        """The one commit that can do it."""
        said, draft = planned(ours, SAME)
        assert said.step is step
        assert draft is not None

    def test_the_difference(self) -> None:
        """Rows, fragments, files and columns, counted."""
        ours = branch(fragment(0, dead=[1, 2]), NEW, fields=(column(0, "x"), column(1)))
        found = difference(compare(FORK, ours))
        assert (found.rows_added, found.rows_removed) == (10, 12)
        assert (found.fragments_added, found.fragments_changed, found.fragments_removed) == (
            1,
            1,
            1,
        )
        assert found.schema == SchemaChange(added=("c1",), altered=("x",))
        assert found.files_removed == ("/t/data/f1",)


class TestRefusals:
    @pytest.mark.parametrize(
        ("ours", "theirs", "code"),
        [
            (DELETED, parent(fragment(0, dead=[1, 2]), fragment(1)), "row_conflict"),
            (DELETED, parent(fragment(1)), "fragment_gone"),
            (branch(fragment(1)), parent(fragment(0, dead=[1]), fragment(1)), "row_conflict"),
            (branch(fragment(1)), parent(*with_files("x")), "fragment_rewritten"),
            (branch(*with_files("x")), parent(*with_files("y")), "fragment_rewritten"),
            (branch(*KEPT, fields=RENAMED), parent(*KEPT, fields=WIDER), "schema_diverged"),
            (APPENDED, parent(*KEPT, fields=WIDER), "schema_diverged"),
            (branch(NEW, fields=(column(1),)), parent(*KEPT, fragment(3)), "schema_diverged"),
            (branch(*KEPT, NEW, fields=RENAMED), SAME, "rename_with_rows"),
            (branch(*KEPT, fields=WIDER), parent(*with_files("x")), "field_id_clash"),
            (branch(*KEPT, NEW, flags=Feature.OVERLAYS), SAME, "unsupported_feature"),
            (APPENDED, parent(*KEPT, flags=512), "unsupported_feature"),
            (APPENDED, parent(*KEPT, flags=Feature.STABLE_ROW_IDS), "unsupported_feature"),
            (branch(*KEPT, replace(NEW, plain=False)), SAME, "unsupported_feature"),
            (branch(*KEPT, fragment(2, file("x", home="/else"))), SAME, "base_path_missing"),
        ],
    )
    def test_what_is_refused(self, ours: Snapshot, theirs: Snapshot, code: str) -> None:
        """Each rule, by the least that breaks it."""
        assert refused(ours, theirs) == code

    def test_rows_brought_back(self) -> None:
        """A row that was deleted at the fork and is no more, on either side."""
        fork = snapshot(fragment(0, dead=[1]), fragment(1))
        there = fragment(0, dead=[1]), fragment(1)
        back = fragment(0), fragment(1)
        assert refused(branch(*back), parent(*there), fork) == "branch_restored_rows"
        assert refused(branch(*there, NEW), parent(*back), fork) == "parent_restored"

    @pytest.mark.parametrize(
        ("operation", "code"),
        [
            (None, "parent_history_gone"),
            ("overwrite", "parent_replaced"),
            ("restore", "parent_replaced"),
            ("merge", "schema_diverged"),
            ("unknown", "schema_diverged"),
            ("rewrite", None),
            ("delete", None),
        ],
    )
    def test_why_fragments_are_gone(self, operation: str | None, code: str | None) -> None:
        """An appending branch minds only what replaced the table, or may have."""
        ours = APPENDED
        assert refused(ours, parent(fragment(1)), operations={2: operation}) == code

    def test_files_must_be_there_and_whole(self) -> None:
        """Missing and short ones are told apart from good ones."""
        ours, theirs = APPENDED, SAME
        uri = f"{TREE}/data/new"
        assert refused(ours, theirs, there={}) == "missing_file"
        assert refused(ours, theirs, there={uri: 99}) == "missing_file"
        assert refused(ours, theirs, there={uri: 100}) is None


class TestRowIds:
    @pytest.mark.parametrize(
        ("ids", "kept", "fresh", "mixed"),
        [
            ((1, 2), (1, 2), 0, False),
            ((None, None), (), 2, False),
            ((1, None), (1,), 1, False),
            ((None, 1), (), 1, True),
            ((1, None, 2), (1,), 1, True),
        ],
    )
    def test_which_ids_lance_can_give(
        self, ids: tuple[int | None, ...], kept: tuple[int, ...], fresh: int, mixed: bool
    ) -> None:
        """New rows after old ones get theirs with the commit, those in between before it."""
        said = RowIds(ids)
        assert (said.kept, said.fresh, said.mixed) == (kept, fresh, mixed)
        assert len(said.filled(iter(range(50, 60)))) == len(ids)
