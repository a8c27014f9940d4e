"""Random histories of a table, done with pylance and, beside it, to a plain model of the rows.

The model knows a row by its key and a column by a number of its own, so it never asks either
library what a change has come to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count

import lance
import pyarrow as pa
from hypothesis import strategies as st
from lance.fragment import write_fragments

from airflow_provider_lancerefs.refstore import RefStore
from tests.tables import Place

KEY = "key"
WORDS = ("alpha", "beta", "gamma", "delta")
NO_TIME = timedelta(0)
_LARGEST = 53
_NULLS_FROM = 50

Value = int | float | str | None
Named = dict[int, dict[str, Value]]


@dataclass(frozen=True)
class Column:
    """A column that stays the same when it is renamed or cast."""

    identity: int
    name: str
    type: pa.DataType

    @property
    def is_number(self) -> bool:
        return bool(self.type != pa.string())

    def value(self, key: int, salt: int) -> Value:
        """Some value, the same for the same arguments."""
        if not self.is_number:
            return WORDS[(key + salt) % len(WORDS)]
        number = (key * 7 + salt * 13) % _LARGEST
        return None if number >= _NULLS_FROM else number


@dataclass(frozen=True)
class Row:
    """What a row holds, by column. The stamp is another one whenever the row was written."""

    values: Mapping[int, Value]
    stamp: int

    def differs(self, other: Row | None, columns: Iterable[int]) -> bool:
        if other is None:
            return True
        return any(self.values.get(one) != other.values.get(one) for one in columns)


@dataclass(frozen=True)
class Table:
    """Columns and rows of one version; the key is a column of its own, which never changes."""

    columns: tuple[Column, ...]
    rows: Mapping[int, Row] = field(default_factory=dict)

    @property
    def identities(self) -> set[int]:
        return {one.identity for one in self.columns}

    @property
    def types(self) -> dict[str, pa.DataType]:
        return {KEY: pa.int64(), **{one.name: one.type for one in self.columns}}

    @property
    def keys(self) -> list[int]:
        return sorted(self.rows)

    def named(self) -> Named:
        """The rows as pylance shows them."""
        return {
            key: {one.name: row.values.get(one.identity) for one in self.columns}
            for key, row in self.rows.items()
        }

    def picked(self, picks: Iterable[int]) -> list[int]:
        """Some of the keys: each pick is one of them, whatever its size."""
        keys = self.keys
        return sorted({keys[pick % len(keys)] for pick in picks}) if keys else []

    def column(self, pick: int, *, numbers: bool = False) -> Column | None:
        columns = [one for one in self.columns if one.is_number or not numbers]
        return columns[pick % len(columns)] if columns else None

    def written(self, rows: Mapping[int, Row]) -> Table:
        return replace(self, rows={**self.rows, **rows})

    def without(self, keys: Iterable[int]) -> Table:
        gone = set(keys)
        return replace(self, rows={one: row for one, row in self.rows.items() if one not in gone})

    def with_column(self, column: Column) -> Table:
        columns = (column if one.identity == column.identity else one for one in self.columns)
        return replace(self, columns=tuple(columns))

    def touched_since(self, fork: Table) -> set[int]:
        """The keys of rows that were written or deleted since."""
        either = self.rows.keys() | fork.rows.keys()
        return {one for one in either if self._stamp(one) != fork._stamp(one)}

    def _stamp(self, key: int) -> int | None:
        row = self.rows.get(key)
        return row.stamp if row else None


class HistoriesConflictError(Exception):
    """Both histories changed the same row or the same columns, so no merge of them is right."""


def merge(fork: Table, ours: Table, theirs: Table) -> Table:
    """What comes of two histories since a fork; raises HistoriesConflictError."""
    ours = _with_columns_of(fork, ours)
    columns = _merged_columns(fork, ours, theirs)
    rows = {}
    for key in fork.rows.keys() | ours.rows.keys() | theirs.rows.keys():
        row = _merged_row(key, fork, ours, theirs)
        if row is not None:
            rows[key] = row
    return Table(columns, rows)


def _with_columns_of(fork: Table, table: Table) -> Table:
    """A table all of whose rows are new, in columns as they were, has the same columns.

    Nothing tells them from others, should there have been others in between.
    """
    if [*table.types.items()] != [*fork.types.items()] or table.rows.keys() & fork.rows.keys():
        return table
    again = {
        one.identity: old.identity for one, old in zip(table.columns, fork.columns, strict=True)
    }
    rows = {
        key: replace(row, values={again[one]: row.values.get(one) for one in again})
        for key, row in table.rows.items()
    }
    return Table(fork.columns, rows)


def _merged_columns(fork: Table, ours: Table, theirs: Table) -> tuple[Column, ...]:
    before, mine, yours = (
        {one.identity: one for one in table.columns} for table in (fork, ours, theirs)
    )
    merged = []
    for one in before | yours | mine:
        old, new, other = before.get(one), mine.get(one), yours.get(one)
        if new != old and other != old and new != other:
            raise HistoriesConflictError(f"column {one}")
        kept = other if new == old else new
        if kept is not None:
            merged.append(kept)
    if len({one.name for one in merged}) < len(merged):
        raise HistoriesConflictError("two columns of one name")
    return tuple(merged)


def _merged_row(key: int, fork: Table, ours: Table, theirs: Table) -> Row | None:
    old, mine, yours = fork.rows.get(key), ours.rows.get(key), theirs.rows.get(key)
    if old is None:
        return mine or yours
    we_did = old.differs(mine, fork.identities & ours.identities)
    they_did = old.differs(yours, fork.identities & theirs.identities)
    if we_did and they_did and (mine is None or mine.differs(yours, fork.identities)):
        raise HistoriesConflictError(f"row {key}")
    if mine is None or yours is None:
        return None
    changed = mine if we_did else yours
    added = {
        one: value
        for row in (mine, yours)
        for one, value in row.values.items()
        if one not in fork.identities
    }
    return Row({**added, **{one: changed.values.get(one) for one in fork.identities}}, 0)


@dataclass
class Side:
    """A branch, or main, and all of its versions as they should read.

    The `lost` ones are listed, though they read no more: pylance's cleanup keeps the manifest of a
    version from which a branch was forked, and not its deletion files.
    """

    place: Place
    branch: str
    table: Table
    store: RefStore
    numbers: Iterator[int]
    versions: dict[int, Table] = field(default_factory=dict)
    done: list[Operation] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)

    @classmethod
    def create(cls, place: Place, *, stable: bool, text: bool) -> Side:
        """Main, with two fragments."""
        numbers = count()
        columns = [Column(next(numbers), name, pa.int64()) for name in ("a", "b")]
        if text:
            columns.append(Column(next(numbers), "words", pa.string()))
        side = cls(place, "main", Table(tuple(columns)), place.store(), numbers)
        for mode, rows in (("create", 5), ("append", 4)):
            fresh = side.fresh(rows, 0)
            lance.write_dataset(
                side.arrow(fresh), place.uri, mode=mode, enable_stable_row_ids=stable
            )
            side.table = side.table.written(fresh)
            side.note()
        return side

    def fork(self, name: str) -> Side:
        """A branch of this one."""
        source = "main" if self.branch == "main" else f"branch:{self.branch}"
        self.store.create_branch(name, source)
        root = Place(self.store.uri)
        side = replace(self, place=root.branch(name), branch=name, versions={}, done=[], lost=set())
        side.note()
        return side

    @property
    def head(self) -> int:
        return int(self.place.open().version)

    def apply(self, operation: Operation) -> None:
        """Do it both ways; where pylance refuses, nothing has happened."""
        try:
            after = operation.apply(self, self.place.open())
        except (OSError, ValueError, RuntimeError) as error:
            self.refused.append(f"{type(operation).__name__}: {error}")
        else:
            if after is not None:
                self.table = after
                self.done.append(operation)
        self.note()

    def note(self) -> None:
        """The versions that came up read as the table does now."""
        for number in range(max(self.versions, default=self.head - 1) + 1, self.head + 1):
            self.versions[number] = self.table

    def fresh(
        self, size: int, salt: int, columns: Sequence[Column] | None = None
    ) -> dict[int, Row]:
        """New rows with keys that never were."""
        return self.rows([next(self.numbers) for _ in range(size)], salt, columns)

    def rows(
        self, keys: Iterable[int], salt: int, columns: Sequence[Column] | None = None
    ) -> dict[int, Row]:
        chosen = self.table.columns if columns is None else columns
        return {
            key: Row({one.identity: one.value(key, salt) for one in chosen}, next(self.numbers))
            for key in keys
        }

    def arrow(self, rows: Mapping[int, Row], table: Table | None = None) -> pa.Table:
        """Rows for pylance, with the columns in the order of its own schema if it has one."""
        chosen = table or self.table
        types = chosen.types
        named = replace(chosen, rows=rows).named()
        return pa.table(
            {
                name: pa.array(
                    [*rows] if name == KEY else [one[name] for one in named.values()], types[name]
                )
                for name in types
            }
        )

    def update(self, keys: Iterable[int], column: Column, value: Value) -> Table:
        """The table with one value in one column of some rows."""
        rows = {
            key: Row({**self.table.rows[key].values, column.identity: value}, next(self.numbers))
            for key in keys
        }
        return self.table.written(rows)


@dataclass(frozen=True)
class Operation:
    """A change of a table, or of what surrounds it."""

    def apply(self, side: Side, there: lance.LanceDataset) -> Table | None:
        """Do it with pylance; the table afterwards, or None if there was nothing to do."""
        raise NotImplementedError


@dataclass(frozen=True)
class Append(Operation):
    """New rows, in one fragment or in fragments of two rows."""

    size: int
    salt: int
    small: bool = False

    def apply(self, side: Side, there: lance.LanceDataset) -> Table:
        rows = side.fresh(self.size, self.salt)
        lance.write_dataset(
            side.arrow(rows).select(there.schema.names),
            side.place.uri,
            mode="append",
            max_rows_per_file=2 if self.small else 1000,
        )
        return side.table.written(rows)


@dataclass(frozen=True)
class WriteThrough(Operation):
    """New rows of a branch, in files that lie in the root: publishing them copies nothing."""

    size: int
    salt: int

    def apply(self, side: Side, there: lance.LanceDataset) -> Table | None:
        if side.branch == "main":
            return None
        rows = side.fresh(self.size, self.salt)
        target = side.store.write_target(side.branch)
        fragments = write_fragments(
            side.arrow(rows).select(there.schema.names),
            there,
            schema=there.schema,
            mode="append",
            target_bases=[target.uri],
        )
        for file in (file for fragment in fragments for file in fragment.files):
            file.base_id = target.base_id
        lance.LanceDataset.commit(
            there.uri, lance.LanceOperation.Append(fragments), read_version=there.version
        )
        return side.table.written(rows)


@dataclass(frozen=True)
class Delete(Operation):
    """Some rows, or all of them."""

    picks: tuple[int, ...]
    everything: bool = False

    def apply(self, side: Side, there: lance.LanceDataset) -> Table | None:
        keys = side.table.keys if self.everything else side.table.picked(self.picks)
        if not keys:
            return None
        there.delete("true" if self.everything else _among(keys))
        return side.table.without(keys)


@dataclass(frozen=True)
class Update(Operation):
    """One value into one column of some rows."""

    picks: tuple[int, ...]
    column: int
    value: int

    def apply(self, side: Side, there: lance.LanceDataset) -> Table | None:
        keys, column = side.table.picked(self.picks), side.table.column(self.column, numbers=True)
        if not keys or column is None:
            return None
        there.update({column.name: str(self.value)}, where=_among(keys))
        return side.update(keys, column, self.value)


@dataclass(frozen=True)
class RewriteColumn(Operation):
    """One value into one column of some rows, by another file for a whole fragment."""

    fragment: int
    picks: tuple[int, ...]
    column: int
    value: int

    def apply(self, side: Side, there: lance.LanceDataset) -> Table | None:
        fragments, column = there.get_fragments(), side.table.column(self.column, numbers=True)
        if not fragments or column is None:
            return None
        fragment = fragments[self.fragment % len(fragments)]
        found = fragment.to_table(columns=[KEY])[KEY].to_pylist()
        keys = replace(side.table, rows={one: side.table.rows[one] for one in found}).picked(
            self.picks
        )
        if not keys:
            return None
        values = pa.table(
            {
                KEY: pa.array(keys, pa.int64()),
                column.name: pa.array([self.value] * len(keys), column.type),
            }
        )
        changed, fields = fragment.update_columns(values, left_on=KEY, right_on=KEY)[:2]
        operation = lance.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields)
        lance.LanceDataset.commit(there.uri, operation, read_version=there.version)
        after = side.update(keys, column, self.value)
        rows = {one: replace(after.rows[one], stamp=next(side.numbers)) for one in found}
        return after.written(rows)


@dataclass(frozen=True)
class Upsert(Operation):
    """A merge_insert of some rows and new ones; what it does not name may go if it fits `drop`."""

    picks: tuple[int, ...]
    size: int
    salt: int
    drop: int | None = None

    def apply(self, side: Side, there: lance.LanceDataset) -> Table | None:
        keys = side.table.picked(self.picks)
        rows = {**side.rows(keys, self.salt), **side.fresh(self.size, self.salt)}
        if not rows:
            return None
        merging = there.merge_insert(KEY).when_matched_update_all().when_not_matched_insert_all()
        gone: list[int] = []
        if self.drop is not None:
            merging = merging.when_not_matched_by_source_delete(f"{KEY} % 5 = {self.drop}")
            gone = [one for one in side.table.keys if one % 5 == self.drop and one not in rows]
        merging.execute(side.arrow(rows).select(there.schema.names))
        return side.table.without(gone).written(rows)


@dataclass(frozen=True)
class Overwrite(Operation):
    """Other rows, and perhaps other columns."""

    size: int
    salt: int
    same_columns: bool

    def apply(self, side: Side, there: lance.LanceDataset) -> Table:
        table = replace(side.table, rows={})
        others = {KEY: pa.int64(), "b": pa.int64(), "z": pa.int64()}
        if not self.same_columns and table.types != others:
            names = [one for one in others if one != KEY]
            table = Table(tuple(Column(next(side.numbers), one, pa.int64()) for one in names))
        rows = side.fresh(self.size, self.salt, table.columns)
        written = side.arrow(rows, table)
        if table.columns == side.table.columns:
            written = written.select(there.schema.names)
        lance.write_dataset(written, side.place.uri, mode="overwrite")
        return table.written(rows)


@dataclass(frozen=True)
class AddColumn(Operation):
    """A column of nothing, or of what is computed from the key."""

    name: str
    computed: bool

    def apply(self, side: Side, there: lance.LanceDataset) -> Table | None:
        if self.name in side.table.types:
            return None
        there.add_columns(
            {self.name: f"{KEY} * 2"} if self.computed else pa.field(self.name, pa.int64())
        )
        column = Column(next(side.numbers), self.name, pa.int64())
        rows = {
            key: replace(
                row, values={**row.values, column.identity: key * 2 if self.computed else None}
            )
            for key, row in side.table.rows.items()
        }
        return Table((*side.table.columns, column), rows)


@dataclass(frozen=True)
class DropColumn(Operation):
    """A column gone."""

    column: int

    def apply(self, side: Side, there: lance.LanceDataset) -> Table | None:
        column = side.table.column(self.column)
        if column is None:
            return None
        there.drop_columns([column.name])
        rest = tuple(one for one in side.table.columns if one != column)
        return replace(side.table, columns=rest)


@dataclass(frozen=True)
class ReplaceColumn(Operation):
    """The last column gone and another there, to which Lance may give the same field id."""

    name: str
    computed: bool

    def apply(self, side: Side, there: lance.LanceDataset) -> Table | None:
        if not side.table.columns or self.name in side.table.types:
            return None
        there.drop_columns([side.table.columns[-1].name])
        side.table = replace(side.table, columns=side.table.columns[:-1])
        side.note()
        return AddColumn(self.name, self.computed).apply(side, side.place.open())


@dataclass(frozen=True)
class RenameColumn(Operation):
    """Another name for a column, perhaps one that another had."""

    column: int
    name: str

    def apply(self, side: Side, there: lance.LanceDataset) -> Table | None:
        column = side.table.column(self.column)
        if column is None or self.name in side.table.types:
            return None
        there.alter_columns({"path": column.name, "name": self.name})
        return side.table.with_column(replace(column, name=self.name))


@dataclass(frozen=True)
class CastColumn(Operation):
    """Another type for a column of numbers."""

    column: int
    wide: bool

    def apply(self, side: Side, there: lance.LanceDataset) -> Table | None:
        column = side.table.column(self.column, numbers=True)
        type_ = pa.float64() if self.wide else pa.int32()
        if column is None or column.type == type_:
            return None
        there.alter_columns({"path": column.name, "data_type": type_})
        return side.table.with_column(replace(column, type=type_))


@dataclass(frozen=True)
class Compact(Operation):
    """Fragments made one, and deleted rows dropped for good."""

    target: int
    threshold: float

    def apply(self, side: Side, there: lance.LanceDataset) -> Table:
        there.optimize.compact_files(
            target_rows_per_fragment=self.target, materialize_deletions_threshold=self.threshold
        )
        return side.table


@dataclass(frozen=True)
class CreateIndex(Operation):
    """A scalar index on one of the columns, or a text index on words."""

    column: int
    bitmap: bool

    def apply(self, side: Side, there: lance.LanceDataset) -> Table | None:
        column = side.table.column(self.column)
        if column is None:
            return None
        kind = "BITMAP" if self.bitmap else "BTREE"
        there.create_scalar_index(
            column.name, kind if column.is_number else "INVERTED", replace=True
        )
        return side.table


@dataclass(frozen=True)
class OptimizeIndices(Operation):
    """New fragments brought into the indices."""

    def apply(self, side: Side, there: lance.LanceDataset) -> Table:
        there.optimize.optimize_indices()
        return side.table


@dataclass(frozen=True)
class DropIndex(Operation):
    """One index less."""

    pick: int

    def apply(self, side: Side, there: lance.LanceDataset) -> Table | None:
        indices = there.describe_indices()
        if not indices:
            return None
        there.drop_index(indices[self.pick % len(indices)].name)
        return side.table


@dataclass(frozen=True)
class Configure(Operation):
    """An entry of the table's configuration."""

    value: int

    def apply(self, side: Side, there: lance.LanceDataset) -> Table:
        there.update_config({"some": str(self.value)})
        return side.table


