"""Datasets, and processes that work on them and are killed at one of their durable writes.

On local disk the victim kills itself: after the n-th write that its storage did or the n-th commit
that pylance did for a publish, or, which is finer and shows half-written files too, before the n-th
change that Python makes to the file system. On S3 a proxy kills it: once the server has done the
n-th write, pylance's own included, and before the victim hears of it. Proofs of the server's
conditional writes (`_refs/lancerefs.probe`) are counted only where they share a request with other
objects, as a bulk delete may.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from s3fs import S3FileSystem

from airflow_provider_lancerefs.refstore import layout
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.storage import open_storage
from airflow_provider_lancerefs.refstore.storage.options import s3fs_arguments
from tests.refstore.crashing.orders import Ending, Moment, Order
from tests.refstore.publishing.calls import NO_TIME
from tests.services.proxy import Fault, Request, S3Proxy
from tests.services.seaweed import S3Server

REPOSITORY = Path(__file__).parents[3]
SECONDS = 120


class World(Protocol):
    """A dataset and its surroundings, which can be put back to what they were."""

    @property
    def dataset(self) -> Dataset:
        """As the survivors see it: no creator is alive, so nobody waits for one."""
        ...

    def save(self) -> Any: ...

    def restore(self, saved: Any) -> None: ...

    def kill(self, call: str, number: int) -> bool:
        """Run a call in a process of its own; whether it was killed, at that write."""
        ...

    def pausing(self, call: str, number: int) -> AbstractContextManager[Paused]:
        """Run a call in a process of its own, which stops at that write, or ends before."""
        ...


@dataclass
class Paused:
    """A process that was stopped in the middle of its call, unless that came to its end before."""

    process: subprocess.Popen[bytes]
    stopped: bool

    def go_on(self) -> Ending:
        """Let it run to its end; raises RuntimeError for one that is no result and typed error."""
        self.process.send_signal(signal.SIGCONT)
        said, wrong = self.process.communicate(timeout=SECONDS)
        if self.process.returncode != 0:
            raise RuntimeError(f"The victim failed:\n{wrong.decode(errors='replace')[-4000:]}")
        return Ending(**json.loads(said))


class LocalWorld:
    """A folder, and a victim that kills itself."""

    def __init__(self, folder: Path, moment: Moment) -> None:
        self._live = folder / "live"
        self._saved = folder / "saved"
        self._moment = moment
        self._live.mkdir()

    @property
    def dataset(self) -> Dataset:
        return _survivor(str(self._live / "table"), {})

    def save(self) -> Path:
        """Paths within a dataset are absolute, so it is the copy that is put aside."""
        return Path(shutil.copytree(self._live, self._saved))

    def restore(self, saved: Path) -> None:
        shutil.rmtree(self._live)
        shutil.copytree(saved, self._live)

    def kill(self, call: str, number: int) -> bool:
        order = Order(call, self.dataset.uri, moment=self._moment, number=number)
        return _was_killed(_start(), order)

    @contextlib.contextmanager
    def pausing(self, call: str, number: int) -> Iterator[Paused]:
        order = Order(call, self.dataset.uri, moment=self._moment, number=number, paused=True)
        with _running(_start(), order) as paused:
            yield paused


class S3World:
    """A prefix on an S3 server, and a proxy that kills whoever talks to it."""

    def __init__(self, server: S3Server, bucket: str) -> None:
        self._server = server
        self._folder = f"{bucket}/{uuid.uuid4().hex}"
        self._files = S3FileSystem(**s3fs_arguments(server.storage_options()))

    @property
    def dataset(self) -> Dataset:
        return _survivor(f"s3://{self._folder}/table", self._server.storage_options())

    def save(self) -> dict[str, bytes]:
        paths = self._files.find(self._folder)
        found: dict[str, bytes] = self._files.cat(paths) if paths else {}
        return found

    def restore(self, saved: dict[str, bytes]) -> None:
        there = self._files.find(self._folder)
        if there:
            self._files.rm(there)
        self._files.pipe(saved)

    def kill(self, call: str, number: int) -> bool:
        with S3Proxy(self._server.port) as proxy:
            process = _start()
            killer = _Killer(process, number)
            proxy.fault, proxy.passes = killer.fault, killer.passes
            options = self._server.storage_options(proxy.port)
            killed = _was_killed(process, Order(call, self.dataset.uri, options))
            proxy.settle()
        return killed

    @contextlib.contextmanager
    def pausing(self, call: str, number: int) -> Iterator[Paused]:
        with S3Proxy(self._server.port) as proxy:
            process = _start()
            proxy.passes = _Stopper(process, number).passes
            options = self._server.storage_options(proxy.port)
            with _running(process, Order(call, self.dataset.uri, options, paused=True)) as paused:
                yield paused


@dataclass
class _Watcher:
    """Counts the writes that the server has done for a process."""

    process: subprocess.Popen[bytes]
    number: int
    writes: int = 0

    def reached(self, request: Request, status: int) -> bool:
        """Whether this is the n-th."""
        durable = request.method in ("PUT", "POST", "DELETE") and status < 300
        counts = durable and not request.path.endswith(layout.PROBE)
        self.writes += counts
        return counts and self.writes == self.number


class _Killer(_Watcher):
    """Kills the process at its n-th write, and lets it do nothing more."""

    def fault(self, request: Request) -> Fault | None:
        return "drop request" if self.writes >= self.number else None

    def passes(self, request: Request, status: int) -> bool:
        if self.reached(request, status):
            self.process.kill()
        return self.writes < self.number


class _Stopper(_Watcher):
    """Stops the process at its n-th write, before the reply is on its way."""

    def passes(self, request: Request, status: int) -> bool:
        if self.reached(request, status):
            self.process.send_signal(signal.SIGSTOP)
        return True


def _survivor(uri: str, options: Mapping[str, str]) -> Dataset:
    return Dataset(open_storage(uri, options), options, creation_lease=NO_TIME)


def _start() -> subprocess.Popen[bytes]:
    """A victim that waits for its order."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.refstore.crashing.victim"],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@contextlib.contextmanager
def _running(process: subprocess.Popen[bytes], order: Order) -> Iterator[Paused]:
    """A victim that has stopped, or ended."""
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(vars(order)).encode())
        process.stdin.close()
        process.stdin = None
        seen = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        yield Paused(process, seen is not None and seen.si_code == os.CLD_STOPPED)
    finally:
        process.kill()
        process.communicate()


def _was_killed(process: subprocess.Popen[bytes], order: Order) -> bool:
    try:
        said = process.communicate(json.dumps(vars(order)).encode(), SECONDS)[1]
    finally:
        process.kill()
    if process.returncode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"{order} failed:\n{said.decode(errors='replace')[-4000:]}")
    return process.returncode != 0
