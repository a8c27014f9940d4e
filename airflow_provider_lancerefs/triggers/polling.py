"""One loop that looks, for any number of triggers that wait for what it sees.

The first to subscribe under a key starts the loop, the last to leave ends it. Each event loop has
its own.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

_Seen = TypeVar("_Seen")
_SeenNow = TypeVar("_SeenNow", covariant=True)
SHORTEST_INTERVAL = 0.1
LONGEST_PAUSE = 300.0
_MOST_DOUBLINGS = 16

log = logging.getLogger(__name__)


class Source(Protocol[_SeenNow]):
    """Where a loop looks: once for all its subscribers."""

    async def look(self) -> _SeenNow: ...


@dataclass(frozen=True, eq=False)
class Failure:
    """A look that came to nothing."""

    error: Exception


class Poll(Generic[_Seen]):
    """Looks once per interval; after failures, ever less often."""

    def __init__(self, key: Hashable, source: Source[_Seen], interval: float) -> None:
        self.members = 0
        self.shown: _Seen | Failure | None = None
        self._key = key
        self._source = source
        self._interval = interval
        self._failures = 0
        self._turn = asyncio.get_running_loop().create_future()
        # An empty context: what it logs belongs to no single one of the tasks that wait for it.
        self._task = asyncio.create_task(
            self._run(), name=f"lancerefs-poll[{key!r}]", context=Context()
        )

    async def after(self, seen: _Seen | Failure | None) -> _Seen | Failure:
        """What is shown now, or next where that is what the caller has seen."""
        while self.shown is None or self.shown is seen:
            await asyncio.shield(self._turn)
        return self.shown

    def stop(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            self.shown = await self._look()
            turn, self._turn = self._turn, asyncio.get_running_loop().create_future()
            turn.set_result(None)
            await asyncio.sleep(pause(self._interval, self._failures))

    async def _look(self) -> _Seen | Failure:
        try:
            seen = await self._source.look()
        except Exception as error:  # whatever it is: an end here would leave the others waiting
            self._failures += 1
            if self._failures == 1:
                log.warning(
                    "Cannot look at %r, and try again ever less often: %s",
                    self._key,
                    type(error).__name__,
                )
            return Failure(error)
        if self._failures:
            log.info("Looking at %r works again.", self._key)
        self._failures = 0
        return seen


class Subscription(Generic[_Seen]):
    """What a loop shows from now on: the newest only, to whoever takes long over one."""

    def __init__(self, poll: Poll[_Seen]) -> None:
        self._poll = poll
        self._seen = poll.shown

    def __aiter__(self) -> Subscription[_Seen]:
        return self

    async def __anext__(self) -> _Seen | Failure:
        self._seen = await self._poll.after(self._seen)
        return self._seen


_polls: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, Poll[Any]]]
_polls = WeakKeyDictionary()


@contextmanager
def subscribed(
    key: Hashable, source: Callable[[], Source[_Seen]], interval: float
) -> Iterator[Subscription[_Seen]]:
    """Subscribe to the loop of that key, started if there is none."""
    polls = _polls.setdefault(asyncio.get_running_loop(), {})
    poll: Poll[_Seen] | None = polls.get(key)
    if poll is None:
        poll = polls[key] = Poll(key, source(), max(interval, SHORTEST_INTERVAL))
    poll.members += 1
    try:
        yield Subscription(poll)
    finally:
        poll.members -= 1
        if not poll.members:
            poll.stop()
            if polls.get(key) is poll:
                del polls[key]


def pause(interval: float, failures: int) -> float:
    """How long to wait: the interval, or with failures more, and never the same for all."""
    if not failures:
        return interval
    longest = min(interval * 2 ** min(failures, _MOST_DOUBLINGS), max(interval, LONGEST_PAUSE))
    return random.uniform(max(interval, longest / 2), longest)
