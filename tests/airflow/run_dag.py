"""One DAG of a folder, run once with `dag.test()` in an Airflow of its own.

Run as a program, this module is that Airflow; it prints how the run ended, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.airflow.configuration import REPOSITORY
from tests.spark.submitting import Driver

SECONDS = 600


@contextlib.contextmanager
def running(
    folder: Path,
    dag_id: str,
    conf: Mapping[str, object],
    home: Path,
    environment: Mapping[str, str],
) -> Iterator[Driver]:
    """Run a DAG as somebody does whose environment that is; what it says goes to a file."""
    foreign = ("AIRFLOW", "AWS")
    inherited = {key: os.environ[key] for key in os.environ if not key.startswith(foreign)}
    settings = {
        **inherited,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(REPOSITORY),
        "SPARK_LOCAL_IP": "127.0.0.1",
        **environment,
    }
    log = home / "run.log"
    with log.open("wb") as said:
        migrated = subprocess.run(
            [sys.executable, "-m", "airflow", "db", "migrate"],
            cwd=home,
            env=settings,
            stdout=said,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
        assert migrated.returncode == 0, log.read_text(errors="replace")[-4000:]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.airflow.run_dag", str(folder), dag_id, json.dumps(conf)],
            cwd=home,
            env=settings,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        run = Driver(process, log)
        try:
            yield run
        finally:
            run.kill()


def main(folder: str, dag_id: str, conf: str) -> None:
    from airflow.dag_processing.dagbag import DagBag  # not for whoever only starts this

    bag = DagBag(folder)
    assert not bag.import_errors, bag.import_errors
    run = bag.dags[dag_id].test(run_conf=json.loads(conf))
    tries = {one.task_id: [one.state, one.try_number] for one in run.get_task_instances()}
    print(json.dumps({"state": run.state, "tries": tries}))


if __name__ == "__main__":
    main(*sys.argv[1:])
