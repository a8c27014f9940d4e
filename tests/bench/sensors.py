"""The third part: what many deferred sensors and watchers on few datasets cost."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.bench import sensors_report
from tests.bench.sensors_results import Result, rate
from tests.bench.sensors_stage import DATASETS, Case, Lateness, Tables, Triggerer, asked
from tests.services.proxy import Recording, S3Proxy
from tests.services.seaweed import S3Server, s3_server

CASES = (
    Case(0, 0),
    Case(10, 10),
    Case(100, 100),
    Case(1_000, 0),
    Case(0, 1_000),
    Case(1_000, 1_000),
)
QUICK_CASES = (Case(50, 50),)
INTERVAL, QUICK_INTERVAL = 10.0, 2.0
INTERVALS, QUICK_INTERVALS = 6, 3


def run(folder: Path, *, quick: bool) -> list[str]:
    """Measure, print the tables, write the report; a line for each missed bar."""
    interval, intervals = (QUICK_INTERVAL, QUICK_INTERVALS) if quick else (INTERVAL, INTERVALS)
    with (
        tempfile.TemporaryDirectory(prefix="lancerefs-bench-") as scratch,
        s3_server() as server,
        S3Proxy(server.port) as proxy,
    ):
        bench = _Bench(Path(scratch), server, proxy, interval, intervals)
        results = list(bench.measure(QUICK_CASES if quick else CASES))
    sensors_report.write(folder, results)
    return [line for result in results for line in result.missed_bars()]


class _Bench:
    """Takes the measurements, each with a triggerer and datasets of its own."""

    def __init__(
        self, scratch: Path, server: S3Server, proxy: S3Proxy, interval: float, intervals: int
    ) -> None:
        self._scratch = scratch
        self._server = server
        self._proxy = proxy
        self._interval = interval
        self._intervals = intervals

    def measure(self, cases: tuple[Case, ...]) -> Iterator[Result]:
        for number, case in enumerate(cases):
            print(case, file=sys.stderr, flush=True)
            tables = Tables(self._server, f"case-{number}").create()
            triggers = asked(tables, case, self._interval)
            options = self._server.storage_options(self._proxy.port)
            with Triggerer(self._scratch / str(number), options, triggers) as triggerer:
                yield self._measure(case, tables, triggerer)

    def _measure(self, case: Case, tables: Tables, triggerer: Triggerer) -> Result:
        late_at_start = self._start(case, triggerer)
        mark = triggerer.mark
        quiet = self._watch()
        late = triggerer.late(mark)
        memory = triggerer.memory
        changed, events = self._change(case, tables, triggerer)
        if triggerer.failures():
            raise RuntimeError(f"Triggers failed: {triggerer.failures()[:3]}")
        return Result(
            case=case,
            interval=self._interval,
            intervals=self._intervals,
            quiet=dict(quiet.kinds),
            per_interval=rate(quiet.requests, self._interval),
            changed=dict(changed),
            events=events,
            memory=memory,
            late_at_start=late_at_start,
            late=late,
        )

    def _start(self, case: Case, triggerer: Triggerer) -> Lateness:
        """Wait until all triggers run, and every dataset was looked at twice since."""
        triggerer.wait(lambda: triggerer.is_ready(case))
        triggerer.wait(lambda: triggerer.has_probed)
        late = triggerer.late(0)
        with self._proxy.recording() as recording:
            looks = 2 * DATASETS if case.triggers else 0
            triggerer.wait(lambda: recording.kinds["LIST"] >= looks)
        return late

    def _watch(self) -> Recording:
        """The requests of so many intervals, in which nothing changes.

        Half an interval less is waited: no dataset can be looked at once more than that.
        """
        with self._proxy.recording() as recording:
            time.sleep((self._intervals - 0.5) * self._interval)
        return recording

    def _change(self, case: Case, tables: Tables, triggerer: Triggerer) -> tuple[Counter[str], int]:
        """The requests until a new tag in each dataset is known to all that wait for it."""
        expected = min(DATASETS, case.sensors) + min(DATASETS, case.watchers)
        mark = triggerer.mark
        with self._proxy.recording() as recording:
            tables.tag("release-0-a")
            triggerer.wait(lambda: len(triggerer.tags(mark)) >= expected)
        return recording.kinds, len(triggerer.tags(mark))
