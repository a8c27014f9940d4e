"""What runs the pods of a test's Kubernetes: each container is a process that works in a folder.

A pod has a loopback address of its own, and names are looked up in a file. Of the image of Spark
this knows what its entry point does with `driver` and with `executor`.
"""

from __future__ import annotations

import base64
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.airflow.processes import send, working_in
from tests.airflow.waiting import until

PAUSE = 0.2
STOP_SECONDS = 30
_Object = dict[str, Any]


class Api(Protocol):
    """What a kubelet asks of the API."""

    def objects(self, kind: str) -> list[_Object]: ...

    def report(self, pod: str, status: _Object) -> None: ...


@dataclass
class Pod:
    """One that is, or was, running."""

    name: str
    role: str
    home: Path
    ip: str
    process: subprocess.Popen[bytes]
    ended: bool = False

    @property
    def said(self) -> str:
        return (self.home / "log").read_text(errors="replace")

    def kill(self) -> None:
        """Kill -9 all of it, as when memory is short."""
        kill_all_in(self.home, self.name)


@dataclass
class Kubelet:
    """Runs what the API says, and tells it what became of that."""

    api: Api
    folder: Path
    image: Mapping[str, str]  # the variables that it sets, SPARK_HOME among them
    pods: dict[str, Pod] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._network = ".".join(["127", *(str(random.randint(1, 254)) for _ in range(2))])
        self._names = self.folder / "hosts"
        self._thread = threading.Thread(target=self._work)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)
        for pod in self.pods.values():
            pod.kill()
            pod.process.wait(STOP_SECONDS)

    def _work(self) -> None:
        while not self._over.wait(PAUSE):
            wanted = {one["metadata"]["name"]: one for one in self.api.objects("pods")}
            for name, pod in self.pods.items():
                if name not in wanted and not pod.ended:
                    pod.kill()
                    pod.ended = True
            for name, one in wanted.items():
                if name not in self.pods and self._has_its_volumes(one):
                    self.pods[name] = self._run(one)
                    self._report(self.pods[name], one, "Running", {"running": {}})
                elif name in self.pods:
                    self._look_after(self.pods[name], one)

    def _look_after(self, pod: Pod, wanted: _Object) -> None:
        code = pod.process.poll()
        if code is None or pod.ended:
            return
        pod.ended = True
        shown = 128 - code if code < 0 else code
        reason = "Error" if code else "Completed"
        ended = {"terminated": {"exitCode": shown, "reason": reason}}
        self._report(pod, wanted, "Failed" if code else "Succeeded", ended)

    def _report(self, pod: Pod, wanted: _Object, phase: str, state: _Object) -> None:
        ready = phase == "Running"
        (container,) = wanted["spec"]["containers"]
        about = {key: container[key] for key in ("image", "name")}
        fixed = {"imageID": "", "ready": ready, "restartCount": 0}
        status = {
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{**about, **fixed, "state": state}],
            "phase": phase,
            "podIP": pod.ip,
        }
        self.api.report(pod.name, status)

    def _has_its_volumes(self, pod: _Object) -> bool:
        there = {one["metadata"]["name"] for one in self.api.objects("configmaps")}
        volumes = pod["spec"]["volumes"]
        return {one["configMap"]["name"] for one in volumes if "configMap" in one} <= there

    def _run(self, pod: _Object) -> Pod:
        """Start the one container of a pod."""
        meta, (container,) = pod["metadata"], pod["spec"]["containers"]
        home, ip = self.folder / "pods" / meta["name"], f"{self._network}.{len(self.pods) + 1}"
        home.mkdir(parents=True)
        self._write_names(pod, ip)
        mounted = self._mount(pod, home)
        variables = {
            one["name"]: self._value(one, meta["name"], ip) for one in container.get("env", [])
        }
        here = {key: _moved(value, mounted) for key, value in variables.items()}
        environment = {**self._environ(), "SPARK_LOCAL_IP": ip, **self.image, **here}
        arguments = [_moved(one, mounted) for one in container["args"]]
        with (home / "log").open("wb") as output:
            process = subprocess.Popen(
                _ROLES[arguments[0]](arguments[1:], environment),
                cwd=home,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Pod(meta["name"], arguments[0], home, ip, process)

    def _mount(self, pod: _Object, home: Path) -> dict[str, str]:
        """Where in the pod's folder lies what its container is to see elsewhere."""
        (container,) = pod["spec"]["containers"]
        maps = {one["metadata"]["name"]: one["data"] for one in self.api.objects("configmaps")}
        places = {}
        for mount in container["volumeMounts"]:
            (volume,) = (one for one in pod["spec"]["volumes"] if one["name"] == mount["name"])
            place = Path(f"{home}{mount['mountPath']}")
            place.mkdir(parents=True)
            for name, text in maps.get(volume.get("configMap", {}).get("name"), {}).items():
                (place / name).write_text(text)
            places[mount["mountPath"]] = str(place)
        return places

    def _value(self, variable: _Object, name: str, ip: str) -> str:
        source = variable.get("valueFrom", {})
        if "fieldRef" in source:
            return {"metadata.name": name, "status.podIP": ip}[source["fieldRef"]["fieldPath"]]
        if "secretKeyRef" in source:
            wanted = source["secretKeyRef"]
            secrets = {one["metadata"]["name"]: one for one in self.api.objects("secrets")}
            return base64.b64decode(secrets[wanted["name"]]["data"][wanted["key"]]).decode()
        return str(variable.get("value", ""))

    def _write_names(self, pod: _Object, ip: str) -> None:
        """A service that selects a pod has its address."""
        labels = pod["metadata"]["labels"].items()
        names = [
            f"{one['metadata']['name']}.{one['metadata']['namespace']}.svc"
            for one in self.api.objects("services")
            if one["spec"]["selector"].items() <= labels
        ]
        with self._names.open("a") as file:
            file.write(f"127.0.0.1 localhost {socket.gethostname()}\n")
            file.writelines(f"{ip} {name}\n" for name in names)

    def _environ(self) -> dict[str, str]:
        """Nothing of the tests' own Airflow, AWS or search path for modules is in it."""
        foreign = ("AIRFLOW", "AWS", "PYTHONPATH", "SPARK", "PYSPARK")
        inherited = {key: os.environ[key] for key in os.environ if not key.startswith(foreign)}
        return {**inherited, "JAVA_TOOL_OPTIONS": f"-Djdk.net.hosts.file={self._names}"}


def kill_all_in(folder: Path, what: str) -> None:
    """Kill -9 everything that works in a folder or below it."""

    def dead() -> bool:
        for one in working_in(folder):
            send(one.pid, signal.SIGKILL)
        return not working_in(folder)

    until(dead, f"the death of {what}", STOP_SECONDS)


def _moved(text: str, places: Mapping[str, str]) -> str:
    for there, here in places.items():
        text = text.replace(there, here)
    return text


def _driver(arguments: list[str], environment: Mapping[str, str]) -> list[str]:
    bound = f"spark.driver.bindAddress={environment['SPARK_DRIVER_BIND_ADDRESS']}"
    spark_submit = f"{environment['SPARK_HOME']}/bin/spark-submit"
    return [spark_submit, "--conf", bound, "--deploy-mode", "client", *arguments]


def _executor(arguments: list[str], environment: Mapping[str, str]) -> list[str]:
    numbered = [re.fullmatch(r"SPARK_JAVA_OPT_(\d+)", key) for key in environment]
    options = {int(found[1]): environment[found[0]] for found in numbered if found}
    memory, home = environment["SPARK_EXECUTOR_MEMORY"], environment["SPARK_HOME"]
    given = {
        "driver-url": "SPARK_DRIVER_URL",
        "executor-id": "SPARK_EXECUTOR_ID",
        "cores": "SPARK_EXECUTOR_CORES",
        "app-id": "SPARK_APPLICATION_ID",
        "hostname": "SPARK_EXECUTOR_POD_IP",
        "resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
        "podName": "SPARK_EXECUTOR_POD_NAME",
    }
    return [
        str(shutil.which("java")),
        *(options[number] for number in sorted(options)),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        f"{environment['SPARK_CONF_DIR']}{os.pathsep}{home}/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *(part for key, name in given.items() for part in (f"--{key}", environment[name])),
        *arguments,
    ]


_ROLES = {"driver": _driver, "executor": _executor}
