"""The process that is killed: run as a program, it does what its order says, as far as it lives.

The order comes by stdin, for it holds credentials.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_provider_lancerefs.refstore import LanceRefsError, PublishResult, committing
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.storage import open_storage
from tests.changes import before_each_change
from tests.refstore.crashing.calls import CALLS
from tests.refstore.crashing.orders import Ending, Moment, Order
from tests.refstore.faults import CrashingDataset, Fuse

_T = TypeVar("_T")


@dataclass
class _Death(Fuse):
    """Kills this process after a durable write, or stops it."""

    signal: int = signal.SIGKILL

    def write(self, path: str, act: Callable[[], _T]) -> _T:
        with self._lock:
            done = act()
            self.writes += 1
            if self.writes == self.crash_after:
                os.kill(os.getpid(), self.signal)
            return done

    def count_commits(self) -> None:
        """Pylance writes by itself, so its commits are counted where they are asked for."""
        for name in ("land", "optimize_indices"):
            commit = getattr(committing, name)
            setattr(committing, name, functools.partial(self._commit, commit))

    def _commit(self, commit: Callable[..., _T], *arguments: Any, **options: Any) -> _T:
        return self.write("a commit", lambda: commit(*arguments, **options))


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_before_change(folder: str, number: int) -> None:
    """Kill this process before the n-th change below a folder that Python makes."""
    left = itertools.count(number - 1, -1)

    def act() -> None:
        if next(left) == 0:
            _die()

    before_each_change(folder, act)


def main() -> None:
    """Do what stdin says, as far as one lives."""
    order = Order(**json.load(sys.stdin))
    dataset = Dataset(open_storage(order.uri, order.options), order.options)
    if order.moment == Moment.AFTER_WRITE:
        death = _Death(order.number, signal=signal.SIGSTOP if order.paused else signal.SIGKILL)
        death.count_commits()
        dataset = CrashingDataset.over(dataset, death)
    if order.moment == Moment.BEFORE_CHANGE:
        _die_before_change(os.path.dirname(order.uri), order.number)
    if order.paused:
        print(json.dumps(vars(_ending(order.call, dataset))), flush=True)
    else:
        CALLS[order.call](dataset)
    os._exit(0)  # at once: the threads of s3fs and pylance have nothing left to tidy up


def _ending(call: str, dataset: Dataset) -> Ending:
    try:
        result = CALLS[call](dataset)
    except LanceRefsError as error:
        return Ending(error=type(error).__name__)
    return Ending(version=result.version if isinstance(result, PublishResult) else None)


if __name__ == "__main__":
    main()
