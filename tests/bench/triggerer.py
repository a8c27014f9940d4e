"""A triggerer that is told which triggers to run: `python -m tests.bench.triggerer`.

The process that runs the triggers is Airflow's own TriggerRunner, with all of its machinery, and
what watchers keep goes through Airflow's API into a database. Only the supervisor takes its
triggers from a line of JSON on stdin in place of the database, and writes what they say, and how
much memory the runner has, as lines of JSON on stdout. It ends when stdin is closed.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import psutil
from airflow.executors.workloads import RunTrigger
from airflow.jobs.triggerer_job_runner import TriggerRunnerSupervisor
from airflow.models.asset import AssetActive, AssetModel
from airflow.models.trigger import Trigger
from airflow.sdk.execution_time.comms import SetAssetStateStoreByName
from airflow.triggers.base import TriggerEvent
from airflow.utils.db import initdb
from airflow.utils.session import create_session

Asked = Mapping[str, Any]


class Supervisor(TriggerRunnerSupervisor):
    """Airflow's, without the tables of triggers and jobs."""

    said: TextIO
    kept: int = 0

    def load_triggers(self) -> None: ...

    def clean_unused(self) -> None: ...

    def heartbeat(self) -> None: ...

    def metric_tags(self) -> dict[str, str]:
        return {"hostname": "bench"}

    def on_trigger_event(self, trigger_id: int, event: TriggerEvent) -> None:
        self.say(trigger=trigger_id, payload=event.payload)

    def on_trigger_failure(self, trigger_id: int, exc: list[str] | None) -> None:
        self.say(failed=trigger_id, error="".join(exc or ()))

    def should_stop(self) -> bool:
        return bool(select.select([sys.stdin], [], [], 0)[0])

    def run_once(self) -> None:
        super().run_once()
        memory = psutil.Process(self.pid).memory_info().rss
        self.say(running=len(self.running_triggers), kept=self.kept, memory=memory)

    def _handle_request(self, msg: Any, log: Any, req_id: int) -> None:
        super()._handle_request(msg, log, req_id)
        self.kept += isinstance(msg, SetAssetStateStoreByName)

    def say(self, **message: object) -> None:
        print(json.dumps(message), file=self.said, flush=True)


def keep_assets(asked: Sequence[Asked]) -> None:
    """Make a database in which the watched assets are known, if there is none of before."""
    if Path(os.environ["AIRFLOW_HOME"], "airflow.db").exists():
        return
    initdb()
    with create_session() as session:
        for one in asked:
            if one["asset"]:
                asset = AssetModel(name=one["asset"], uri=uri_of(one["asset"]))
                session.add(asset)
                session.flush()
                session.add(AssetActive.for_asset(asset))


def uri_of(asset: str) -> str:
    return f"lancerefs://lancerefs_default/{asset}"


def workload(number: int, one: Asked) -> RunTrigger:
    asset = one["asset"]
    return RunTrigger(
        id=number,
        classpath=one["path"],
        encrypted_kwargs=Trigger.encrypt_kwargs(one["kwargs"]),
        watched_assets={asset: uri_of(asset)} if asset else None,
    )


def main() -> None:
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Airflow logs to stdout
    asked: Sequence[Asked] = json.loads(sys.stdin.readline())
    keep_assets(asked)
    Supervisor.said = said
    supervisor = Supervisor.start(job=None, capacity=len(asked))
    supervisor.creating_triggers.extend(workload(*one) for one in enumerate(asked))
    try:
        supervisor.run()
    finally:
        supervisor.kill(force=True)


if __name__ == "__main__":
    main()
