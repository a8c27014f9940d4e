"""One call is killed at each of its writes in turn, and what it leaves is looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from airflow_provider_lancerefs.refstore.dataset import Dataset
from tests.refstore.crashing.worlds import World

Check = Callable[[Dataset], None]
MOST_POINTS = 1000
_LONGEST = 600


@dataclass
class Outcome:
    """At how many writes a call was killed, and what was wrong afterwards."""

    points: int = 0
    failures: list[str] = field(default_factory=list)


def crash_everywhere(world: World, call: str, checks: Sequence[Check]) -> Outcome:
    """Kill a call at its first write, its second and so on, until it lives to its end.

    Each check is given remains of its own, with the ages that a crash leaves; also those of the one
    that lived, for who is killed just before its success is heard of leaves no other.
    """
    outcome = Outcome()
    before = world.save()
    for number in range(1, MOST_POINTS):
        died = False
        for check in checks:
            world.restore(before)
            killed = world.kill(call, number)
            died |= killed
            try:
                check(world.dataset)
            except Exception as error:  # whatever it is, the next write is tried as well
                when = f"killed at {number}" if killed else "not killed"
                outcome.failures.append(f"{when}, {check.__name__}: {in_short(error)}")
        if not died:
            return outcome
        outcome.points += 1
    raise RuntimeError(f"{call!r} does not come to an end.")


def in_short(error: Exception) -> str:
    """An error in one line, of a long one its two ends."""
    said = " ".join(f"{type(error).__name__}: {error}".split())
    if len(said) <= _LONGEST:
        return said
    return f"{said[: _LONGEST // 2]} ... {said[-_LONGEST // 2 :]}"
