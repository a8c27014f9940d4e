"""What was measured of a case, and which bars it keeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.bench.sensors_stage import DATASETS, Case, Lateness
from tests.services.proxy import Request


@dataclass(frozen=True)
class Result:
    """Requests while nothing changed, and until a new tag in each dataset had been told."""

    case: Case
    interval: float
    intervals: int
    quiet: dict[str, int]
    per_interval: float
    changed: dict[str, int]
    events: int
    memory: int
    late_at_start: Lateness
    late: Lateness

    @property
    def allowed(self) -> int:
        """One request for each dataset in each interval."""
        return DATASETS * self.intervals if self.case.triggers else 0

    @property
    def made(self) -> int:
        return sum(self.quiet.values())

    @property
    def reads(self) -> int:
        return self.changed.get("GET", 0)

    @property
    def expected_events(self) -> int:
        return min(DATASETS, self.case.sensors) + min(DATASETS, self.case.watchers)

    def missed_bars(self) -> Iterator[str]:
        if self.made > self.allowed:
            yield (
                f"{self.case}: {self.made} requests in {self.intervals} intervals, at "
                f"most {self.allowed} are allowed"
            )
        if self.reads > DATASETS:
            yield (
                f"{self.case}: {self.changed['GET']} reads of {DATASETS} new tags, at most one "
                "each is allowed"
            )
        if self.events != self.expected_events:
            yield f"{self.case}: {self.events} events came, not {self.expected_events}"


def rate(requests: Iterable[Request], interval: float) -> float:
    """How many of such requests come in an interval, by the time between equal ones."""
    arrivals: defaultdict[str, list[float]] = defaultdict(list)
    for request in requests:
        arrivals[str(request)].append(request.arrived)
    return sum(
        interval * (len(times) - 1) / (times[-1] - times[0])
        for times in arrivals.values()
        if len(times) > 1
    )
