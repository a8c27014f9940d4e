"""A driver that is killed, wherever in a write that is, and then made to run again."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
import uuid
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_lancerefs.refstore import layout
from tests.services.proxy import Fault, Request, S3Proxy
from tests.services.seaweed import BUCKET, S3Server
from tests.spark.attempts import Attempt
from tests.tables import Place

REPOSITORY = Path(__file__).parents[2]
SECONDS = 120
MOST_POINTS = 50
PROBE = "_refs/lancerefs.probe"


@dataclass
class Killer:
    """Kills a process whose n-th write the server has done, and lets it do nothing more."""

    process: subprocess.Popen[bytes]
    number: int
    lose_reply: bool = False
    writes: int = 0

    def fault(self, request: Request) -> Fault | None:
        return "drop request" if self.writes >= self.number else None

    def passes(self, request: Request, status: int) -> bool:
        durable = request.method in ("PUT", "POST", "DELETE") and status < 300
        if durable and not request.path.endswith(PROBE):
            self.writes += 1
            if self.writes == self.number:
                self.process.kill()
        return self.writes < self.number


@pytest.mark.s3
@pytest.mark.parametrize("case", ["append", "overwrite", "create", "staged"])
def test_killed_at_any_write_it_lands_once_when_run_again(s3: S3Server, case: str) -> None:
    """Killed after each of the server's writes in turn: rows exactly once, and one sweep at most
    until no file is left that no version needs.
    """
    points = 0
    for number in range(1, MOST_POINTS):
        place = Place(f"s3://{BUCKET}/{uuid.uuid4().hex}", s3.storage_options())
        branch = "main" if case == "create" else "run"
        if case != "create":
            place.create().store().create_branch("run")
        how = {case: True} if case in ("overwrite", "staged") else {}
        attempt = Attempt.at(place, branch, "w", [10, 11], [12], **how)
        killed = kill(s3, attempt, number)
        attempt.make()
        attempt.make()

        old = [1, 2, 3] if case in ("append", "staged") else []
        reader = place if branch == "main" else place.branch(branch)
        assert [*old, 10, 11, 12] == reader.values(), number
        assert set() == orphans_after_a_sweep(place), number
        if not killed:
            break
        points += 1
    assert 4 <= points < MOST_POINTS - 1


@pytest.mark.s3
@pytest.mark.parametrize("nth", range(1, 7))
def test_a_lost_reply_is_no_second_write(s3: S3Server, s3_proxy: S3Proxy, nth: int) -> None:
    """The server did what it was asked, and the driver hears nothing of it."""
    place = Place(f"s3://{BUCKET}/{uuid.uuid4().hex}", s3.storage_options(s3_proxy.port))
    place.create().store().create_branch("run")
    attempt = Attempt.at(place, "run", "w", [10])
    write = attempt.prepare()
    messages = attempt.run_tasks(write)
    seen: list[Request] = []

    def lose(request: Request) -> Fault | None:
        if request.kind == "PUT" and not request.path.endswith(PROBE):
            seen.append(request)
            return "drop reply" if len(seen) == nth else None
        return None

    from airflow_provider_lancerefs.refstore import LanceRefsError
    from airflow_provider_lancerefs.spark.committing import abort, commit

    with s3_proxy.breaking(lose):
        try:
            commit(write, messages)
        except LanceRefsError:
            abort(write, may_have_landed=True)  # as Spark does
    attempt.make()

    assert [1, 2, 3, 10] == place.branch("run").values()
    assert set() == orphans_after_a_sweep(place)


def kill(server: S3Server, attempt: Attempt, number: int) -> bool:
    """Whether it died before its end."""
    with S3Proxy(server.port) as proxy:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.attempts"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        killer = Killer(process, number)
        proxy.fault, proxy.passes = killer.fault, killer.passes
        order = dataclasses.replace(attempt, options=server.storage_options(proxy.port))
        try:
            said = process.communicate(json.dumps(dataclasses.asdict(order)).encode(), SECONDS)[1]
        finally:
            process.kill()
        proxy.settle()
    if process.returncode not in (0, -signal.SIGKILL):
        raise RuntimeError(said.decode(errors="replace")[-4000:])
    return process.returncode != 0


def orphans_after_a_sweep(place: Place) -> set[str]:
    """What no version needs, after one sweep: as a check finds it, and what is left of stages."""
    store = place.store(grace=timedelta(0))
    store.check(repair=True, orphan_age=timedelta(0))
    found = store.check(orphan_age=timedelta(0)).findings
    staged = filter(layout.is_staged, (one.path for one in store._dataset.storage.list("data/")))
    return {f"{one.code} {one.subject}" for one in found} | {*staged}