@dataclass(frozen=True)
class Restore(Operation):
    """One of the last versions back."""

    back: int

    def apply(self, side: Side, there: lance.LanceDataset) -> Table | None:
        listed = sorted(one["version"] for one in there.versions())
        known = [one for one in listed if one in side.versions]
        version = known[-1 - self.back % len(known)]
        lance.dataset(side.place.uri, version=version).restore()
        return side.versions[version]


@dataclass(frozen=True)
class TagHead(Operation):
    """A name for the head, which a cleanup then leaves."""

    def apply(self, side: Side, there: lance.LanceDataset) -> Table:
        revision = "main" if side.branch == "main" else f"branch:{side.branch}"
        side.store.create_tag(f"t{next(side.numbers)}", revision)
        return side.table


@dataclass(frozen=True)
class CleanUp(Operation):
    """All versions gone that nothing names."""

    def apply(self, side: Side, there: lance.LanceDataset) -> Table:
        clean_up(side.place)
        return side.table


MILD = (Append, WriteThrough, Delete, Update, Upsert, CreateIndex, OptimizeIndices, DropIndex)
"""Of these alone, on different rows of branch and parent, none may keep a publish from landing."""


def clean_up(place: Place) -> None:
    """Remove all versions that nothing names, and all files that no version names."""
    place.open().cleanup_old_versions(
        older_than=NO_TIME, delete_unverified=True, error_if_tagged_old_versions=False
    )


