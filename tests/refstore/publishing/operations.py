"""What may be done to one side, through pylance and in the model at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count

import lance
import pyarrow as pa
from lance.fragment import write_fragments

from airflow_provider_lancerefs.refstore import RefStore
from tests.refstore.publishing.rows import KEY, Column, Row, Table, Value
from tests.tables import Place

NO_TIME = timedelta(0)


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
