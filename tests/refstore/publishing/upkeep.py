"""What may be done around the rows of one side: files, indices, versions and names."""

from __future__ import annotations

from dataclasses import dataclass

import lance

from tests.refstore.publishing.rows import Table
from tests.refstore.publishing.sides import Operation, Side


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
        side.place.clean_up()
        return side.table