def _among(keys: Iterable[int]) -> str:
    return f"{KEY} in ({', '.join(map(str, keys))})"


@dataclass(frozen=True)
class Round:
    """A branch, what is done on it, on its parent and on main meanwhile, and its publish."""

    branch: str
    steps: tuple[tuple[str, Operation], ...]
    optimize_indices: bool = False


@dataclass(frozen=True)
class History:
    """A table's life; with a `parent`, branches are made from that branch, and it is published."""

    stable: bool
    text: bool
    before: tuple[Operation, ...]
    parent: Round | None
    rounds: tuple[Round, ...]


_SALTS = st.integers(0, 60)
_PICKS = st.lists(st.integers(0, 40), min_size=1, max_size=4).map(tuple)
_SIZES = st.integers(1, 6)
_COLUMNS = st.integers(0, 5)
_STRATEGIES: dict[type[Operation], st.SearchStrategy[Operation]] = {
    Append: st.builds(Append, _SIZES, _SALTS, st.booleans()),
    WriteThrough: st.builds(WriteThrough, _SIZES, _SALTS),
    Delete: st.builds(Delete, _PICKS, st.sampled_from([False] * 9 + [True])),
    Update: st.builds(Update, _PICKS, _COLUMNS, _SALTS),
    RewriteColumn: st.builds(RewriteColumn, _COLUMNS, _PICKS, _COLUMNS, _SALTS),
    Upsert: st.builds(
        Upsert,
        _PICKS | st.just(()),
        st.integers(0, 3),
        _SALTS,
        st.sampled_from([None] * 8 + [0, 1]),
    ),
    Overwrite: st.builds(Overwrite, st.integers(0, 6), _SALTS, st.booleans()),
    AddColumn: st.builds(AddColumn, st.sampled_from(["w", "y"]), st.booleans()),
    DropColumn: st.builds(DropColumn, _COLUMNS),
    ReplaceColumn: st.builds(ReplaceColumn, st.sampled_from(["w", "y"]), st.booleans()),
    RenameColumn: st.builds(RenameColumn, _COLUMNS, st.sampled_from(["r", "a", "w"])),
    CastColumn: st.builds(CastColumn, _COLUMNS, st.booleans()),
    Compact: st.builds(Compact, st.sampled_from([5, 20, 10_000]), st.sampled_from([0.0, 0.1, 0.5])),
    CreateIndex: st.builds(CreateIndex, _COLUMNS, st.booleans()),
    OptimizeIndices: st.builds(OptimizeIndices),
    DropIndex: st.builds(DropIndex, _COLUMNS),
    Configure: st.builds(Configure, _SALTS),
    Restore: st.builds(Restore, st.integers(0, 3)),
    TagHead: st.builds(TagHead),
    CleanUp: st.builds(CleanUp),
}
_Kinds = Sequence[type[Operation]]
_ROWS: _Kinds = (Append, Append, Delete, Update, Update, Upsert)
_QUIET: _Kinds = (Append, Delete, CreateIndex, OptimizeIndices, Configure, TagHead, CleanUp)
_SCHEMA: _Kinds = (
    AddColumn,
    DropColumn,
    ReplaceColumn,
    RenameColumn,
    CastColumn,
    RewriteColumn,
)
_REWRITES: _Kinds = (Compact, Compact, Overwrite, Restore, RewriteColumn, Delete, CleanUp)
_ANY: _Kinds = (*_ROWS, *_ROWS, Compact, *_STRATEGIES)
_BIASES: dict[str, tuple[_Kinds, _Kinds]] = {
    "anything": (_ANY, _ANY),
    "rows": ((*_ROWS, WriteThrough, WriteThrough), (*_ROWS, *_ROWS, CreateIndex, CleanUp, TagHead)),
    "moved rows": ((Append, Update, Upsert, Compact, WriteThrough, Delete), _QUIET),
    "columns": ((*_SCHEMA, Append, Update, Delete, WriteThrough), _QUIET),
    "columns of the parent": (
        (Append, Append, WriteThrough, Delete, Update),
        (ReplaceColumn, *_SCHEMA, Delete, CleanUp),
    ),
    "rewritten": (_REWRITES, _QUIET),
    "rewritten parent": ((*_ROWS, WriteThrough), _REWRITES),
    "replaced": ((Overwrite, Append, Delete, Compact), (CreateIndex, TagHead, CleanUp, Configure)),
}


