"""Calls made by a process that is killed at each of its durable writes in turn.

On local disk the victim kills itself: after the n-th write that its storage did or the n-th commit
that pylance did for a publish, or, which is finer
and shows half-written files too, before the n-th change that Python makes to the file system. On S3
a proxy kills it: once the server has done the n-th write, pylance's own included, and before the
victim hears of it. Proofs of the server's conditional writes (`_refs/lancerefs.probe`) are counted
only where they share a request with other objects, as a bulk delete may.

Run as a program, this is the victim. Its order comes by stdin, for it holds credentials.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from airflow_provider_lancerefs.refstore import (
    Branch,
    BranchState,
    LanceRefsError,
    PublishResult,
    RefStore,
    RefusedError,
    branching,
    committing,
    deleting,
    layout,
    refs,
    versions,
)
from airflow_provider_lancerefs.refstore.committing import clone
from airflow_provider_lancerefs.refstore.dataset import Dataset, now
from airflow_provider_lancerefs.refstore.models import STATE_KEY
from airflow_provider_lancerefs.refstore.storage import open_storage
from tests.changes import before_each_change
from tests.refstore.faults import CrashingDataset, Fuse
from tests.refstore.publishing.calls import PUBLISH_CALLS

if TYPE_CHECKING:
    from tests.services.proxy import Fault, Request
    from tests.services.seaweed import S3Server

_T = TypeVar("_T")
Check = Callable[[Dataset], None]

REPOSITORY = Path(__file__).parents[2]
NO_TIME = timedelta(0)
SECONDS = 120
MOST_POINTS = 1000
_LONGEST = 600


def elsewhere(dataset: Dataset) -> str:
    """Where the calls that make another dataset put it."""
    return f"{dataset.uri}-elsewhere"


def _refused_delete(dataset: Dataset) -> None:
    with contextlib.suppress(RefusedError):
        RefStore(dataset).delete_branch("old")
        raise AssertionError("a branch that is needed was deleted")


def _move_tag(dataset: Dataset) -> None:
    store = RefStore(dataset)
    store.move_tag(store.tag("moving"), "branch:kept")


def _set_metadata(dataset: Dataset) -> None:
    store = RefStore(dataset)
    store.set_metadata(store.branch("kept"), {"colour": "red"})
    store.set_metadata(store.tag("kept-main"), {"colour": "red"})


def _clone_then_ref(dataset: Dataset) -> None:
    """Planted: the halves of a create in pylance's order, so a crash leaves a head of nobody's."""
    if refs.find_branch(dataset.storage, "new") is not None:
        return
    source = versions.resolve(dataset.storage, "main")
    branch = Branch(
        name="new",
        parent=source.branch,
        parent_version=source.number,
        created_at=now().replace(microsecond=0),
        manifest_size=source.manifest_size,
        identifier=((source.number, uuid.uuid4().hex),),
        metadata={STATE_KEY: BranchState.OPEN.value},
    )
    clone(dataset, source, dataset, "new", branching.identity(branch))
    refs.create(dataset.storage, branch)


def _ref_then_files(dataset: Dataset) -> None:
    """Planted: a delete without states, whose crash leaves files that no ref speaks of."""
    branch = refs.find_branch(dataset.storage, "old")
    if branch is None:
        return
    entries = deleting.files_below(dataset, "old")
    refs.remove(dataset.storage, branch)
    dataset.storage.delete_many(entries)


CALLS: Mapping[str, Callable[[Dataset], object]] = {
    "create from main": lambda dataset: RefStore(dataset).create_branch(
        "new", metadata={"owner": "ann"}
    ),
    "create from branch": lambda dataset: RefStore(dataset).create_branch("new", "branch:kept"),
    "create from tag": lambda dataset: RefStore(dataset).create_branch("new", "tag:kept-branch"),
    "create over residue": lambda dataset: RefStore(replace(dataset, grace=NO_TIME)).create_branch(
        "new", "main@2"
    ),
    "delete": lambda dataset: RefStore(dataset).delete_branch("old", missing_ok=True),
    "delete refused": _refused_delete,
    "tag main": lambda dataset: RefStore(dataset).create_tag("new", "main@2", {"owner": "ann"}),
    "tag branch": lambda dataset: RefStore(dataset).create_tag("new", "branch:kept"),
    "move tag": _move_tag,
    "delete tag": lambda dataset: RefStore(dataset).delete_tag("old", missing_ok=True),
    "set metadata": _set_metadata,
    "clone": lambda dataset: RefStore(dataset).shallow_clone(elsewhere(dataset), "branch:kept"),
    "relocate": lambda dataset: RefStore(dataset).relocate(elsewhere(dataset), "branch:kept"),
    "expire": lambda dataset: RefStore(dataset).expire_branches("run/*", NO_TIME),
    "repair": lambda dataset: RefStore(replace(dataset, grace=NO_TIME)).check(
        repair=True, orphan_age=NO_TIME
    ),
    "planted create": _clone_then_ref,
    "planted delete": _ref_then_files,
    **PUBLISH_CALLS,
}


class Moment(StrEnum):
    """When a victim on local disk dies."""

    AFTER_WRITE = "after write"
    BEFORE_CHANGE = "before change"


@dataclass(frozen=True)
class Order:
    """What a victim has to do; without a moment it is killed, or stopped, by somebody else.

    One that is `paused` stops where others die, and says what it came to once it goes on.
    """

    call: str
    uri: str
    options: dict[str, str] = field(default_factory=dict, repr=False)
    moment: Moment | None = None
    number: int = 0
    paused: bool = False


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


@dataclass(frozen=True)
class Ending:
    """What a call came to: the version of a publish, or the name of a typed error."""

    version: int | None = None
    error: str | None = None


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
        from s3fs import S3FileSystem

        from airflow_provider_lancerefs.refstore.storage.options import s3fs_arguments

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
        from tests.services.proxy import S3Proxy

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
        from tests.services.proxy import S3Proxy

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


def in_short(error: Exception) -> str:
    """An error in one line, of a long one its two ends."""
    said = " ".join(f"{type(error).__name__}: {error}".split())
    if len(said) <= _LONGEST:
        return said
    return f"{said[: _LONGEST // 2]} ... {said[-_LONGEST // 2 :]}"


def _start() -> subprocess.Popen[bytes]:
    """A victim that waits for its order."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.refstore.crashing"],
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
