"""Random histories of a branch and its parent: a publish comes to a plain three-way merge of them,
or is refused and leaves both as they were.

Thousands of them: `HYPOTHESIS_PROFILE=nightly pytest tests/refstore/publishing/test_histories.py`.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, note, settings
from hypothesis import strategies as st

from airflow_provider_lancerefs.refstore import (
    BranchState,
    PublishPlan,
    PublishRefusedError,
    PublishResult,
    RefStore,
    RefusalCode,
    Tag,
)
from tests.refstore.publishing.histories import MILD, History, Round, histories
from tests.refstore.publishing.operations import AddColumn, Append, Delete, Overwrite, RewriteColumn
from tests.refstore.publishing.rows import KEY, WORDS, Named, Table, merge
from tests.refstore.publishing.sides import Operation, Side
from tests.refstore.publishing.upkeep import CleanUp, Compact, CreateIndex
from tests.tables import Place

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

_UNEXPECTED = {RefusalCode.LANCE_REFUSED, RefusalCode.PARENT_TOO_BUSY, RefusalCode.MISSING_FILE}
_SOME = 6


def read(place: Place, version: int | None = None) -> Named:
    """Every row by its key, which occurs once."""
    rows: Named = {}
    for row in lance.dataset(place.uri, version=version).to_table().to_pylist():
        key = row.pop(KEY)
        assert key not in rows, f"row {key} is there twice"
        rows[key] = row
    return rows


def is_lost(side: Side, version: dict[str, int]) -> bool:
    """Whether a version's deletion files were cleaned away, and it with them."""
    try:
        read(side.place, version["version"])
    except (OSError, ValueError) as error:
        return "/_deletions/" in str(error)
    return False


def row_ids(place: Place) -> dict[int, int]:
    found = place.open().to_table(columns=[KEY], with_row_id=True)
    return dict(zip(found[KEY].to_pylist(), found["_rowid"].to_pylist(), strict=True))


def stored(uri: str) -> dict[str, str]:
    """Every file by what it holds; of refs all but their state."""
    root, found = Path(uri), {}
    for path in sorted(one for one in root.rglob("*") if one.is_file()):
        data = path.read_bytes()
        name = path.relative_to(root).as_posix()
        if name.startswith("_refs/") and name.endswith(".json"):
            data = json.dumps({**json.loads(data), "metadata": None, "writeId": None}).encode()
        if not name.endswith(".lock"):
            found[name] = hashlib.md5(data).hexdigest()
    return found


def broken_indices(place: Place) -> set[str]:
    """The indices through which a query finds other rows than a full scan, or fails."""
    there = place.open()
    return {
        one.name for one in there.describe_indices() if not _is_right(there, one.field_names[0])
    }


def _is_right(there: lance.LanceDataset, column: str) -> bool:
    try:
        if column == "words" or there.schema.field(column).type == "string":
            return all(_finds_word(there, column, word) for word in WORDS)
        return all(_finds(there, where) for where in _queries(there, column))
    except (OSError, ValueError, RuntimeError):
        return False


