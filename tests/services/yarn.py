"""A YARN of one node on loopback, from the jar that Hadoop has for tests.

Every process of it works in its folder, by which it is found and killed: YARN starts containers in
sessions of their own. Run as a program, this module fetches the jars.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from xml.sax.saxutils import escape

from tests.airflow.processes import Process, command_line, send, working_in
from tests.airflow.waiting import until
from tests.services.jars import HOST, fetch
from tests.services.ports import free_ports

REPOSITORY = Path(__file__).parents[2]
IVY = REPOSITORY / "build" / "yarn" / "ivy"
JARS = IVY / "jars"
PACKAGES = (
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0",  # the Hadoop that Spark 4.2.0 brings
    "org.bouncycastle:bcpkix-jdk18on:1.82",
)
IN_SPARK = (  # in other versions, some of them
    "com.google.code.findbugs:jsr305",
    "commons-logging:commons-logging",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
START_SECONDS = 120
STOP_SECONDS = 30
_SERVER = "org.apache.hadoop.yarn.server"
_DAEMONS = {
    "resourcemanager": f"{_SERVER}.resourcemanager.ResourceManager",
    "nodemanager": f"{_SERVER}.nodemanager.NodeManager",
}
_LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n%ex
"""


@dataclass
class Yarn:
    """A running YARN: what to submit to it with, and what it has on disk and in memory."""

    folder: Path
    environment: Mapping[str, str] = field(repr=False)
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @cached_property
    def ports(self) -> dict[str, int]:
        """Of the ResourceManager, by what its settings call them."""
        others = ("admin", "resource-tracker", "scheduler", "webapp")
        names = ["address", *(f"{one}.address" for one in others)]
        return dict(zip(names, free_ports(len(names)), strict=True))

    @property
    def web(self) -> str:
        """Where the ResourceManager tells everybody the state of jobs."""
        return f"http://{HOST}:{self.ports['webapp.address']}"

    @property
    def submitting(self) -> dict[str, str]:
        """The variables by which `spark-submit` finds this YARN, and what suits it."""
        return {
            "HADOOP_CONF_DIR": str(self.folder / "conf"),
            "SPARK_CONF_DIR": str(self.folder / "spark"),
        }

    @property
    def of_node(self) -> Path:
        """What the NodeManager keeps: the files of containers and what they said."""
        return self.folder / "node"

    @property
    def staging(self) -> Path:
        return self.folder / "staging"

    @property
    def processes(self) -> list[Process]:
        """The two daemons, and all containers with what those started."""
        return working_in(self.folder)

    def executors(self) -> list[Process]:
        return self._containers("YarnCoarseGrainedExecutorBackend")

    def drivers(self) -> list[Process]:
        """Those in the cluster."""
        return self._containers("deploy.yarn.ApplicationMaster")

    def kill_container(self, java: Process) -> None:
        """Kill -9 a container's JVM, with all that works in the same folder."""
        home = Path(os.readlink(f"/proc/{java.pid}/cwd"))
        self._kill_all_in(home, f"the death of {home.name}")

    def start(self) -> None:
        self._configure()
        for name in _DAEMONS:
            self._launch(name)
        until(self._complete, "YARN's node", START_SECONDS)

    def stop(self) -> None:
        self._kill_all_in(self.folder, "the death of YARN")
        for one in self.daemons.values():
            one.wait(STOP_SECONDS)

    def _containers(self, main: str) -> list[Process]:
        return [one for one in self.processes if _is_java(command_line(one.pid), main)]

    def _kill_all_in(self, folder: Path, what: str) -> None:
        def dead() -> bool:
            for one in working_in(folder):
                send(one.pid, signal.SIGKILL)
            return not working_in(folder)

        until(dead, what, STOP_SECONDS)

    def _configure(self) -> None:
        import pyspark

        conf, spark = self.folder / "conf", self.folder / "spark"
        for folder in (conf, spark, self.of_node, self.folder / "tmp"):
            folder.mkdir(parents=True)
        (conf / "core-site.xml").write_text(_xml({"fs.defaultFS": "file:///"}))
        (conf / "yarn-site.xml").write_text(_xml(self._settings()))
        queues = "yarn.scheduler.capacity"
        (conf / "capacity-scheduler.xml").write_text(
            _xml(
                {
                    f"{queues}.root.queues": "default",
                    f"{queues}.root.default.capacity": "100",
                    f"{queues}.maximum-am-resource-percent": "0.9",
                }
            )
        )
        (self.folder / "logging.properties").write_text(_LOGGING)
        jars = Path(pyspark.__file__).parent / "jars"
        defaults = {
            "spark.yarn.jars": f"local:{jars}/*",
            "spark.yarn.stagingDir": self.staging,
        }
        lines = [f"{key} {value}\n" for key, value in defaults.items()]
        (spark / "spark-defaults.conf").write_text("".join(lines))

    def _settings(self) -> dict[str, str]:
        manager = {name: f"{HOST}:{port}" for name, port in self.ports.items()}
        node = {
            "address": f"{HOST}:0",
            "bind-host": HOST,
            "disk-health-checker.enable": "false",
            "hostname": HOST,
            "local-dirs": str(self.of_node / "local"),
            "localizer.address": f"{HOST}:0",
            "log-dirs": str(self.of_node / "logs"),
            "pmem-check-enabled": "false",
            "resource.cpu-vcores": "8",
            "resource.memory-mb": "6144",
            "vmem-check-enabled": "false",
            "webapp.address": f"{HOST}:0",
        }
        return {
            **{f"yarn.resourcemanager.{name}": value for name, value in manager.items()},
            **{f"yarn.nodemanager.{name}": value for name, value in node.items()},
            "hadoop.tmp.dir": str(self.folder / "tmp"),
            "yarn.node-attribute.fs-store.root-dir": str(self.folder / "attributes"),
            "yarn.resourcemanager.bind-host": HOST,
            "yarn.resourcemanager.hostname": HOST,
            "yarn.scheduler.minimum-allocation-mb": "256",
        }

    def _launch(self, name: str) -> None:
        import pyspark

        jars = Path(pyspark.__file__).parent / "jars"
        with self._log(name).open("wb") as output:
            self.daemons[name] = subprocess.Popen(
                [
                    "java",
                    "-Xmx256m",
                    f"-Djava.io.tmpdir={self.folder / 'tmp'}",
                    f"-Dlog4j2.configurationFile={self.folder / 'logging.properties'}",
                    "-cp",
                    os.pathsep.join([str(self.folder / "conf"), f"{JARS}/*", f"{jars}/*"]),
                    _DAEMONS[name],
                ],
                cwd=self.folder,
                env=self._environ(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _environ(self) -> dict[str, str]:
        """Nothing of the tests' own Airflow, AWS or search path for modules is in it."""
        foreign = ("AIRFLOW", "AWS", "HADOOP", "PYTHONPATH", "SPARK", "PYSPARK")
        inherited = {key: os.environ[key] for key in os.environ if not key.startswith(foreign)}
        java = Path(str(shutil.which("java"))).resolve()
        return {
            **inherited,
            "JAVA_HOME": str(java.parents[1]),
            "SPARK_LOCAL_IP": HOST,
            **self.environment,
        }

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _complete(self) -> bool:
        for name, one in self.daemons.items():
            if one.poll() is not None:
                tail = self._log(name).read_text(errors="replace")[-4000:]
                raise RuntimeError(f"YARN's {name} ended:\n{tail}")
        try:
            with urllib.request.urlopen(f"{self.web}/ws/v1/cluster/metrics", timeout=30) as reply:
                return bool(json.load(reply)["clusterMetrics"]["activeNodes"])
        except urllib.error.URLError:
            return False


@contextlib.contextmanager
def yarn(folder: Path, environment: Mapping[str, str]) -> Iterator[Yarn]:
    """Start one whose logs and files are in a new folder, and end every process of it."""
    cluster = Yarn(folder, environment)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _is_java(line: str, main: str) -> bool:
    """Whether it is a JVM with a class of that name, and not the shell that waits for it."""
    return line.partition(" ")[0].endswith("/java") and main in line


def _xml(settings: Mapping[str, str]) -> str:
    lines = [
        f"<property><name>{name}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    ]
    return "\n".join(["<configuration>", *lines, "</configuration>", ""])


if __name__ == "__main__":
    fetch(IVY, PACKAGES, IN_SPARK)
