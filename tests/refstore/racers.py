"""Processes that do one thing at the same moment, again and again."""

from __future__ import annotations

import multiprocessing
import queue
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from multiprocessing.synchronize import Barrier
from typing import Any

SECONDS = 300
Job = Callable[..., object]


class Racers(AbstractContextManager["Racers"]):
    """So many processes, started once; `run` lets each make its call when all are ready."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._barrier = context.Barrier(count)
        self._results: Any = context.Queue()
        self._inboxes = [context.Queue() for _ in range(count)]
        self._processes = [
            context.Process(
                target=_race, args=(number, inbox, self._results, self._barrier), daemon=True
            )
            for number, inbox in enumerate(self._inboxes)
        ]
        for process in self._processes:
            process.start()

    def __exit__(self, *exc: object) -> None:
        for inbox in self._inboxes:
            inbox.put(None)
        for process in self._processes:
            process.join(10)
            process.kill()

    def run(self, job: Job, arguments: Sequence[tuple[object, ...]]) -> list[object]:
        """Each racer's result, or the exception it ended in, by its number."""
        for inbox, one in zip(self._inboxes, arguments, strict=True):
            inbox.put((job, one))
        results: list[object] = [None] * len(arguments)
        for _ in arguments:
            number, result = self._results.get(timeout=SECONDS)
            results[number] = result
        return results


def _race(number: int, inbox: Any, results: Any, barrier: Barrier) -> None:
    while True:
        try:
            work = inbox.get(timeout=SECONDS)
        except queue.Empty:
            return
        if work is None:
            return
        job, arguments = work
        barrier.wait(SECONDS)
        try:
            results.put((number, job(*arguments)))
        except Exception as error:  # whatever it is, the test looks at it
            results.put((number, error))
