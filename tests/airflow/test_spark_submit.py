"""A job that is submitted for a branch writes there, once, and nobody sees the keys it is given."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_lancerefs.hooks import job
from airflow_provider_lancerefs.operators.branch import LanceCreateBranchOperator
from airflow_provider_lancerefs.operators.spark import LanceSparkSubmitOperator
from airflow_provider_lancerefs.refstore.errors import InvalidInputError
from airflow_provider_lancerefs.spark.ordering import RUN_CONF, Order
from tests.airflow.configuration import REPOSITORY
from tests.airflow.connecting import Connect, s3_connection
from tests.airflow.contexts import Run
from tests.airflow.releases import since
from tests.airflow.secrecy import Marks, onlooker
from tests.services.pods import Pods, pods_of_kubernetes
from tests.services.seaweed import BUCKET, S3Server
from tests.tables import Place

pytestmark = pytest.mark.airflow

JOB = REPOSITORY / "example_dags" / "jobs" / "write_orders.py"
ARGUMENTS = ["2026-03-01", "50"]
STANDALONE = "spark://127.0.0.1:1"
KUBERNETES = "k8s://http://127.0.0.1:1"


@pytest.fixture
def spark_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """spark-submit and its Python are those of this environment."""
    folder = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")


def orders(place: Place) -> Place:
    """A table of orders with none in it."""
    import lance
    import pyarrow as pa

    schema = pa.schema([("order", pa.string()), ("day", pa.string()), ("amount", pa.float64())])
    lance.write_dataset(schema.empty_table(), place.uri, storage_options=place.options)
    return place


def submit(run: Run, branch: str, task_id: str = "write", **more: Any) -> LanceSparkSubmitOperator:
    return LanceSparkSubmitOperator(
        task_id=task_id,
        application=str(JOB),
        application_args=ARGUMENTS,
        branch=branch,
        dag=run.dag,
        **more,
    )


@pytest.mark.s3
@pytest.mark.slow
@pytest.mark.spark
def test_a_job_writes_to_its_branch_once(
    spark_here: None,
    connect: Connect,
    s3: S3Server,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By the connection that the branch was made with; its keys are in no argument and no conf."""
    caplog.set_level(logging.INFO)
    root = f"s3://{BUCKET}/{tmp_path.name}"
    place = orders(Place(f"{root}/orders", s3.storage_options()))
    run = Run()
    setup = LanceCreateBranchOperator(
        task_id="create",
        dataset="orders",
        lancerefs_conn_id=s3_connection(connect, s3, root),
        dag=run.dag,
    )
    branch = run.execute(setup)["branch"]
    tasks = [submit(run, branch), submit(run, branch, "write_again")]
    tasks[1].task_id = "write"  # its retry, in a process of its own
    with onlooker(s3.secret_key) as seen:
        for task in tasks:
            task.set_upstream(setup)
            run.execute(task)
    assert seen.looks
    assert seen.found == set()
    assert not Marks(s3.secret_key, s3.access_key).within(f"{tasks[0].conf}{caplog.text}".encode())
    assert tasks[0].properties_file is None
    assert place.branch(branch).open().count_rows() == 50
    assert place.open().count_rows() == 0
    store = place.store()
    assert store.writers(branch) == {"write"}
    assert store.plan_publish(branch).bytes_to_copy == 0


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spark-submit that writes down its arguments, for what needs no job to be run."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "spark-submit"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {folder / "said"}\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder / "said"


