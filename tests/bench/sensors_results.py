"""What was measured of a case, and which bars it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.bench.sensors_stage import DATASETS, Case, Lateness


@dataclass(frozen=True)
class Result:
    """Requests while nothing changed, and until a new tag in each dataset had been told."""

    case: Case
    interval: float
    intervals: int
    quiet: dict[str, int]
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
    def per_interval(self) -> float:
        return self.made / self.intervals

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
