"""The Python process that serves Spark's JVM: what it says of trouble, and what kills it."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import psutil
import pyarrow as pa
import pytest

from airflow_provider_lancerefs.refstore import InvalidInputError
from airflow_provider_lancerefs.spark import LanceRun, register
from airflow_provider_lancerefs.spark.jvm import serving
from airflow_provider_lancerefs.spark.writing import Written
from tests.services.killing import ManifestKiller
from tests.services.proxy import S3Proxy
from tests.services.seaweed import S3Server
from tests.spark.attempts import Attempt, batch
from tests.spark.conftest import REPOSITORY
from tests.spark.test_committing import data_files, orphans
from tests.spark.test_jvm import opened
from tests.spark.test_kills import orphans_after_a_sweep
from tests.spark.test_source import numbers
from tests.tables import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]


def servants(driver: int | None = None) -> list[psutil.Process]:
    """The processes that serve the JVM of a driver, or of this session."""
    return [
        one
        for one in psutil.Process(driver).children(recursive=True)
        if one.status() != psutil.STATUS_ZOMBIE and "spark.jvm.serving" in " ".join(one.cmdline())
    ]


def kill_servants() -> None:
    for one in servants():
        one.kill()


def folder_of(servant: psutil.Process) -> Path:
    """Where its socket is."""
    return Path(servant.cmdline()[-1]).parent


class TestTrouble:
    """What does not fit, is gone, or dies."""

    def test_a_value_that_does_not_fit_fails_the_write(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """The job fails with what Python said, and leaves no row and no file."""
        lance.write_dataset(pa.table({"n": pa.array([1], pa.uint8())}), local_place.uri)
        local_place.store().create_branch("run")
        with pytest.raises(InvalidInputError, match="nothing was written: the column 'n'"):
            opened(spark, local_place).write(spark.sql("select cast(300 as smallint) n"), "t")

        assert [1] == local_place.values()
        assert not orphans(local_place)

    def test_what_is_refused_while_more_is_said_is_told(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """Python stops listening at an option that is wrong, before it has heard of the columns."""
        register(spark)
        frame = spark.sql(f"select {', '.join(f'{n}L n{n}' for n in range(5000))}")
        with pytest.raises(Exception, match="'branchy' is neither an option"):
            frame.write.format("lancerefs").mode("append").save(local_place.uri, branchy="run")

    def test_a_file_that_is_gone_fails_the_read(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """In pylance's words, and never with fewer rows."""
        local_place.create(range(1000))
        frame = opened(spark, local_place).read("t")
        for file in Path(local_place.uri, "data").iterdir():
            file.unlink()
        with pytest.raises(Exception, match="Not found"):
            frame.collect()

    def test_a_process_that_was_killed_is_started_again(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """Between two reads, and between two writes; of those before nothing stays."""
        local_place.create()
        run = opened(spark, local_place)
        for value in (4, 5):
            assert [*range(1, value)] == numbers(run.read("t"))
            folders = [folder_of(process) for process in servants()]
            for process in servants():
                process.kill()
                process.wait(10)
            run.write(spark.sql(f"select {value}L n"), "t")
            assert folders
            assert folder_of(servants()[0]) not in folders
            assert not any(folder.exists() for folder in folders)

        assert [1, 2, 3, 4, 5] == local_place.values()

    def test_a_process_that_is_told_to_end_leaves_nothing(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """As YARN tells all that is in a container."""
        assert [1, 2, 3] == numbers(opened(spark, local_place.create()).read("t"))
        found = servants()
        folders = [folder_of(process) for process in found]
        for process in found:
            process.terminate()
        alive = psutil.wait_procs(found, timeout=20)[1]
        assert found
        assert [] == alive
        assert not any(folder.exists() for folder in folders)

    def test_a_process_that_is_killed_in_a_read_loses_no_row(
        self, spark: SparkSession, local_place: Place
    ) -> None:
        """Its tasks fail and are tried again."""
        lance.write_dataset(
            pa.table({"n": range(400_000), "v": pa.array([[1.0] * 64] * 400_000)}), local_place.uri
        )
        frame = opened(spark, local_place).read("t")
        assert 400_000 == frame.count()
        running = [process.pid for process in servants()]
        assert running

        def kill_once(batches):  # type: ignore[no-untyped-def]
            mark = Path(local_place.uri, "killed")
            for place, one in enumerate(batches):
                if place == 1 and not mark.exists():
                    mark.touch()
                    for pid in running:
                        os.kill(pid, signal.SIGKILL)
                yield one

        counted = frame.mapInArrow(kill_once, frame.schema).selectExpr("count(distinct n) n")
        assert 400_000 == counted.collect()[0].n
        assert Path(local_place.uri, "killed").exists()
        assert not {*running} & {process.pid for process in servants()}

    @pytest.mark.parametrize("manifest", [2, 3], ids=["anchor", "commit"])
    @pytest.mark.parametrize("done", [False, True])
    def test_a_process_that_is_killed_in_a_commit_writes_once(
        self, spark: SparkSession, s3: S3Server, s3_place: Place, manifest: int, done: bool
    ) -> None:
        """The driver's: the write fails, whether it landed or not; made again it is there once."""
        s3_place.create().store().create_branch("run")
        killer = ManifestKiller(kill_servants, manifest, done)
        with S3Proxy(s3.port) as proxy:
            run = LanceRun.open({"t": s3_place.uri}, "run", s3.storage_options(proxy.port), spark)
            proxy.fault, proxy.passes = killer.fault, killer.passes
            with pytest.raises(Exception, match="Python ended before its work was done"):
                run.write(spark.sql("select 4L n"), "t")
            run.write(spark.sql("select 4L n"), "t")
        assert killer.killed.is_set()

        assert [1, 2, 3, 4] == s3_place.branch("run").values()
        assert not orphans_after_a_sweep(s3_place)

    def test_rows_that_were_announced_and_do_not_come_fail_the_read(
        self, spark: SparkSession, local_place: Place, tmp_path: Path, python: Python
    ) -> None:
        """Arrow's own reader would take that for the end of the rows.

        No kill from outside hits that moment, so this process ends itself there.
        """
        ending = """
            import os
            from airflow_provider_lancerefs.spark.jvm import serving

            def say_and_end(line, *pieces, say=serving._Line.say):
                say(line, *pieces)
                line.announced = getattr(line, "announced", 0) + (pieces == (b"p",))
                if line.announced == 2:
                    os._exit(1)

            serving._Line.say = say_and_end
            serving.main()
        """
        program = tmp_path / "ending.py"
        program.write_text(textwrap.dedent(ending))
        python(f'exec {sys.executable} {program} "$3"')
        run = opened(spark, local_place.create(range(100_000)))
        with pytest.raises(Exception, match="Python ended before its work was done"):
            run.read("t").collect()

    @pytest.mark.parametrize(
        ("of_another", "said"), [(False, "environment/bin/python"), (True, "No module named")]
    )
    def test_an_interpreter_that_only_executors_have_plans_nothing(
        self,
        spark: SparkSession,
        local_place: Place,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        of_another: bool,
        said: str,
    ) -> None:
        """Such as one in an archive, or of an environment that shares the driver's interpreter."""
        theirs = Path("./environment/bin/python")
        if of_another:
            theirs = tmp_path / "bin" / "python"
            theirs.parent.mkdir()
            theirs.symlink_to(Path(sys.executable).resolve())
        monkeypatch.setattr(spark.sparkContext, "pythonExec", str(theirs))
        frame = opened(spark, local_place.create()).read("t")
        assert 1 == frame.rdd.getNumPartitions()
        with pytest.raises(Exception, match=said):
            frame.collect()

    def test_what_was_submitted_is_found_by_what_the_jvm_inherited(
        self, spark: SparkSession, local_place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On YARN in cluster mode Spark's configuration has it as no Python can read it."""
        unread = "{{PWD}}/pyspark.zip<CPS>{{PWD}}/ours.zip"
        monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", unread)
        assert [1, 2, 3] == numbers(opened(spark, local_place.create()).read("t"))
        paths = [one.environ()["PYTHONPATH"] for one in servants()]
        (found,) = [one for one in paths if unread in one]
        assert os.environ["PYTHONPATH"] in found

    def test_a_python_that_does_not_start_is_told(
        self, spark: SparkSession, local_place: Place, tmp_path: Path, python: Python
    ) -> None:
        """In one sentence, which says where to look; its folder goes, whatever it left there."""
        told = tmp_path / "told"
        python(f'touch "$3"; echo "$3" >> {told}; exit 1')
        run = opened(spark, local_place.create())
        with pytest.raises(Exception, match="Python could not be started"):
            run.read("t").collect()

        sockets = [Path(line) for line in told.read_text().splitlines()]
        assert sockets
        assert not any(socket.parent.exists() for socket in sockets)

    @pytest.fixture
    def python(
        self, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Python:
        """Has this session's executors start a shell script as their Python."""

        def make(script: str) -> None:
            path = tmp_path / "python"
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
            monkeypatch.setattr(spark.sparkContext, "pythonExec", str(path))

        return make


Python = Callable[[str], None]


class TestOfItsOwn:
    """Sessions in drivers of their own."""

    @pytest.mark.parametrize("deep", [False, True])
    def test_it_ends_with_its_jvm(
        self, spark_environment: None, local_place: Place, tmp_path: Path, deep: bool
    ) -> None:
        """However that ends: nothing of it stays, and no folder.

        Where the JVM's own place for such is too deep, as in containers of YARN, it is elsewhere.
        """
        local_place.create()
        place = tmp_path.joinpath(*(["a folder of a container"] * 5 if deep else ["tmp"]))
        place.mkdir(parents=True)
        options = f"-Djava.io.tmpdir='{place}'"
        with subprocess.Popen(
            [sys.executable, "-c", _SESSION, local_place.uri, options],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as driver:
            assert driver.stdout is not None
            assert "3" == driver.stdout.readline().strip()
            found = servants(driver.pid)
            assert 1 == len(found)
            folder = folder_of(found[0])
            assert folder.exists()
            os.kill(found[0].ppid(), signal.SIGKILL)
            alive = psutil.wait_procs(found, timeout=20)[1]
            driver.kill()
        assert [] == alive
        assert not folder.exists()
        if deep:
            assert Path("/tmp") == folder.parent


_SESSION = """
import sys
from pyspark.sql import SparkSession
from airflow_provider_lancerefs.spark import LanceRun, register

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.extraJavaOptions", sys.argv[2]).getOrCreate()
print(LanceRun.open({"t": sys.argv[1]}).read("t").count(), flush=True)
sys.stdin.read()
"""


class TestConversation:
    """A task that ends in the midst of a write, as the process hears it."""

    @pytest.mark.parametrize("said", ["a part of a batch", "batches", "their end", "all"])
    def test_a_file_is_finished_for_a_task_that_said_all(
        self, local_place: Place, said: str
    ) -> None:
        """And for no other: its rows may be fewer than it had."""
        write = Attempt.at(local_place.create(), "main", "w").prepare()
        before = data_files(local_place)
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, batch([]).schema) as writer:
            writer.write_batch(batch([7]))
            unfinished = stream.tell()
            writer.write_batch(batch([8]))
            batches = stream.tell()
        rows = stream.getvalue().to_pybytes()
        sent = {
            "a part of a batch": rows[: (unfinished + batches) // 2],
            "batches": rows[:batches],
            "their end": rows,
            "all": rows + piece(b""),
        }[said]

        heard = self._answer_to(piece(b"write") + piece(pickle.dumps(write)) + sent)
        found = data_files(local_place) - before
        if said != "all":
            assert heard[:1] in (b"", b"x")
            assert not found
            return
        written: Written = pickle.loads(heard[5:-1])
        assert {f"data/{file.name}" for file in written.files} == found
        assert [2] == [file.rows for file in written.files]

    def _answer_to(self, said: bytes) -> bytes:
        task, process = socket.socketpair()
        answering = threading.Thread(target=serving._answer, args=[process])
        answering.start()
        with task:
            task.sendall(said)
            task.shutdown(socket.SHUT_WR)
            answering.join(60)
            assert not answering.is_alive()
            return task.recv(1 << 16)


def piece(said: bytes) -> bytes:
    return struct.pack(">i", len(said)) + said


def test_executors_need_no_more_than_three_libraries() -> None:
    """Those that `docs/spark.md` names, and what these import themselves."""
    subprocess.run([sys.executable, "-c", _EXECUTOR], cwd=REPOSITORY, check=True, timeout=60)


_EXECUTOR = """
import sys
from importlib.metadata import packages_distributions

OURS = {"airflow_provider_lancerefs"}
THEIRS = {"lance", "lance_namespace", "numpy", "py4j", "pyarrow", "pyspark"}
ABSENT = set(packages_distributions()) - OURS - THEIRS

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import airflow_provider_lancerefs.spark.jvm.serving
import airflow_provider_lancerefs.spark.source
import lance
"""


class TestSecrets:
    """Credentials stay out of whatever Spark shows."""

    def test_neither_plans_nor_processes_show_one(
        self, spark: SparkSession, s3: S3Server, s3_place: Place, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """Of a table on S3, which is read and written all the same."""
        run = opened(spark, s3_place.create())
        frame = run.read("t").where("n > 1")
        frame.explain(True)
        plan = frame._jdf.queryExecution().toString()
        run.write(frame, "t")

        argv = [" ".join(one.cmdline()) for one in servants()]
        shown = plan + "".join(capfd.readouterr()) + "".join(argv)
        assert "jvm.serving" in shown
        assert s3_place.uri in shown
        assert s3.secret_key not in shown
        assert s3.access_key not in shown.replace(s3_place.uri, "")
        assert [1, 2, 2, 3, 3] == s3_place.values()