def test_a_job_is_resumed_by_a_retry_and_submitted_anew_for_another_life(
    local_place: Place, connect: Connect, recorder: Path
) -> None:
    """What a durable task looks for its job under follows the branch that the job writes to."""
    orders(local_place)
    folder, _, name = local_place.uri.rpartition("/")
    run = Run()
    setup = LanceCreateBranchOperator(
        task_id="create", dataset=name, lancerefs_conn_id=connect(host=folder), dag=run.dag
    )

    def key_of_job(task_id: str) -> str:
        task = submit(run, branch, task_id)
        task.set_upstream(setup)
        run.execute(task)
        return task.external_id_key

    branch = run.execute(setup)["branch"]
    first, second = key_of_job("write"), key_of_job("write_again")
    branch = run.execute(setup)["branch"]  # as after a clear
    assert first == second != key_of_job("write_anew")


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Pods]:
    """Of a Kubernetes that Airflow's worker knows."""
    with pods_of_kubernetes(tmp_path / "kubeconfig") as server:
        monkeypatch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__IN_CLUSTER", "False")
        monkeypatch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE", str(server.kubeconfig))
        yield server


@since(3, 3, what="store for what a task is to find again")
def test_a_driver_pod_is_found_by_a_retry_and_not_by_another_life(
    local_place: Place, connect: Connect, recorder: Path, pods: Pods
) -> None:
    """Its worker died, or was cleared: the pod is asked for by the name that it was given."""
    orders(local_place)
    folder, _, name = local_place.uri.rpartition("/")
    run, store = Run(), State()
    setup = LanceCreateBranchOperator(
        task_id="create", dataset=name, lancerefs_conn_id=connect(host=folder), dag=run.dag
    )
    spark = {"host": KUBERNETES, "extra": {"deploy-mode": "cluster", "namespace": "lake"}}
    conn_id = connect(conn_type="spark", **spark)

    def write(task_id: str, *phases: str) -> bool:
        """Whether something was submitted, with the phases that its pod is then in."""
        recorder.unlink(missing_ok=True)
        pods.phases[:] = phases
        task = submit(run, branch, task_id, conn_id=conn_id, track_driver_via_k8s_api=True)
        task.set_upstream(setup)
        run.execute(task, task_state_store=store)
        assert not pods.phases
        return recorder.exists()

    branch = run.execute(setup)["branch"]
    assert write("write", "Succeeded")
    (named,) = (one for one in recorder.read_text().splitlines() if "driver.pod.name" in one)
    pod = f"/api/v1/namespaces/lake/pods/{named.partition('=')[2]}"
    assert not write("done")
    for key in [one for one in store if "status" in one]:
        del store[key]
    assert not write("running", "Running", "Succeeded")
    assert {*pods.asked} == {pod}
    branch = run.execute(setup)["branch"]  # as after a clear
    assert write("anew", "Succeeded")
    assert {*pods.asked} > {pod}


class State(dict[str, str]):
    """What Airflow keeps of a task for its next try."""

    set = dict.__setitem__


def test_datasets_of_one_name_are_told_apart(
    local_place: Place, connect: Connect, recorder: Path
) -> None:
    """Where the last part would name two, the job calls them as the DAG does."""
    names = ["a/orders", "b/orders", "items"]
    for name in names:
        orders(Place(f"{local_place.uri}/{name}"))
    run, conn_id = Run(), connect(host=local_place.uri)
    setup = LanceCreateBranchOperator(
        task_id="create", dataset=names, lancerefs_conn_id=conn_id, dag=run.dag
    )
    branch = run.execute(setup)["branch"]
    task = submit(run, branch)
    task.set_upstream(setup)
    run.execute(task)
    said = recorder.read_text().splitlines()
    (order,) = (one for one in said if one.startswith(f"{RUN_CONF}="))
    assert {*Order.from_json(order.partition("=")[2]).datasets} == {*names}


def test_the_engine_goes_with_the_order(
    local_place: Place, connect: Connect, recorder: Path
) -> None:
    """And the package that holds it, as Spark's own submitter passes it on."""
    orders(local_place)
    local_place.store().create_branch("run/x")
    folder, _, name = local_place.uri.rpartition("/")
    run, package = Run(), "org.lance:lance-spark-3.5_2.12:0.4.0"
    task = LanceSparkSubmitOperator(
        task_id="write",
        application=str(JOB),
        branch="run/x",
        dataset=name,
        lancerefs_conn_id=connect(host=folder),
        engine="connector",
        packages=package,
        dag=run.dag,
    )
    run.execute(task)
    said = recorder.read_text().splitlines()
    (order,) = (one for one in said if one.startswith(f"{RUN_CONF}="))
    assert Order.from_json(order.partition("=")[2]).engine == "connector"
    assert said[said.index("--packages") + 1] == package


