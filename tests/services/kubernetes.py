"""A Kubernetes of one node on loopback: the API that its Java client has for tests, and a kubelet.

Every process of it works in its folder, by which it is found and killed. Run as a program, this
module fetches the jars of the API.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.airflow.processes import Process, working_in
from tests.airflow.waiting import until
from tests.services.jars import HOST, fetch
from tests.services.kubelet import Kubelet, Pod, kill_all_in
from tests.services.pods import write_kubeconfig

REPOSITORY = Path(__file__).parents[2]
IVY = REPOSITORY / "build" / "kubernetes" / "ivy"
JARS = IVY / "jars"
PACKAGES = ("io.fabric8:kubernetes-server-mock:7.6.1",)  # of the client that Spark 4.2.0 brings
IN_SPARK = (
    "com.fasterxml.jackson.core:*",
    "io.fabric8:zjsonpatch",
    "io.netty:*",
    "io.vertx:vertx-auth-common",
    "io.vertx:vertx-core",
    "io.vertx:vertx-web-common",
    "org.slf4j:slf4j-api",
)
NAMESPACE = "lake"
START_SECONDS = 120
_API_SERVER = Path(__file__).with_name("ApiServer.java")
_TYPES = {"PATCH": "application/json-patch+json", "POST": "application/json"}


@dataclass
class Kubernetes:
    """A running one: where to submit to, what it was told, and its pods, to kill one of."""

    folder: Path
    python: str
    api: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        import pyspark

        spark = str(Path(pyspark.__file__).parent)
        image = {"PYSPARK_PYTHON": self.python, "SPARK_HOME": spark}
        self.kubelet = Kubelet(self, self.folder, image)

    @cached_property
    def url(self) -> str:
        return f"http://{HOST}:{self._log.read_text().split()[0]}"

    @property
    def submitting(self) -> dict[str, str]:
        """The variables by which `spark-submit` and Airflow know what suits this one."""
        return {
            "AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE": str(self.folder / "kubeconfig"),
            "AIRFLOW__KUBERNETES_EXECUTOR__IN_CLUSTER": "False",
            "SPARK_CONF_DIR": str(self.folder / "conf"),
        }

    @property
    def processes(self) -> list[Process]:
        """The API, and all containers with what those started."""
        return working_in(self.folder)

    def told(self) -> list[tuple[str, str]]:
        """Everything that anybody ever gave the API to keep, and where."""
        lines = [one.partition(" ") for one in self._log.read_text().splitlines()[1:]]
        return [(path, body) for path, _, body in lines]

    def running(self, role: str) -> list[Pod]:
        """The pods of drivers, or of executors."""
        pods = [*self.kubelet.pods.values()]
        return [one for one in pods if one.role == role and one.process.poll() is None]

    def said(self, role: str) -> str:
        """What all containers of a role have said, those that are gone as well."""
        pods = [*self.kubelet.pods.values()]
        return "".join(one.said for one in pods if one.role == role)

    def objects(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._call("GET", kind)["items"]
        return found

    def report(self, pod: str, status: Mapping[str, Any]) -> None:
        change = {"op": "add", "path": "/status", "value": status}
        self._call("PATCH", f"pods/{pod}/status", [change])

    def keep_secret(self, name: str, values: Mapping[str, str]) -> None:
        data = {key: base64.b64encode(one.encode()).decode() for key, one in values.items()}
        about = {"name": name, "namespace": NAMESPACE}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": about, "data": data}
        self._call("POST", "secrets", secret)

    def start(self) -> None:
        self._launch()
        until(lambda: self._log.read_text().endswith("\n"), "Kubernetes's API", START_SECONDS)
        self._configure()
        self.kubelet.start()

    def stop(self) -> None:
        self.kubelet.stop()
        kill_all_in(self.folder, "Kubernetes")
        if self.api is not None:
            self.api.communicate()

    def _launch(self) -> None:
        jars = [f"{JARS}/*", f"{self.kubelet.image['SPARK_HOME']}/jars/*"]
        with self._log.open("wb") as said, (self.folder / "api.err").open("wb") as trouble:
            self.api = subprocess.Popen(
                ["java", "-Xmx256m", "-cp", os.pathsep.join(jars), str(_API_SERVER)],
                cwd=self.folder,
                stdin=subprocess.PIPE,  # it ends with whoever holds this
                stdout=said,
                stderr=trouble,
                start_new_session=True,
            )

    def _configure(self) -> None:
        conf, uploads, token = (self.folder / one for one in ("conf", "uploads", "token"))
        conf.mkdir()
        uploads.mkdir()
        token.write_text("nobody asks for it")
        mounted = "spark.kubernetes.authenticate.driver.mounted"
        defaults = {
            f"{mounted}.oauthTokenFile": str(token),
            "spark.kubernetes.container.image": "spark",
            "spark.kubernetes.driver.master": self.url,
            "spark.kubernetes.file.upload.path": uploads.as_uri(),
        }
        lines = [f"{key} {value}\n" for key, value in defaults.items()]
        (conf / "spark-defaults.conf").write_text("".join(lines))
        write_kubeconfig(self.folder / "kubeconfig", self.url)

    def _call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self.url}/api/v1/namespaces/{NAMESPACE}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": _TYPES[method]} if method in _TYPES else {},
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            answer: dict[str, Any] = json.load(reply)
        return answer

    @property
    def _log(self) -> Path:
        return self.folder / "api.log"


@contextlib.contextmanager
def kubernetes(folder: Path, python: str) -> Iterator[Kubernetes]:
    """Start one whose files are in a new folder, and end every process of it."""
    cluster = Kubernetes(folder, python)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


if __name__ == "__main__":
    fetch(IVY, PACKAGES, IN_SPARK)
