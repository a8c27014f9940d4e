"""`make demo`: write, audit, publish, three times over; what readers see is shown after each.

Spark does the writing, on this machine. Everything happens in a folder that is made anew, with
Airflow's embedded defaults.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_lancerefs.refstore import RefStore

HERE = Path(__file__).resolve().parent
HOME = HERE.parent / "build" / "demo"
DAG_ID = "example_lance_write_audit_publish"
TASK_STARTS = re.compile(r"\[DAG TEST\] starting task_id=(\S+)")
REASON = re.compile(r"ValueError: (.+)")
WIDTH = 80
INDENT = 13
BELOW = "\n" + " " * INDENT


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


def main() -> None:
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        sys.exit("Spark needs Java 17 or newer: put java on the PATH, or set JAVA_HOME.")
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    say("Airflow makes its database ...")
    log = HOME / "migrate.log"
    if not airflow(log, "db", "migrate"):
        sys.exit(f"It did not get there: see {shown(log)}.")
    for number, run in enumerate(RUNS, 1):
        attempt(number, run)
    print(f"\nThe table, the logs and Airflow's own files are in {shown(HOME)}.")


def attempt(number: int, run: Run) -> None:
    """Let the DAG run once, and show what came of it."""
    say(f"\n{number}. {run.title}\n   tasks     ", end="")
    log, progress, began = HOME / f"run-{number}.log", Progress(), time.monotonic()
    asked = json.dumps(run.asked)
    done = airflow(log, "dags", "test", DAG_ID, "--conf", asked, hear=progress.hear)
    print(f"\n   run       {'succeeded' if done else 'failed'} in {time.monotonic() - began:.0f} s")
    if done != run.ends_well:
        sys.exit(f"   which is not how it was to end: see {shown(log)}")
    if not done and progress.reason:
        print(f"   because   {progress.reason}")
    show()
    print(f"   log       {shown(log)}, with all that Spark said")


def airflow(log: Path, *words: str, hear: Callable[[str], None] | None = None) -> bool:
    """Run Airflow's command, what it says going to a file; whether it ended well."""
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")},
        "AIRFLOW_HOME": str(HOME),
        "AIRFLOW__CORE__DAGS_FOLDER": str(HERE),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",  # spark-submit
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with (
        log.open("w") as file,
        subprocess.Popen(
            [sys.executable, "-m", "airflow", *words],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        for line in process.stdout or ():
            file.write(line)
            if hear is not None:
                hear(line)
    return process.returncode == 0


class Progress:
    """Says which task runs, as Airflow's log has it, and keeps the first reason for a failure."""

    def __init__(self) -> None:
        self.reason = ""
        self._column = INDENT

    def hear(self, line: str) -> None:
        if starts := TASK_STARTS.search(line):
            self._say(f"{starts[1]} ")
        elif reason := REASON.match(line):
            self.reason = self.reason or reason[1]

    def _say(self, word: str) -> None:
        if self._column + len(word) > WIDTH:
            say(BELOW, end="")
            self._column = INDENT
        say(word, end="")
        self._column += len(word)


def show() -> None:
    """What stands now: main, the branches and the tags."""
    store = RefStore.open(HOME / "lance" / "orders")
    newest = store.log()[0]
    tags = [f"{tag.name} names {store.resolve(f'tag:{tag.name}')}" for tag in store.tags()]
    print(f"   main      {newest.rows} orders, version {newest.version.number}")
    print(f"   branches  {', '.join(store.branch_names()) or 'none'}")
    print(f"   tags      {BELOW.join(tags) or 'none'}")


def shown(path: Path) -> Path:
    return path.relative_to(HERE.parent)


def say(what: str, end: str = "\n") -> None:
    print(what, end=end, flush=True)


if __name__ == "__main__":
    main()
