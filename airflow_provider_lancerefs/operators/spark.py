"""spark-submit for a job that works on a run's branch."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowNotFoundException

from airflow_provider_lancerefs import noting
from airflow_provider_lancerefs.failures import failing_for_good
from airflow_provider_lancerefs.hooks.job import Cluster, check_pyspark, job_side, properties_with
from airflow_provider_lancerefs.hooks.refs import DEFAULT_CONN_ID, LanceRefsHook
from airflow_provider_lancerefs.operators.base import is_true
from airflow_provider_lancerefs.refstore.errors import NotFoundError
from airflow_provider_lancerefs.spark.ordering import (
    OWN,
    RUN_CONF,
    BranchOf,
    Order,
    check_engine,
)

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.providers.common.compat.sdk import Context

__all__ = ["LanceSparkSubmitOperator"]

_DRIVER_POD = "spark.kubernetes.driver.pod.name"
_DEPLOY_MODE = "spark.submit.deployMode"
_HERE = "local[*]"


class LanceSparkSubmitOperator(SparkSubmitOperator):
    """
    Submit a Spark job that works on a branch; in it, ``LanceRun.current()`` knows where.

    The job is told its datasets, their branch, and what its writes are called, so that a retry
    repeats none; our own code goes with it in ``py_files``. A connection's keys go in a properties
    file that only the worker's user can read, never as an argument or in ``conf``. When the job has
    succeeded, the task is noted on the branch as a writer.

    :param branch: The branch, as its creating task said.
    :param dataset: The datasets: names below the connection's root, or full URIs. Without it, those
        of the task that created the branch, which is upstream, by that one's connection.
    :param lancerefs_conn_id: The connection that ``dataset`` is found by.
    :param engine: What ``LanceRun`` reads and writes with: ``lancerefs``, our data source, or
        ``connector``, the official JVM connector, of which ``packages`` or ``jars`` name the jar.
    :param ship_code: Whether our own code goes with the job; without, this package has to be
        installed, in the same version, where drivers and executors run.
    """

    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields,
        "branch",
        "dataset",
        "lancerefs_conn_id",
        "engine",
        "ship_code",
    )
    flags: ClassVar[Sequence[str]] = ("ship_code",)

    def __init__(
        self,
        *,
        branch: str,
        dataset: str | Sequence[str] | None = None,
        lancerefs_conn_id: str = DEFAULT_CONN_ID,
        engine: str = OWN,
        ship_code: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.branch = branch
        self.dataset = dataset
        self.lancerefs_conn_id = lancerefs_conn_id
        self.engine = engine
        self.ship_code = ship_code

    def execute(self, context: Context) -> None:
        with failing_for_good():
            check_pyspark()
            check_engine(self.engine)
            ships_code = is_true("ship_code", self.ship_code)
            conn_id, expected = self._expected(context)
            hook = LanceRefsHook(conn_id)
            lives = {
                dataset: self._standing(hook, dataset, expected[dataset]) for dataset in expected
            }
            options = self._storage_options(hook, lives)
        self._order(hook, lives, context)
        if ships_code:
            self.py_files = ",".join(filter(None, (self.py_files, str(job_side()))))
        self._submit(options, context)
        with failing_for_good():
            self._note(hook, lives, context)

    def _expected(self, context: Context) -> tuple[str, Mapping[str, str | None]]:
        """Where the datasets are found, and of each the life of the branch, where that is known."""
        if isinstance(self.dataset, str):
            return self.lancerefs_conn_id, {self.dataset: None}
        if self.dataset is not None:
            return self.lancerefs_conn_id, dict.fromkeys(self.dataset)
        made = noting.made_upstream(context, self.branch)
        if made is None:
            raise AirflowFailException(
                f"No task upstream of {self.task_id!r} created the branch {self.branch!r}: say "
                "which dataset it is of."
            )
        lives = {dataset: one["life"] for dataset, one in made["datasets"].items()}
        return made["lancerefs_conn_id"], lives

    def _standing(self, hook: LanceRefsHook, dataset: str, life: str | None) -> str:
        """The life of the branch, which must be the one that was made for this task."""
        try:
            branch = hook.get_store(dataset).branch(self.branch)
        except NotFoundError as error:
            raise self._gone(dataset) from error
        if branch.state.ending or life not in (None, branch.life):
            raise self._gone(dataset)
        return branch.life

    def _order(self, hook: LanceRefsHook, lives: Mapping[str, str], context: Context) -> None:
        instance: Any = context["ti"]
        index = noting.map_index_of(context)
        order = Order(
            {
                name: BranchOf(hook.dataset_uri(dataset), self.branch, lives[dataset])
                for name, dataset in _named(lives).items()
            },
            "/".join((instance.dag_id, instance.run_id, instance.task_id, str(index))),
            self.engine,
        )
        self.conf = {**(self.conf or {}), RUN_CONF: order.to_json()}
        incarnation = "-".join(sorted(lives.values()))
        self.external_id_key = f"spark_job_id@{incarnation}"
        self._K8S_DRIVER_STATUS_KEY = f"k8s_driver_status@{incarnation}"

    def _storage_options(self, hook: LanceRefsHook, datasets: Iterable[str]) -> dict[str, str]:
        """What reaches the datasets, keys included, where Spark can keep them to itself."""
        options: dict[str, str] = {}
        for dataset in datasets:
            options |= hook.storage_options(dataset)
        connection = self._get_hook()._connection
        cluster = Cluster.of(connection["master"])
        if cluster is None:
            return options
        if connection["deploy_mode"] == "cluster":
            cluster.check_driver(self._java_class, options)
        elif (self.conf or {}).get(_DEPLOY_MODE) == "cluster":
            raise AirflowFailException(
                f"Airflow would not learn how a driver ends of which {_DEPLOY_MODE} alone says "
                "that it is in the cluster: say so by deploy_mode='cluster', or in the Spark "
                "connection."
            )
        return options

    def _submit(self, secrets: Mapping[str, str], context: Context) -> None:
        """Submit and wait as the parent does; the file with the keys lives as long."""
        given = self.properties_file
        with properties_with(secrets, given) as file:
            self.properties_file = file
            try:
                super().execute(context)
            finally:
                self.properties_file = given
                self._close_pipe()

    def _close_pipe(self) -> None:
        """What the parent's hook reads of spark-submit, and leaves open when that has ended."""
        process = self._hook._submit_sp if self._hook else None
        if process is not None and process.poll() is not None and process.stdout is not None:
            process.stdout.close()

    def _get_hook(self) -> SparkSubmitHook:
        """The parent's; but where its connection is not defined Spark runs here, not on YARN.

        On some clusters the deploy mode is said, lest `spark-submit` reads it in a file: then
        nobody would have looked for keys, nor would the parent learn how the driver ends.
        """
        try:
            hook: SparkSubmitHook = super()._get_hook()
        except NameError as error:
            if error.name != "kube_client":
                raise
            raise AirflowFailException(
                "Airflow submits to Kubernetes only where apache-airflow-providers-cncf-kubernetes "
                "is installed."
            ) from error
        try:
            LanceRefsHook.get_connection(self._conn_id)
        except AirflowNotFoundException:
            hook._connection["master"] = _HERE
        if Cluster.of(hook._connection["master"]):
            hook._connection["deploy_mode"] = hook._connection["deploy_mode"] or "client"
        if hook._should_track_driver_via_k8s_api():
            _name_driver(hook)
        return hook

    def _note(self, hook: LanceRefsHook, lives: Mapping[str, str], context: Context) -> None:
        writer = noting.writer_name(self.task_id, noting.map_index_of(context))
        for dataset, life in lives.items():
            hook.get_store(dataset).record_writer(self.branch, writer, life)

    def _gone(self, dataset: str) -> AirflowFailException:
        return AirflowFailException(
            f"The branch {self.branch!r} of {dataset} is gone: clear the setup task that creates "
            "it, with what is downstream."
        )


def _name_driver(hook: SparkSubmitHook) -> None:
    """Its pod, which the parent finds in what Spark 4 says only if the namespace is "spark"."""
    hook._conf = {_DRIVER_POD: f"lancerefs-{uuid.uuid4().hex}-driver", **hook._conf}
    hook._kubernetes_driver_pod = hook._conf[_DRIVER_POD]


def _named(datasets: Iterable[str]) -> dict[str, str]:
    """What a job calls each dataset: the last part of its name, or all where that is of two."""
    short = {one: one.rstrip("/").rpartition("/")[2].removesuffix(".lance") for one in datasets}
    times = Counter(short.values())
    return {name if times[name] == 1 else one: one for one, name in short.items()}
