"""Run as a program: every example DAG once with `dag.test()`; prints how each ended, as JSON."""

from __future__ import annotations

import json
import sys

from tests.airflow.releases import DagBag

FIRST = (
    "example_lance_run_branch",
    "example_lance_write_audit_publish",
    "example_lance_release_tag",
)


def main(folder: str) -> None:
    sys.path.insert(0, folder)  # as Airflow does with its DAGs folder
    bag = DagBag(folder)
    assert not bag.import_errors, bag.import_errors
    later = sorted({*bag.dag_ids} - {*FIRST})
    ended = {dag_id: str(bag.dags[dag_id].test().state) for dag_id in (*FIRST, *later)}
    print(json.dumps(ended))


if __name__ == "__main__":
    main(sys.argv[1])
