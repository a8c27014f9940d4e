"""Ten datasets, and a triggerer in a process of its own that waits for their tags."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from airflow_provider_lancerefs.refstore import RefStore
from tests.airflow.connections import connection, variable
from tests.services.seaweed import BUCKET, S3Server
from tests.tables import Place

DATASETS = 10
OLD_TAGS = 20
CONN_ID = "lancerefs_bench"
REPOSITORY = Path(__file__).parents[2]
_TRIGGERS = "airflow_provider_lancerefs.triggers.refs"
_SECONDS = 900

Asked = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """How many triggers there are of each kind, over all datasets."""

    sensors: int
    watchers: int

    def __str__(self) -> str:
        return f"{self.sensors:,} sensors, {self.watchers:,} watchers"

    @property
    def triggers(self) -> int:
        return self.sensors + self.watchers


@dataclass(frozen=True)
class Lateness:
    """By how many seconds the event loop was late."""

    median: float
    p99: float
    worst: float

    @classmethod
    def of(cls, late: Sequence[float]) -> Lateness:
        cuts = statistics.quantiles(late, n=100)
        return cls(statistics.median(late), cuts[98], max(late))


@dataclass
class Tables:
    """The datasets, reached directly by whoever changes them."""

    server: S3Server
    name: str
    stores: list[RefStore] = field(default_factory=list)

    def create(self) -> Tables:
        for number in range(DATASETS):
            store = Place(self.uri(number), self.server.storage_options()).create().store()
            for tag in range(OLD_TAGS):
                store.create_tag(f"old-{tag}", "main@1")
            self.stores.append(store)
        return self

    def uri(self, number: int) -> str:
        return f"s3://{BUCKET}/{self.name}/{number}.lance"

    def tag(self, tag: str) -> None:
        """Make a tag in each dataset."""
        for store in self.stores:
            store.create_tag(tag, "main@1")


def asked(tables: Tables, case: Case, interval: float) -> list[Asked]:
    """The triggers of a case, evenly over the datasets; no two are the same."""
    probe = {"path": "tests.bench.loop_probe.LoopProbe", "kwargs": {}, "asset": None}
    sensors = (_asked(tables, n, interval, "LanceTagTrigger", None) for n in range(case.sensors))
    watchers = (
        _asked(tables, n, interval, "LanceTagWatchTrigger", f"asset-{n}")
        for n in range(case.watchers)
    )
    return [probe, *sensors, *watchers]


def _asked(tables: Tables, number: int, interval: float, name: str, asset: str | None) -> Asked:
    """The first in each dataset waits for release-0-*, the next for release-1-*, and so on."""
    kwargs = {
        "dataset": tables.uri(number % DATASETS),
        "pattern": f"release-{number // DATASETS}-*",
        "lancerefs_conn_id": CONN_ID,
        "poke_interval": interval,
    }
    return {"path": f"{_TRIGGERS}.{name}", "kwargs": kwargs, "asset": asset}


class Triggerer:
    """Runs triggers in Airflow's own process for them, and notes what that says."""

    def __init__(self, home: Path, options: Mapping[str, str], triggers: Sequence[Asked]) -> None:
        self._triggers = triggers
        self._log = home / "log"
        self._home, self._options = home, options
        self._messages: list[dict[str, Any]] = []

    def __enter__(self) -> Triggerer:
        self._home.mkdir(exist_ok=True)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.bench.triggerer"],
                cwd=REPOSITORY,
                env=self._environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(self._triggers) + "\n")
        self._process.stdin.flush()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait(20)
            self._reader.join(20)
            self._process.stdout.close()

    def _environment(self) -> dict[str, str]:
        others = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("AIRFLOW", "AWS"))
        }
        return {
            **others,
            "AIRFLOW_HOME": str(self._home),
            "AIRFLOW__CORE__FERNET_KEY": "",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            variable(CONN_ID): connection(self._options),
        }

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._messages.append(json.loads(line))

    def wait(self, holds: Callable[[], bool]) -> None:
        """Until something holds; raises when the triggerer ends, or takes minutes."""
        deadline = time.monotonic() + _SECONDS
        while not holds():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"The triggerer did not get there:\n{self._log.read_text()[-4000:]}"
                )
            time.sleep(0.05)

    def is_ready(self, case: Case) -> bool:
        """Whether all run, and each watcher has kept where it starts."""
        running = self._last("running").get("running")
        return running == case.triggers + 1 and self.kept >= case.watchers

    @property
    def kept(self) -> int:
        """How often a watcher has kept where it is."""
        return int(self._last("kept").get("kept", 0))

    @property
    def memory(self) -> int:
        return int(self._last("memory")["memory"])

    @property
    def mark(self) -> int:
        """A point in time, to ask from."""
        return len(self._messages)

    @property
    def has_probed(self) -> bool:
        return any("late" in payload for payload in self._payloads(0))

    def late(self, since: int) -> Lateness:
        """How late the loop was since then."""
        return Lateness.of(
            [one for payload in self._payloads(since) for one in payload.get("late", ())]
        )

    def tags(self, since: int) -> list[str]:
        """The tags of the events since then."""
        return [payload["tag"] for payload in self._payloads(since) if "tag" in payload]

    def failures(self) -> list[dict[str, Any]]:
        return [message for message in self._messages if "failed" in message]

    def _payloads(self, since: int) -> list[dict[str, Any]]:
        return [one["payload"] for one in self._messages[since:] if "payload" in one]

    def _last(self, key: str) -> dict[str, Any]:
        return next((one for one in reversed(self._messages) if key in one), {})
