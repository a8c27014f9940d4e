"""A branch, or main, and its model, to which the same is done at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import lance
import pyarrow as pa

from airflow_provider_lancerefs.refstore import RefStore
from tests.refstore.publishing.rows import KEY, Column, Row, Table, Value
from tests.tables import Place


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
