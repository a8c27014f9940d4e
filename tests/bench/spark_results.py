"""What is measured of writing and reading with Spark, and the bars that it has to keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.bench.spark_rows import Table
from tests.bench.spark_ways import Task, Way

AS_FAST_AS_CONNECTOR = 1.3  # times as long may a full read take


@dataclass(frozen=True)
class Result:
    """What one task took in so many partitions; 0 where there are none."""

    way: Way
    task: Task
    table: Table
    partitions: int
    rows: int
    seconds: float

    def __str__(self) -> str:
        among = f"{self.table}, {self.partitions} partitions"
        return f"{self.way}, {among}: {self.task} {self.seconds:.2f} s"


@dataclass(frozen=True)
class Memory:
    """The most that a way's processes held at once, all in all."""

    way: Way
    table: Table
    partitions: int
    bytes: int


@dataclass(frozen=True)
class Bar:
    """One thing that has to hold, with the numbers that show whether it does."""

    what: str
    allowed: str
    found: str
    kept: bool

    def __str__(self) -> str:
        return f"{self.what}: {self.found}, the bar is {self.allowed}"


class Results:
    """All results of a run, found by what was measured; `missing` says why the connector is not."""

    def __init__(
        self,
        results: Sequence[Result],
        memory: Sequence[Memory] = (),
        versions: dict[str, str] | None = None,
        missing: str = "",
        *,
        in_memory: bool = False,
    ) -> None:
        self.all = tuple(results)
        self.memory = tuple(memory)
        self.versions = versions or {}
        self.missing = missing
        self.in_memory = in_memory
        self._found = {(one.way, one.task, one.table, one.partitions): one for one in results}

    @property
    def tables(self) -> list[Table]:
        return [table for table in Table if any(one.table is table for one in self.all)]

    @property
    def partitions(self) -> list[int]:
        return sorted({one.partitions for one in self.all} - {0})

    @property
    def ways(self) -> list[Way]:
        return [way for way in Way if any(one.way is way for one in self.all)]

    def rows(self, table: Table) -> int:
        return next(one.rows for one in self.all if one.table is table)

    def seconds(self, way: Way, task: Task, table: Table, partitions: int) -> float | None:
        """A way without partitions takes as long with any number of them."""
        among = 0 if way is Way.PYLANCE else partitions
        found = self._found.get((way, task, table, among))
        return found.seconds if found else None

    def faster(self, other: Way, task: Task, table: Table, partitions: int) -> float | None:
        """How many times our throughput is the other's."""
        ours = self.seconds(Way.OURS, task, table, partitions)
        theirs = self.seconds(other, task, table, partitions)
        return theirs / ours if ours and theirs else None


def bars(results: Results) -> list[Bar]:
    """Every bar on the table with vectors, with what was found."""
    return [bar for number in results.partitions for bar in _bars(results, number)]


def _bars(results: Results, partitions: int) -> Iterator[Bar]:
    table, where = Table.VECTORS, f"{partitions} partition{'s' if partitions > 1 else ''}"
    others = (Way.CONNECTOR, Way.PARQUET)
    written = {
        way: ratio
        for way in others
        if (ratio := results.faster(way, Task.WRITE, table, partitions))
    }
    if written:
        fastest = min(written, key=lambda way: written[way])
        yield _at_least(f"write, {where}: times as fast as {fastest}", 1, written[fastest])
    for task, bar in ((Task.READ, 1 / AS_FAST_AS_CONNECTOR), (Task.COLUMNS, 1), (Task.FILTER, 1)):
        ratio = results.faster(Way.CONNECTOR, task, table, partitions)
        if ratio is not None:
            yield _at_least(f"{task}, {where}: times as fast as {Way.CONNECTOR}", bar, ratio)


def _at_least(what: str, least: float, found: float) -> Bar:
    return Bar(what, f"at least {least:.2f}", f"{found:.2f}", found >= least)
