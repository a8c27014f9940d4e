"""`make demo`: write, audit, publish, three times over; what readers see is shown after each.

Everything happens in a folder that is made anew, with Airflow's embedded defaults.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_lancerefs.refstore import RefStore

HERE = Path(__file__).resolve().parent
HOME = HERE.parent / "build" / "demo"
DAG_ID = "example_lance_write_audit_publish"


@dataclass(frozen=True)
class Run:
    """One run of the DAG: what is asked of it, and how it is expected to end."""

    title: str
    asked: Mapping[str, Any]
    ends_well: bool = True


RUNS = (
    Run("A good run: 100 orders of March 1st", {"day": "2026-03-01"}),
    Run(
        "A bad run: 7 of the orders of March 2nd have no amount that can be right",
        {"day": "2026-03-02", "wrong": 7},
        ends_well=False,
    ),
    Run(
        "A run that is retried: its first try dies after it has written March 3rd",
        {"day": "2026-03-03", "dies_at_first": True},
    ),
)


def main() -> int:
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    say("Airflow makes its database ...")
    airflow("migrate", "db", "migrate")
    surprises = 0
    for number, run in enumerate(RUNS, 1):
        print()
        say(f"{number}. {run.title} ...")
        began = time.monotonic()
        done = airflow(f"run-{number}", "dags", "test", DAG_ID, "--conf", json.dumps(run.asked))
        surprises += done != run.ends_well
        print(f"   the run {'succeeded' if done else 'failed'} in {time.monotonic() - began:.0f} s")
        show()
    print(f"\nThe table, the logs and Airflow's own files are in {HOME.relative_to(Path.cwd())}.")
    return surprises


def airflow(log: str, *words: str) -> bool:
    """Run Airflow's command, what it says going to a file; whether it ended well."""
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")},
        "AIRFLOW_HOME": str(HOME),
        "AIRFLOW__CORE__DAGS_FOLDER": str(HERE),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    command = [sys.executable, "-m", "airflow", *words]
    with (HOME / f"{log}.log").open("wb") as output:
        return not subprocess.run(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False
        ).returncode


def show() -> None:
    """What stands now: main, the branches and the tags."""
    store = RefStore.open(HOME / "lance" / "orders")
    newest = store.log()[0]
    print(f"   main      {newest.rows:>4} orders, version {newest.version.number}")
    print(f"   branches  {', '.join(store.branch_names()) or 'none'}")
    tags = [f"{tag.name} names {store.resolve(f'tag:{tag.name}')}" for tag in store.tags()]
    print(f"   tags      {f'{os.linesep}             '.join(tags) or 'none'}")


def say(what: str) -> None:
    print(what, flush=True)


if __name__ == "__main__":
    sys.exit(main())
