"""DAGs whose run has a Spark job write to a branch, which stays, so that a test can look at it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_provider_lancerefs.operators.branch import LanceCreateBranchOperator
from airflow_provider_lancerefs.operators.spark import LanceSparkSubmitOperator

SMALL = {
    "spark.cores.max": "2",
    "spark.driver.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
}
BY_SECRET = {  # as a cluster gives its jobs an identity
    f"spark.kubernetes.{role}.secretKeyRef.{name}": f"storage:{name}"
    for role in ("driver", "executor")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
}


class SubmitOperator(LanceSparkSubmitOperator):
    """One whose Spark connection the run's conf names: each test has a cluster of its own."""

    template_fields: Sequence[str] = (*LanceSparkSubmitOperator.template_fields, "_conn_id")


def of_conf(key: str) -> str:
    return f"{{{{ dag_run.conf['{key}'] }}}}"


def define(dag_id: str, **of_job: Any) -> None:
    with DAG(dag_id, schedule=None, max_active_runs=16, render_template_as_native_obj=True):
        create = LanceCreateBranchOperator(
            task_id="create_branch",
            dataset=of_conf("dataset"),
            lancerefs_conn_id=of_conf("conn_id"),
        )
        write = SubmitOperator(
            task_id="write",
            application=of_conf("application"),
            application_args=of_conf("arguments"),
            branch="{{ ti.xcom_pull(task_ids='create_branch')['branch'] }}",
            conn_id=of_conf("spark_conn_id"),
            retries=1,
            retry_delay=timedelta(seconds=1),
            **{"conf": SMALL, **of_job},
        )
        create >> write


define("spark")
define("spark_in_cluster", java_class="org.apache.spark.deploy.PythonRunner")
define("spark_in_yarn", yarn_track_via_rm_api=True)
define("spark_in_kubernetes", conf={**SMALL, **BY_SECRET})
define("spark_tracked", conf={**SMALL, **BY_SECRET}, track_driver_via_k8s_api=True)
