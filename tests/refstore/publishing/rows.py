"""A plain model of tables, and the three-way merge that a publish has to come to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

KEY = "key"
WORDS = ("alpha", "beta", "gamma", "delta")
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
