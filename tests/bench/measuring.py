"""Runs a call in a process of its own, behind a proxy that counts its requests and delays them."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from tests.services.proxy import S3Proxy

LATENCY = 0.020
KINDS = ("LIST", "GET", "HEAD", "PUT", "DELETE")


@dataclass(frozen=True)
class Sample:
    """What a call cost: its requests by kind, and the seconds of each run if it was timed."""

    requests: dict[str, int]
    seconds: tuple[float, ...]

    def __str__(self) -> str:
        took = "not timed" if self.median is None else f"{self.median * 1000:,.0f} ms"
        return f"{self.total:,} ({took})"

    @property
    def total(self) -> int:
        return sum(self.requests.values())

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None


@dataclass(frozen=True)
class Measurement:
    """One call among so many refs, measured on both sides; `bar` is the most ours may ask for."""

    call: str
    among: str
    refs: int
    ours: Sample
    pylance: Sample
    bar: int | None = None

    def __str__(self) -> str:
        return (
            f"{self.call} among {self.refs:,} {self.among}: "
            f"requests {self.ours} by ours, {self.pylance} by pylance"
        )

    @property
    def missed_bar(self) -> str | None:
        """What is wrong if ours asked for more than it may."""
        if self.bar is None or self.ours.total <= self.bar:
            return None
        return (
            f"{self.call} among {self.refs:,} {self.among} took {self.ours.total} requests, "
            f"at most {self.bar} are allowed"
        )


@dataclass(frozen=True)
class Run:
    """One run of a call: what it returned, what it asked the server for, and how long it took."""

    result: object
    requests: Counter[str]
    seconds: float


class Meter:
    """Measures calls in a worker process, so that the proxy's work is not in their time."""

    def __init__(self, proxy: S3Proxy) -> None:
        self._proxy = proxy
        self._worker = _new_worker()

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *exc: object) -> None:
        self._worker.shutdown()

    def run(
        self,
        work: Callable[..., object],
        *arguments: object,
        latency: float = LATENCY,
        new_process: bool = False,
    ) -> Run:
        """Run an importable function in the worker, or in a process that did nothing before."""
        if not new_process:
            return self._run(self._worker, work, arguments, latency)
        with _new_worker() as worker:
            return self._run(worker, work, arguments, latency)

    def _run(
        self,
        worker: ProcessPoolExecutor,
        work: Callable[..., object],
        arguments: tuple[object, ...],
        latency: float,
    ) -> Run:
        self._proxy.latency = latency
        try:
            with self._proxy.recording() as recording:
                result, seconds = worker.submit(_timed, work, arguments).result()
        finally:
            self._proxy.latency = 0.0
        return Run(result, recording.kinds, seconds)


def _new_worker() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def _timed(work: Callable[..., object], arguments: tuple[object, ...]) -> tuple[object, float]:
    began = time.perf_counter()
    result = work(*arguments)
    return result, time.perf_counter() - began