@pytest.mark.parametrize(
    ("ship_code", "goes"), [(True, True), (False, False), ("true", True), ("false", False)]
)
def test_our_code_goes_with_a_job_unless_told(
    local_place: Place, connect: Connect, recorder: Path, ship_code: bool | str, goes: bool
) -> None:
    """An image may have it, and then Kubernetes need not have a place to upload it to."""
    orders(local_place)
    local_place.store().create_branch("run/x")
    folder, _, name = local_place.uri.rpartition("/")
    run = Run()
    where = {"dataset": name, "lancerefs_conn_id": connect(host=folder)}
    run.execute(submit(run, "run/x", ship_code=ship_code, **where))
    assert ("--py-files" in recorder.read_text().splitlines()) == goes


def test_what_is_neither_true_nor_false_is_told(connect: Connect, recorder: Path) -> None:
    """Before anything is submitted."""
    run = Run()
    with pytest.raises(AirflowFailException, match="ship_code is true or false, not 'no'"):
        run.execute(submit(run, "run/x", ship_code="no", dataset="orders"))
    assert not recorder.exists()


def test_a_branch_that_is_gone_is_told(local_place: Place, connect: Connect) -> None:
    """Nothing is submitted, and no retry can help."""
    orders(local_place)
    folder, _, name = local_place.uri.rpartition("/")
    run = Run()
    setup = LanceCreateBranchOperator(
        task_id="create", dataset=name, lancerefs_conn_id=connect(host=folder), dag=run.dag
    )
    branch = run.execute(setup)["branch"]
    local_place.store().delete_branch(branch)
    task = submit(run, branch)
    task.set_upstream(setup)
    with pytest.raises(AirflowFailException, match="is gone: clear the setup task"):
        run.execute(task)


@pytest.mark.parametrize(
    ("master", "mode", "of_job", "sentence"),
    [
        (STANDALONE, "cluster", {}, "runs no driver in Python: submit in client mode"),
        (
            STANDALONE,
            "cluster",
            {"java_class": "org.apache.spark.deploy.PythonRunner"},
            "show aws_access_key_id, aws_secret_access_key in its driver's command line",
        ),
        (
            KUBERNETES,
            "cluster",
            {},
            "show aws_access_key_id, aws_secret_access_key in its driver's ConfigMap",
        ),
        *(
            (
                master,
                None,
                {"conf": {"spark.submit.deployMode": "cluster"}},
                "would not learn how a driver ends of which spark.submit.deployMode alone",
            )
            for master in (STANDALONE, KUBERNETES)
        ),
    ],
    ids=["python", "keys", "keys-kubernetes", "conf", "conf-kubernetes"],
)
@pytest.mark.s3
def test_what_a_cluster_cannot_drive_is_told(
    connect: Connect,
    s3: S3Server,
    tmp_path: Path,
    recorder: Path,
    master: str,
    mode: str | None,
    of_job: dict[str, Any],
    sentence: str,
) -> None:
    """Nothing is submitted: spark-submit refuses a script, and keys would be seen by others."""
    root = f"s3://{BUCKET}/{tmp_path.name}"
    place = orders(Place(f"{root}/orders", s3.storage_options()))
    place.store().create_branch("run")
    run = Run()
    task = LanceSparkSubmitOperator(
        task_id="write",
        application=str(JOB),
        branch="run",
        conn_id=connect(conn_type="spark", host=master, extra={"deploy-mode": mode}),
        dataset="orders",
        lancerefs_conn_id=s3_connection(connect, s3, root),
        dag=run.dag,
        **of_job,
    )
    with pytest.raises(AirflowFailException, match=sentence) as caught:
        run.execute(task)
    assert s3.secret_key not in str(caught.value)
    assert not recorder.exists()


