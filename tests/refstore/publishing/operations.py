"""Changes of rows and columns that may be made to one side, through pylance and in the model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import lance
import pyarrow as pa
from lance.fragment import write_fragments

from tests.refstore.publishing.rows import KEY, Column, Table
from tests.refstore.publishing.sides import Operation, Side


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


def _among(keys: Iterable[int]) -> str:
    return f"{KEY} in ({', '.join(map(str, keys))})"
