"""What the tests' DAGs write, and how to tell whole runs from halves.

A run has a number, and each of its writers adds three rows: `1000 * run + 100 * writer + 0..2`.
Below 1000 are the rows that the table began with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

ROWS = 3
SEED = (1, 2, 3)


def rows_of(run: int, writer: int) -> list[int]:
    """What one writer of one run adds."""
    return [1000 * run + 100 * writer + row for row in range(ROWS)]


def whole_runs(values: Iterable[int], writers: int) -> Counter[int] | None:
    """How often each run is there, if every one is there as a whole; None if one is not."""
    counted = Counter(values)
    if any(counted.pop(value, 0) != 1 for value in SEED):
        return None
    runs: Counter[int] = Counter()
    for run in {value // 1000 for value in counted}:
        expected = [value for writer in range(writers) for value in rows_of(run, writer)]
        times = {counted.pop(value, 0) for value in expected}
        if len(times) != 1:
            return None
        runs[run] = times.pop()
    return None if counted else runs
