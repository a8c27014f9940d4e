"""The first part: what reading and changing refs costs, ours and pylance's, as the refs grow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.bench import refs_report
from tests.bench.calls import Library, Ours, Theirs
from tests.bench.measuring import LATENCY, Measurement, Meter, Run, Sample
from tests.bench.stage import Stage
from tests.services.proxy import S3Proxy
from tests.services.seaweed import s3_server

SIZES = (0, 100, 2_500, 10_000)
CROWD = (10_000, 1_000)
QUICK_SIZES = (0, 100)
QUICK_CROWD = (100, 20)
REPEATS = 3
MOST_REPEATED = 500  # requests of a call that is run more than once
MOST_TIMED = 30_000  # requests of a call that is run with latency

Scene = Callable[[Stage], None]
Hook = Callable[[Stage, str], None]


def _nothing(*_: object) -> None:
    return


def _one(refs: int) -> int:
    return 1


def _pages(refs: int) -> int:
    return max(1, -(-refs // 1000))


@dataclass(frozen=True)
class Call:
    """A pair of calls, what has to stand before them, and what is cleared away after them.

    `before` and `after` are around each run, `set_up` and `tear_down` around all of them. `bar` is
    the most requests ours may make among so many refs. `counts` says that the result is the number
    of refs, and has to be right.
    """

    title: str
    verb: str
    before: Hook = _nothing
    after: Hook = _nothing
    set_up: Scene = _nothing
    tear_down: Scene = _nothing
    bar: Callable[[int], int] | None = None
    counts: bool = False
    new_process: bool = False


OPENING = (
    Call("open the dataset", "open"),
    Call(
        "create a tag: a process's first write",
        "create_tag",
        after=Stage.drop_tag,
        new_process=True,
    ),
    Call(
        "create a tag: a dataset's first write",
        "create_tag",
        before=Stage.forget_proof,
        after=Stage.drop_tag,
        new_process=True,
    ),
)
AMONG_TAGS = (
    Call("list tag names", "tag_names", bar=_pages, counts=True),
    Call("list tags with contents", "tags", counts=True),
    Call("read a tag", "read_tag", Stage.create_tag, Stage.drop_tag, bar=_one),
    Call("create a tag on main", "create_tag", after=Stage.drop_tag, bar=lambda refs: 2),
    Call(
        "create a tag on a branch",
        "create_tag_on_branch",
        after=Stage.drop_tag,
        set_up=Stage.create_source,
        tear_down=Stage.drop_source,
        bar=lambda refs: 3,
    ),
    Call(
        "create a tag on a fork just made",
        "create_tag_on_branch",
        Stage.create_fork,
        Stage.drop_tag_and_fork,
        bar=lambda refs: 3,
    ),
    Call("move a tag", "move_tag", Stage.create_tag, Stage.drop_tag),
    Call("shallow clone", "clone", after=Stage.drop_clone),
    Call("delete a branch", "delete_branch", Stage.create_old_branch),
)
AMONG_BRANCHES = (
    Call("list branch names", "branch_names", bar=_pages, counts=True),
    Call("list branches with contents", "branches", counts=True),
    Call(
        "create a branch from main",
        "create_branch",
        after=Stage.drop_branch,
        bar=lambda refs: 7,
    ),
    Call(
        "create a branch from a branch",
        "create_branch_from_branch",
        after=Stage.drop_branch,
        set_up=Stage.create_source,
        tear_down=Stage.drop_source,
        bar=lambda refs: 9,
    ),
    Call("delete a branch", "delete_branch", Stage.create_old_branch),
)
IN_A_CROWD = Call("delete a branch", "delete_branch", Stage.create_old_branch, bar=lambda refs: 30)


def run(folder: Path, *, quick: bool) -> list[str]:
    """Measure, print the tables, write the report; a line for each missed bar."""
    sizes, crowd = (QUICK_SIZES, QUICK_CROWD) if quick else (SIZES, CROWD)
    with s3_server() as server, S3Proxy(server.port) as proxy, Meter(proxy) as meter:
        bench = _Bench(meter, repeats=1 if quick else REPEATS)
        tags = Stage(server, proxy, "bench-tags")
        bench.warm_up(tags, AMONG_TAGS)
        bench.measure(tags, "refs", 0, OPENING)
        for size in sizes:
            tags.grow(tags=size)
            bench.measure(tags, "tags", size, AMONG_TAGS)
        branches = Stage(server, proxy, "bench-branches")
        bench.warm_up(branches, AMONG_BRANCHES)
        for size in sizes:
            branches.grow(branches=size)
            bench.measure(branches, "branches", size, AMONG_BRANCHES)
        tags.grow(tags=crowd[0], branches=crowd[1])
        bench.measure(tags, f"tags and {crowd[1]:,} branches", crowd[0], [IN_A_CROWD])
    refs_report.write(folder, bench.measurements)
    return [line for one in bench.measurements if (line := one.missed_bar)]


class _Bench:
    """Takes the measurements, and gives each run of a call a name of its own to work on."""

    def __init__(self, meter: Meter, repeats: int) -> None:
        self.measurements: list[Measurement] = []
        self._meter = meter
        self._repeats = repeats
        self._names = 0

    def warm_up(self, stage: Stage, calls: Iterable[Call]) -> None:
        """Run each call once, so that connections and caches are as in a process at work."""
        for call in calls:
            call.set_up(stage)
            for library in (Ours, Theirs):
                self._once(stage, call, library, 0, latency=0.0)
            call.tear_down(stage)

    def measure(self, stage: Stage, among: str, refs: int, calls: Iterable[Call]) -> None:
        """Measure both sides of each call on a stage that holds so many refs."""
        listed: dict[object, Sample] = {}
        for call in calls:
            samples = []
            call.set_up(stage)
            for library in (Ours, Theirs):
                work = getattr(library, call.verb)
                sample = listed.get(work)  # pylance lists names by listing contents
                if sample is None:
                    sample = self._sample(stage, call, library, among, refs)
                if call.counts:
                    listed[work] = sample
                samples.append(sample)
            call.tear_down(stage)
            bar = call.bar(refs) if call.bar else None
            done = Measurement(call.title, among, refs, samples[0], samples[1], bar)
            self.measurements.append(done)
            print(done, file=sys.stderr, flush=True)

    def _sample(self, stage: Stage, call: Call, library: Library, among: str, refs: int) -> Sample:
        timed = self._expected(call, library, among, refs) <= MOST_TIMED
        latency = LATENCY if timed else 0.0
        runs = [self._once(stage, call, library, refs, latency)]
        if sum(runs[0].requests.values()) <= MOST_REPEATED:
            runs += [
                self._once(stage, call, library, refs, latency) for _ in range(self._repeats - 1)
            ]
        most = max((one.requests for one in runs), key=lambda requests: sum(requests.values()))
        return Sample(dict(most), tuple(one.seconds for one in runs) if timed else ())

    def _once(self, stage: Stage, call: Call, library: Library, refs: int, latency: float) -> Run:
        self._names += 1
        name = f"bench-{self._names:04d}"
        call.before(stage, name)
        done = self._meter.run(
            getattr(library, call.verb),
            stage.site,
            name,
            latency=latency,
            new_process=call.new_process,
        )
        call.after(stage, name)
        if call.counts and done.result != refs:
            raise RuntimeError(f"{call.title}: {done.result} refs were listed, of {refs}.")
        return done

    def _expected(self, call: Call, library: Library, among: str, refs: int) -> float:
        """The requests to be expected, by those that were made among fewer refs."""
        for one in reversed(self.measurements):
            if (one.call, one.among) == (call.title, among) and one.refs:
                before = one.ours if library is Ours else one.pylance
                return before.total * refs / one.refs
        return 0