def _operations(kinds: _Kinds) -> st.SearchStrategy[Operation]:
    return st.sampled_from(kinds).flatmap(_STRATEGIES.__getitem__)


@st.composite
def _rounds(draw: st.DrawFn, names: Sequence[str]) -> Round:
    ours, theirs = _BIASES[draw(st.sampled_from([*_BIASES, "rows", "moved rows"]))]
    steps = st.tuples(st.just("branch"), _operations(ours)) | st.tuples(
        st.sampled_from(["parent"] * 4 + ["main"]), _operations(theirs)
    )
    return Round(
        draw(st.sampled_from(names)),
        tuple(draw(st.lists(steps, min_size=1, max_size=8))),
        draw(st.sampled_from([False] * 4 + [True])),
    )


@st.composite
def histories(draw: st.DrawFn, *, stable: bool) -> History:
    """Mostly of few operations, a third of them with a branch of a branch."""
    before = (*_ROWS, Compact, CreateIndex, CreateIndex, *_SCHEMA[:3], CleanUp, Overwrite)
    return History(
        stable,
        draw(st.booleans()),
        tuple(draw(st.lists(_operations(before), max_size=4))),
        draw(st.one_of(st.none(), st.none(), _rounds(["p"]))),
        tuple(draw(st.lists(_rounds(["b", "x/b"]), min_size=1, max_size=2))),
    )