def _queries(there: lance.LanceDataset, column: str) -> Iterator[str]:
    values = sorted({*there.to_table(columns=[column])[column].to_pylist()} - {None})
    yield from (f"{column} = {value}" for value in values[:: max(1, len(values) // _SOME)])
    yield from (f"{column} is null", f"{column} >= 10", f"{column} = 7 or {column} = 8")


def _finds(there: lance.LanceDataset, where: str) -> bool:
    found = [
        sorted(
            there.scanner(columns=[KEY], filter=where, use_scalar_index=indexed)
            .to_table()[KEY]
            .to_pylist()
        )
        for indexed in (True, False)
    ]
    return found[0] == found[1]


def _finds_word(there: lance.LanceDataset, column: str, word: str) -> bool:
    rows = there.to_table(columns=[KEY, column]).to_pylist()
    found = there.to_table(columns=[KEY], full_text_query=word)[KEY].to_pylist()
    return sorted(found) == sorted(row[KEY] for row in rows if row[column] == word)


def findings(store: RefStore) -> set[tuple[str, str]]:
    return {(one.code, one.subject) for one in store.check().findings}


def check_whole(side: Side) -> None:
    """The head and every version that is listed hold what the model says."""
    there = side.place.open()
    there.validate()
    assert {one.name: one.type for one in there.schema} == side.table.types
    assert read(side.place) == side.table.named()
    assert there.count_rows() == len(side.table.rows)
    for version in {one["version"] for one in there.versions()} - side.lost:
        assert read(side.place, version) == side.versions[version].named(), f"version {version}"


@dataclass(frozen=True)
class Sides:
    """A branch and its parent at the time of a publish, and what they have in common.

    `before` is how much the parent had done when the branch was made.
    """

    fork: Table
    ours: Side
    theirs: Side
    before: int

    @property
    def must_publish(self) -> bool:
        """Whether nothing that either did can stand in the way."""
        mild = all(isinstance(one, MILD) for one in self._done)
        touched = [one.table.touched_since(self.fork) for one in (self.ours, self.theirs)]
        return mild and not touched[0] & touched[1]

    @property
    def _done(self) -> list[Operation]:
        return [*self.ours.done, *self.theirs.done[self.before :]]


def publish(sides: Sides, *, optimize_indices: bool) -> str:
    """Publish, and check all that is promised; says what came of it."""
    store, ours, theirs = sides.theirs.store, sides.ours, sides.theirs
    for side in (ours, theirs):
        assert read(side.place) == side.table.named(), "before the publish: model or pylance"
    theirs.lost = {one["version"] for one in theirs.place.open().versions() if is_lost(theirs, one)}
    healthy = broken_indices(theirs.place), findings(store)
    ids = row_ids(theirs.place)
    before = stored(store.uri)
    plan = store.plan_publish(ours.branch)
    assert stored(store.uri) == before
    result = _publish_or_refuse(sides, plan, optimize_indices=optimize_indices)
    if result is None:
        assert stored(store.uri) == before
        assert store.branch(ours.branch).state is BranchState.OPEN
        return f"refused: {plan.refusal.code}"
    assert plan.refusal is None
    assert not result.already_published
    if not result.published:
        assert stored(store.uri) == before
        assert (ours.table.named(), ours.table.types) == (sides.fork.named(), sides.fork.types)
        return "nothing to publish"
    _check_published(sides, result)
    _check_row_ids(sides, ids)
    assert broken_indices(theirs.place) <= healthy[0]
    assert findings(store) <= healthy[1]
    _check_again(store, result)
    return f"published: {plan.step}"


def _publish_or_refuse(
    sides: Sides, plan: PublishPlan, *, optimize_indices: bool
) -> PublishResult | None:
    try:
        return sides.theirs.store.publish(sides.ours.branch, optimize_indices=optimize_indices)
    except PublishRefusedError as error:
        refused = error
    assert refused.plan == plan
    assert refused.code not in _UNEXPECTED, str(refused)
    assert not sides.must_publish, str(refused)
    return None


def _check_published(sides: Sides, result: PublishResult) -> None:
    theirs = sides.theirs
    merged = merge(sides.fork, sides.ours.table, theirs.table)
    assert result.version <= theirs.head <= result.version + 1
    for version in range(max(theirs.versions) + 1, result.version):
        theirs.versions[version] = theirs.table
    theirs.table = merged
    theirs.done += sides.ours.done
    theirs.note()
    check_whole(theirs)


def _check_row_ids(sides: Sides, before: dict[int, int]) -> None:
    theirs = sides.theirs
    manifest = theirs.store.manifest(
        "main" if theirs.branch == "main" else f"branch:{theirs.branch}"
    )
    if not theirs.place.open().has_stable_row_ids:
        return
    after = row_ids(theirs.place)
    assert {key: after[key] for key in before if key in after} == {
        key: before[key] for key in before if key in after
    }
    assert len({*after.values()}) == len(after)
    assert max(after.values(), default=-1) < manifest.next_row_id
    fresh = {one for key, one in after.items() if key not in before}
    assert not fresh & {*before.values()}
    taken = theirs.place.open()._take_rows([*after.values()], columns=[KEY])
    assert taken[KEY].to_pylist() == [*after]


def _check_again(store: RefStore, result: PublishResult) -> None:
    before = stored(store.uri)
    again = store.publish(result.branch)
    assert again.already_published
    assert again.version == result.version
    assert stored(store.uri) == before


def live(history: History, place: Place) -> list[str]:
    """Everything that happens in a history, checked; what each publish came to."""
    main = Side.create(place, stable=history.stable, text=history.text)
    for operation in history.before:
        main.apply(operation)
    parent, fork, before = main, main.table, len(main.done)
    if history.parent is not None:
        parent = main.fork(history.parent.branch)
    outcomes = [_live_round(one, parent, main) for one in history.rounds]
    if history.parent is not None:
        steps = [(("branch" if who != "main" else who), one) for who, one in history.parent.steps]
        own = replace(history.parent, steps=tuple(steps))
        outcomes.append(_finish(own, Sides(fork, parent, main, before), main))
    _check_the_end(main)
    return [*outcomes, *(f"pylance: {one[:60]}" for one in main.refused)]


def _live_round(one: Round, parent: Side, main: Side) -> str:
    ours = parent.fork(one.branch)
    return _finish(one, Sides(parent.table, ours, parent, len(parent.done)), main)


def _finish(one: Round, sides: Sides, main: Side) -> str:
    who = {"branch": sides.ours, "parent": sides.theirs, "main": main}
    for side, operation in one.steps:
        who[side].apply(operation)
    outcome = publish(sides, optimize_indices=one.optimize_indices)
    healthy = broken_indices(sides.theirs.place), findings(main.store)
    for tag in main.store.tags():
        if isinstance(tag, Tag) and tag.branch == sides.ours.branch:
            main.store.delete_tag(tag.name)
    assert main.store.delete_branch(sides.ours.branch)
    check_whole(sides.theirs)
    sides.theirs.place.clean_up()
    check_whole(sides.theirs)
    assert broken_indices(sides.theirs.place) <= healthy[0]
    assert findings(main.store) <= healthy[1]
    return outcome


def _check_the_end(main: Side) -> None:
    """Nothing that a repair calls an orphan is missed by anybody."""
    assert main.store.check().clean
    main.store.check(repair=True, orphan_age=timedelta(0))
    check_whole(main)
    main.place.open().optimize.compact_files()
    assert read(main.place) == main.table.named()
    assert not broken_indices(main.place)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("histories")


@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable row ids"])
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_a_publish_is_a_three_way_merge_or_refused(
    folder: Path, stable: bool, data: st.DataObject
) -> None:
    """Rows, columns, row ids, indices, every version, a second call, and life after the branch."""
    history = data.draw(histories(stable=stable))
    with tempfile.TemporaryDirectory(dir=folder) as root:
        for outcome in live(history, Place(f"{root}/table")):
            note(outcome)
            event(outcome)


FOUND = {
    "a branch of a branch adds a column, the parent rows": History(
        stable=False,
        text=False,
        before=(),
        parent=Round("p", (("branch", Append(1, 0, False)), ("main", Append(1, 0, False)))),
        rounds=(Round("b", (("branch", AddColumn("w", False)),)),),
    ),
    "columns replaced by the same ones, rows by none": History(
        stable=True,
        text=False,
        before=(Overwrite(1, 0, False),),
        parent=Round("p", (("branch", Overwrite(0, 0, False)), ("main", Append(1, 0, False)))),
        rounds=(Round("b", (("branch", AddColumn("w", False)),)),),
    ),
    "a cleanup of branch and parent takes the fork's deletion file": History(
        stable=False,
        text=False,
        before=(Delete((0,), False), CreateIndex(0, False)),
        parent=None,
        rounds=(
            Round(
                "b",
                (
                    ("branch", Compact(5, 0.0)),
                    ("branch", CleanUp()),
                    ("parent", Delete((0,), False)),
                    ("parent", CleanUp()),
                ),
            ),
        ),
    ),
    "first values of an indexed column, and another column": History(
        stable=False,
        text=False,
        before=(AddColumn("w", False), CreateIndex(2, False)),
        parent=None,
        rounds=(
            Round(
                "b", (("branch", AddColumn("y", False)), ("branch", RewriteColumn(0, (0,), 2, 0)))
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", list(FOUND))
def test_a_history_that_was_told_wrongly_before(local_place: Place, name: str) -> None:
    """Histories about which the model and the publish once did not agree."""
    assert live(FOUND[name], local_place)


def _numbers(**columns: list[int]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def _overwrite(place: Place) -> None:
    lance.write_dataset(_numbers(key=[], z=[], a=[]), place.uri, mode="overwrite")


def _replace_column(place: Place) -> None:
    place.open().drop_columns(["b"])
    place.open().add_columns(pa.field("z", pa.int64()))


def _append(place: Place) -> None:
    lance.write_dataset(_numbers(key=[9], a=[10], b=[20]), place.uri, mode="append")


def _rewrite_column(place: Place) -> None:
    there = place.open()
    values = _numbers(key=[1], b=[77])
    changed, fields = there.get_fragments()[0].update_columns(values, KEY, KEY)[:2]
    operation = lance.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields)
    lance.LanceDataset.commit(there.uri, operation, read_version=there.version)


_REUSES = {
    "new rows, column replaced": ([1], _append, _replace_column),
    "new rows in an empty table, column replaced": ([], _append, _replace_column),
    "new rows in an empty table, overwritten": ([], _append, _overwrite),
    "column replaced, rewritten there": ([1], _replace_column, _rewrite_column),
}


@pytest.mark.parametrize("case", list(_REUSES))
def test_no_value_lands_in_another_column(local_place: Place, case: str) -> None:
    """Lance gives the id of a dropped column to the next one: values of the old one are not its."""
    rows, ours, theirs = _REUSES[case]
    lance.write_dataset(_numbers(key=rows, a=rows), local_place.uri)
    local_place.open().add_columns(pa.field("b", pa.int64()))
    store = local_place.store()
    store.create_branch("x")
    ours(local_place.branch("x"))
    theirs(local_place)
    with pytest.raises(PublishRefusedError):
        store.publish("x")
