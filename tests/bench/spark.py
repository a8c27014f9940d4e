"""The fourth part: writing and reading with Spark, beside Parquet, the connector and pylance."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.bench import spark_report
from tests.bench.report import versions
from tests.bench.spark_results import Memory, Result, Results, bars
from tests.bench.spark_rows import Table, make_pool
from tests.bench.spark_stage import (
    CONNECTOR,
    CONNECTOR_PYSPARK,
    NoConnectorError,
    Setup,
    Worker,
    build,
    connector,
    remove,
)
from tests.bench.spark_ways import Task, Way

ROWS, QUICK_ROWS = 10**7, 10**4
FILTERED = 10**4  # rows that a filter leaves, at most
WARM_ROWS = 10**5
PARTITIONS, QUICK_PARTITIONS = (1, 2, 8), (2,)
ROUNDS = {Table.SCALARS: 3, Table.VECTORS: 1}
QUICK_ROUNDS = dict.fromkeys(Table, 1)


def run(folder: Path, *, quick: bool) -> list[str]:
    """Measure, print the tables, write the report; a line for each missed bar."""
    setups, missing = [Setup(Way.PARQUET), Setup(Way.OURS)], "a quick run leaves it out"
    used = versions("pyspark", "pylance", "pyarrow")
    if not quick:
        try:
            setups.append(connector())
            missing = ""
            used |= {CONNECTOR: f"in pyspark {CONNECTOR_PYSPARK}"}
        except NoConnectorError as error:
            missing = str(error)
    with tempfile.TemporaryDirectory(prefix="lancerefs-bench-") as scratch:
        bench = (
            _Bench(Path(scratch), QUICK_ROWS, 0, QUICK_ROUNDS)
            if quick
            else _Bench(Path(scratch), ROWS, WARM_ROWS, ROUNDS)
        )
        found = [*bench.measure(setups, QUICK_PARTITIONS if quick else PARTITIONS)]
    results = Results(found, bench.memory, used, missing)
    judged = [] if quick else bars(results)
    spark_report.write(folder, results, judged)
    return [str(bar) for bar in judged if not bar.kept]


@dataclass(frozen=True)
class _Case:
    table: Table
    partitions: int
    rows: int


class _Bench:
    """Takes the measurements: for each number of partitions, in new processes for each way."""

    def __init__(
        self, scratch: Path, rows: int, warm_rows: int, rounds: Mapping[Table, int]
    ) -> None:
        self._scratch = scratch
        self._rows = rows
        self._warm_rows = warm_rows
        self._rounds = rounds
        self._pool = str(scratch / "pool.parquet")
        make_pool(self._pool)
        self.memory: list[Memory] = []

    def measure(self, setups: Sequence[Setup], partitions: Sequence[int]) -> Iterator[Result]:
        yield from self._measure([Setup(Way.PYLANCE)], 0)
        for number in partitions:
            yield from self._measure(setups, number)

    def _measure(self, setups: Sequence[Setup], partitions: int) -> Iterator[Result]:
        with ExitStack() as stack:
            workers = [stack.enter_context(Worker(one, self._scratch)) for one in setups]
            for worker in workers:
                worker.wait()
            for table in Table:
                for worker in workers if self._warm_rows else ():
                    self._round(worker, _Case(table, partitions, self._warm_rows))
                case = _Case(table, partitions, self._rows)
                for result in self._side_by_side(workers, case, self._rounds[table]):
                    print(result, file=sys.stderr, flush=True)
                    yield result

    def _side_by_side(
        self, workers: Sequence[Worker], case: _Case, rounds: int
    ) -> Iterator[Result]:
        """All ways in turn, so that whatever else the machine does is not one way's alone."""
        taken: dict[tuple[Way, Task], list[float]] = {}
        most: dict[Way, int] = {}
        for _ in range(rounds):
            for worker in workers:
                seconds, memory = self._round(worker, case)
                most[worker.way] = max(most.get(worker.way, 0), memory)
                for task, took in seconds.items():
                    taken.setdefault((worker.way, task), []).append(took)
        self.memory += [Memory(way, case.table, case.partitions, one) for way, one in most.items()]
        for (way, task), all_seconds in taken.items():
            yield Result(way, task, case.table, case.partitions, case.rows, tuple(all_seconds))

    def _round(self, worker: Worker, case: _Case) -> tuple[dict[Task, float], int]:
        """Every task once, on a table of its own; what each took, and the most memory."""
        seconds, most = {}, 0
        writes = {Task.WRITE, Task.NOT_WEIGHED}
        for task in _tasks(worker.way, case.table):
            if task in writes:
                remove(str(self._scratch / "t"))
                uri = build(self._scratch, worker.way, case.table)
            else:
                uri = str(self._scratch / "t")
            start = case.rows // 2
            order = {
                "task": task,
                "table": case.table,
                "pool": self._pool,
                "rows": case.rows,
                "partitions": case.partitions,
                "uri": uri,
                "range": [start, start + _filtered(case.rows)],
            }
            reply, memory = worker.ask(order)
            _check(worker.way, task, case.rows, reply["found"])
            seconds[task], most = reply["seconds"], max(most, memory)
        remove(str(self._scratch / "t"))
        return seconds, most


def _filtered(rows: int) -> int:
    return min(FILTERED, rows // 10)


def _tasks(way: Way, table: Table) -> list[Task]:
    """In this order; where rows are long, weighing them is little of the work."""
    extra = way is Way.OURS and table is Table.SCALARS
    return [task for task in Task if task is not Task.NOT_WEIGHED or extra]


def _check(way: Way, task: Task, rows: int, found: dict[str, int] | None) -> None:
    """Sums are those of all rows, or of the few that were asked for."""
    if found is None:
        return
    start, count = (0, rows) if task is Task.COLUMNS else (rows // 2, _filtered(rows))
    right = {"rows": count, "n": sum(range(start, start + count))}
    if found != right:
        raise RuntimeError(f"{way}: {task} found {found}, not {right}.")
