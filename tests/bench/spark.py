"""The fourth part: writing and reading with Spark, beside Parquet, the connector and pylance."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeVar

from tests.bench import spark_report
from tests.bench.report import versions
from tests.bench.spark_results import Memory, Result, Results, bars
from tests.bench.spark_rows import Table, make_pool
from tests.bench.spark_stage import (
    CONNECTOR,
    CONNECTOR_PYSPARK,
    EndedError,
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
OFTEN = {Task.COLUMNS: 5, Task.FILTER: 5}  # short ones, of which the middle one counts
_IN_MEMORY = Path("/dev/shm")
_ROOM = 16 * 2**30  # two tables, and what else there is

_T = TypeVar("_T")


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
    room = _room()
    with tempfile.TemporaryDirectory(prefix="lancerefs-bench-", dir=room) as scratch:
        bench = (
            _Bench(Path(scratch), QUICK_ROWS, 0)
            if quick
            else _Bench(Path(scratch), ROWS, WARM_ROWS)
        )
        found = [*bench.measure(setups, QUICK_PARTITIONS if quick else PARTITIONS)]
    lost = missing or "; ".join(dict.fromkeys(bench.lost))
    results = Results(found, bench.memory, used, lost, in_memory=room is not None)
    judged = [] if quick else bars(results)
    spark_report.write(folder, results, judged)
    return [str(bar) for bar in judged if not bar.kept]


@dataclass(frozen=True)
class _Case:
    table: Table
    partitions: int
    rows: int


@dataclass(frozen=True)
class _Round:
    """What each task took, and the most memory."""

    seconds: Mapping[Task, float]
    memory: int


class _Bench:
    """Takes the measurements: for each number of partitions, in new processes for each way."""

    def __init__(self, scratch: Path, rows: int, warm_rows: int) -> None:
        self._scratch = scratch
        self._rows = rows
        self._warm_rows = warm_rows
        self._pool = str(scratch / "pool.parquet")
        make_pool(self._pool)
        self.memory: list[Memory] = []
        self.lost: list[str] = []
        self._folders = 0

    def measure(self, setups: Sequence[Setup], partitions: Sequence[int]) -> Iterator[Result]:
        yield from self._measure([Setup(Way.PYLANCE)], 0)
        for number in partitions:
            yield from self._measure(setups, number)

    def _measure(self, setups: Sequence[Setup], partitions: int) -> Iterator[Result]:
        with ExitStack() as stack:
            started = [stack.enter_context(Worker(one, self._scratch)) for one in setups]
            workers = [one for one in started if self._tried(one, partitions, one.wait)]
            for table in Table:
                warm = _Case(table, partitions, self._warm_rows)
                case = _Case(table, partitions, self._rows)
                if warm.rows:
                    self._take_turns(workers, warm)
                for result in self._results(self._take_turns(workers, case), case):
                    print(result, file=sys.stderr, flush=True)
                    yield result

    def _take_turns(self, workers: list[Worker], case: _Case) -> dict[Way, _Round]:
        """All ways, one after the other; one whose process has ended is out of it."""
        taken: dict[Way, _Round] = {}
        for worker in tuple(workers):
            done = self._tried(worker, case.partitions, partial(self._round, worker, case))
            if done is None:
                workers.remove(worker)
            else:
                taken[worker.way] = done
        return taken

    def _tried(self, worker: Worker, partitions: int, work: Callable[[], _T]) -> _T | None:
        """What work with a worker gives; None where it is the connector's, and ended by itself."""
        try:
            return work()
        except EndedError as error:
            if worker.way is not Way.CONNECTOR:
                raise
            print(error, file=sys.stderr, flush=True)
            self.lost.append(f"its process ended by itself with {partitions} partitions")
            remove(str(self._scratch / f"table-{self._folders}"))
            return None

    def _results(self, taken: Mapping[Way, _Round], case: _Case) -> Iterator[Result]:
        for way, done in taken.items():
            self.memory.append(Memory(way, case.table, case.partitions, done.memory))
            for task, seconds in done.seconds.items():
                yield Result(way, task, case.table, case.partitions, case.rows, seconds)

    def _round(self, worker: Worker, case: _Case) -> _Round:
        """Every task once, on a table of its own; what each took, and the most memory."""
        seconds: dict[Task, float] = {}
        most, uri = 0, ""
        for task in _tasks(worker.way):
            if not uri:
                uri = build(self._new_folder(), worker.way, case.table)
            took = []
            for _ in range(OFTEN.get(task, 1)):
                reply, memory = worker.ask(self._order(task, case, uri))
                _check(worker.way, task, case.rows, reply["found"])
                took.append(reply["seconds"])
                most = max(most, memory)
            seconds[task] = median(took)
        remove(uri)
        return _Round(seconds, most)

    def _new_folder(self) -> Path:
        """One that no library has seen, and may remember something of."""
        self._folders += 1
        return self._scratch / f"table-{self._folders}"

    def _order(self, task: Task, case: _Case, uri: str) -> dict[str, object]:
        start = case.rows // 2
        return {
            "task": task,
            "table": case.table,
            "pool": self._pool,
            "rows": case.rows,
            "partitions": case.partitions,
            "uri": uri,
            "range": [start, start + _filtered(case.rows)],
        }


def _room() -> Path | None:
    """Memory, if files have room there: else a disk's pace is what is compared."""
    roomy = _IN_MEMORY.is_dir() and shutil.disk_usage(_IN_MEMORY).free > _ROOM
    return _IN_MEMORY if roomy else None


def _filtered(rows: int) -> int:
    return min(FILTERED, rows // 10)


def _tasks(way: Way) -> list[Task]:
    """In this order; rows are made for us by the same Spark as for Parquet."""
    return [task for task in Task if task is not Task.GENERATE or way is not Way.OURS]


def _check(way: Way, task: Task, rows: int, found: dict[str, int] | None) -> None:
    """Sums are those of all rows, or of the few that were asked for."""
    if found is None:
        return
    start, count = (0, rows) if task is Task.COLUMNS else (rows // 2, _filtered(rows))
    right = {"rows": count, "n": sum(range(start, start + count))}
    if found != right:
        raise RuntimeError(f"{way}: {task} found {found}, not {right}.")
