"""The second part: what publishing a branch costs, beside reading its rows and appending them."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.bench import publish_calls, publish_report
from tests.bench.measuring import LATENCY, Meter, Run, Sample
from tests.bench.publish_results import Result, Results, Size, Way, Where, bars
from tests.bench.publish_stage import Ground, NewRows, OnDisk, OnServer, build, check
from tests.services.proxy import S3Proxy
from tests.services.seaweed import s3_server

NARROW, WIDE = 1, 8  # columns
SIZES = (
    *(Size(NARROW, 10, 10**power) for power in (4, 5, 6, 7, 8)),
    *(Size(WIDE, 10, 10**power) for power in (4, 5, 6, 7)),
    *(Size(NARROW, files, 10**6) for files in (1, 100, 1_000)),
)
QUICK_SIZES = (
    *(Size(NARROW, 10, 10**power) for power in (4, 5)),
    *(Size(NARROW, files, 10**5) for files in (1, 100)),
)
QUICK_PLACES = (Where.FAR, Where.DISK)
REPEATS = 3
_SPARK_AT = (Where.S3, Where.DISK)
MOST_REPEATED = 10**8  # bytes of new rows
WORK = {
    Way.ZERO_COPY: publish_calls.publish,
    Way.COPIES: publish_calls.publish,
    Way.APPEND: publish_calls.append,
    Way.SPARK: publish_calls.insert_select,
}


def run(folder: Path, *, quick: bool) -> list[str]:
    """Measure, print the tables, write the report; a line for each missed bar."""
    sizes, places = (QUICK_SIZES, QUICK_PLACES) if quick else (SIZES, tuple(Where))
    with (
        tempfile.TemporaryDirectory(prefix="lancerefs-bench-") as scratch,
        s3_server() as server,
        S3Proxy(server.port) as proxy,
        Meter(proxy) as meter,
    ):
        disk, near = Path(scratch), OnServer(server)
        grounds: dict[Where, Ground] = {Where.S3: near, Where.FAR: near, Where.DISK: OnDisk(disk)}
        bench = _Bench(
            meter,
            {where: grounds[where] for where in places},
            server.storage_options(proxy.port),
        )
        found = Results([*bench.measure(disk, sizes, repeats=1 if quick else REPEATS)])
    judged = bars(found, timed=not quick)
    publish_report.write(folder, found, judged)
    return [str(bar) for bar in judged if not bar.kept]


class _Bench:
    """Takes the measurements, each on a dataset of its own."""

    def __init__(
        self, meter: Meter, grounds: Mapping[Where, Ground], through_proxy: Mapping[str, str]
    ) -> None:
        self._meter = meter
        self._grounds = grounds
        self._through_proxy = through_proxy
        self._names = 0

    def measure(self, scratch: Path, sizes: Iterable[Size], repeats: int) -> Iterator[Result]:
        """Every way at every size and place, after a round that only warms connections up."""
        for number, size in enumerate([Size(NARROW, 1, 1_000), *sizes]):
            folder = scratch / f"new-{number}"
            new = NewRows(folder, size)
            for where in self._grounds:
                counted = where is Where.FAR
                rounds = 1 if counted or size.bytes > MOST_REPEATED else repeats
                for result in self._side_by_side(new, where, rounds):
                    if number:
                        print(result, file=sys.stderr, flush=True)
                        yield result
            shutil.rmtree(folder)

    def _side_by_side(self, new: NewRows, where: Where, rounds: int) -> Iterator[Result]:
        """All ways in turn, so that whatever else the machine does is not one way's alone.

        But Spark last: what it leaves the machine to do would be another's time.
        """
        light = [way for way in Way if way is not Way.SPARK]
        heavy = [Way.SPARK] if where in _SPARK_AT and publish_calls.has_java() else []
        runs: dict[Way, list[Run]] = {way: [] for way in (*light, *heavy)}
        for way in (*light * rounds, *heavy * rounds):
            runs[way].append(self._once(new, way, where))
        for way, done in runs.items():
            sample = Sample(dict(done[0].requests), tuple(one.seconds for one in done))
            yield Result(new.size, way, where, sample)

    def _once(self, new: NewRows, way: Way, where: Where) -> Run:
        self._names += 1
        ground, far = self._grounds[where], where is Where.FAR
        uri = build(ground, f"bench-{self._names:04d}", new, way)
        done = self._meter.run(
            WORK[way],
            uri,
            self._through_proxy if far else ground.options,
            latency=LATENCY if far else 0.0,
        )
        copied = new.size.files if way is Way.COPIES else 0
        if done.result != copied:
            raise RuntimeError(f"{way} of {new.size} copied {done.result} files, not {copied}.")
        check(ground, uri, new.size)
        ground.remove(uri)
        return done
