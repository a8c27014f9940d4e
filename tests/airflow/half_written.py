"""A DAG's job on a cluster, held where it has written by half, so that something can be killed."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.airflow.run_dag import running
from tests.airflow.secrecy import onlooker
from tests.services.seaweed import S3Server
from tests.spark.submitting import JOB, Driver, Points, check_written_once
from tests.spark.test_committing import data_files
from tests.tables import Place

DAGS = Path(__file__).parent / "dags"
ROWS = 3_000_000  # in two parts, each of more than one file
READ = f"read {ROWS + 3}"  # as the job says of its branch


@dataclass(frozen=True)
class HalfWritten:
    """Such jobs for one table, submitted by the programs of an environment without this package."""

    orders: Place
    server: S3Server
    points: Points
    home: Path
    bare: Path

    @contextlib.contextmanager
    def running(
        self,
        dag_id: str,
        spark: Mapping[str, Any],
        storage: Mapping[str, Any],
        environ: Mapping[str, str],
        tries: int = 1,
    ) -> Iterator[Driver]:
        """Let it go on after it has been dealt with; it ends well, and has written once.

        Meanwhile no command line shows the keys.
        """
        before = data_files(self.orders)
        self.points.hold("0-0")
        self.points.hold("1-0")
        known = {**self._connections(spark, storage), **environ}
        with (
            onlooker(self.server.secret_key) as seen,
            running(DAGS, dag_id, self._conf(), self.home, known) as run,
        ):
            run.reaches(lambda: len(data_files(self.orders) - before) == 2, "a file of each task")
            yield run
            self.points.release("0-0")
            self.points.release("1-0")
            ended = json.loads(run.ends().splitlines()[-1])
        assert (ended["state"], ended["tries"]["write"]) == ("success", ["success", tries])
        assert seen.looks
        assert seen.found == set()
        (branch,) = self.orders.store().branch_names()
        check_written_once(self.orders, branch, ROWS)

    def _connections(self, spark: Mapping[str, Any], storage: Mapping[str, Any]) -> dict[str, str]:
        return {
            "AIRFLOW_CONN_LANCEREFS_LAKE": json.dumps({"conn_type": "lancerefs", **storage}),
            "AIRFLOW_CONN_SPARK_CLUSTER": json.dumps({"conn_type": "spark", **spark}),
            "PATH": os.pathsep.join([str(self.bare), os.environ["PATH"]]),
            "PYSPARK_PYTHON": str(self.bare / "python"),
        }

    def _conf(self) -> dict[str, object]:
        return {
            "application": str(JOB),
            "arguments": [*self.points.arguments(ROWS, 2), "reads"],
            "conn_id": "lancerefs_lake",
            "dataset": self.orders.uri,
            "spark_conn_id": "spark_cluster",
        }