@pytest.mark.slow
@pytest.mark.spark
def test_spark_itself_drives_no_script_in_a_standalone_cluster(spark_here: None) -> None:
    """Should it one day, so may the operator."""
    command = ["spark-submit", "--master", "spark://127.0.0.1:1", "--deploy-mode", "cluster"]
    done = subprocess.run(
        [*command, str(JOB)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode
    assert "not supported for python applications on standalone clusters" in done.stderr


@pytest.mark.parametrize("master", [STANDALONE, KUBERNETES])
def test_the_deploy_mode_of_a_cluster_is_said(connect: Connect, master: str) -> None:
    """For `spark-submit` would read it in its defaults too."""
    task = submit(Run(), "run/x")
    task._conn_id = connect(conn_type="spark", host=master)
    command = " ".join(task._get_hook()._build_spark_submit_command("job.py"))
    assert "--deploy-mode client" in command


def test_kubernetes_without_its_provider_is_told(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is taken away that is not there without it: here it is installed."""
    monkeypatch.delattr(spark_submit, "kube_client")
    task = submit(Run(), "run/x")
    task._conn_id = connect(conn_type="spark", host=KUBERNETES)
    with pytest.raises(AirflowFailException, match="apache-airflow-providers-cncf-kubernetes"):
        task._get_hook()


def test_a_branch_that_no_task_upstream_made_needs_a_dataset() -> None:
    """The sentence says what to give."""
    run = Run()
    with pytest.raises(AirflowFailException, match="say which dataset"):
        run.execute(submit(run, "run/x"))


def test_an_engine_that_is_none_is_told() -> None:
    """Before a job is submitted, and not by the job."""
    task = LanceSparkSubmitOperator(task_id="write", application="x.py", branch="b", engine="jvm")
    with pytest.raises(AirflowFailException, match="'lancerefs' or 'connector', not 'jvm'"):
        Run().execute(task)


def test_keys_are_in_a_file_of_ones_own(tmp_path: Path) -> None:
    """Beside what the given file says, in the spelling of properties, and gone afterwards."""
    given = tmp_path / "given.properties"
    given.write_text("spark.a b")
    with job.properties_with({"secret": "x=y z\\"}, str(given)) as path:
        assert path is not None
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
        assert Path(path).read_text().splitlines() == [
            "spark.a b",
            "spark.lancerefs.secret.secret x\\=y\\ z\\\\",
        ]
    assert not Path(path).exists()
    with job.properties_with({}, str(given)) as path:
        assert path == str(given)


def test_the_job_side_is_whole(tmp_path: Path) -> None:
    """What is shipped imports from the zip alone, and without Airflow."""
    code = (
        "import importlib, pkgutil, sys; sys.path.insert(0, sys.argv[1]);"
        "import airflow_provider_lancerefs as ours;"
        "names = [one.name for one in pkgutil.walk_packages(ours.__path__, ours.__name__ + '.')];"
        "[importlib.import_module(one) for one in names];"
        "from airflow_provider_lancerefs.spark.jvm.compiling import java;"
        "assert 'Source.java' in java();"
        "assert 'airflow' not in sys.modules; print(ours.__file__, len(names))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(job.job_side())],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert str(job.job_side()) in done.stdout
    assert int(done.stdout.split()[-1]) > 50


def test_two_versions_of_pyspark_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their metadata is replaced, for installing two would break this environment as it does."""
    monkeypatch.setattr(job, "version", {"pyspark": "4.3.0", "pyspark-client": "4.2.0"}.__getitem__)
    with pytest.raises(InvalidInputError, match=r"pyspark 4\.3\.0 and pyspark-client 4\.2\.0"):
        job.check_pyspark()
