"""Run as a program: one DAG of a folder once with `dag.test()`; prints how it ended, as JSON."""

from __future__ import annotations

import json
import sys

from airflow.dag_processing.dagbag import DagBag


def main(folder: str, dag_id: str, conf: str) -> None:
    bag = DagBag(folder)
    assert not bag.import_errors, bag.import_errors
    run = bag.dags[dag_id].test(run_conf=json.loads(conf))
    tries = {one.task_id: [one.state, one.try_number] for one in run.get_task_instances()}
    print(json.dumps({"state": run.state, "tries": tries}))


if __name__ == "__main__":
    main(*sys.argv[1:])
