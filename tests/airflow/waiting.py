"""Bounded polling for a condition, in place of sleeping for a guess."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")
PAUSE = 0.1


def until(probe: Callable[[], _T], what: str, seconds: float = 60) -> _T:
    """The first true answer of a probe; TimeoutError, naming what did not happen, if none comes."""
    deadline = time.monotonic() + seconds
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"Waited {seconds:.0f} s for {what}; the last answer was {answer!r}")
        time.sleep(PAUSE)
