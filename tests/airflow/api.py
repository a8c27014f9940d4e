"""A client of Airflow's public REST API, in the words of the tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx

from tests.airflow.configuration import USER
from tests.airflow.gates import Gate
from tests.airflow.waiting import until

SECONDS = 300
TRIES = 5
ENDED = frozenset({"success", "failed"})
SETTLED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
Task = str | tuple[str, int]


class ApiError(RuntimeError):
    """Airflow refused a request."""


def healthy(url: str) -> bool:
    """Whether every component has been heard of lately."""
    try:
        parts = httpx.get(f"{url}/api/v2/monitor/health", trust_env=False).json()
    except httpx.TransportError:
        return False
    return {part["status"] for part in parts.values()} == {"healthy"}


class AirflowApi:
    """One logged-in user."""

    def __init__(self, url: str, password: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=60, trust_env=False)
        self._password = password

    def close(self) -> None:
        self._client.close()

    def log_in(self) -> None:
        answer = self._client.post(
            "/auth/token", json={"username": USER, "password": self._password}
        )
        answer.raise_for_status()
        self._client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        **query: Any,
    ) -> Any:
        """One request below /api/v2; raises ApiError with what Airflow said.

        It is made again where Airflow could not get at its sqlite, and so has done nothing.
        """
        for _ in range(TRIES):
            answer = self._client.request(method, f"/api/v2/{path}", json=body, params=query)
            if answer.status_code != 500:
                break
        if answer.is_error:
            raise ApiError(f"{method} {path}: {answer.status_code} {answer.text[:2000]}")
        return answer.json() if answer.content else None

    def dag_ids(self) -> set[str]:
        return {dag["dag_id"] for dag in self.call("GET", "dags", limit=100)["dags"]}

    def import_errors(self) -> dict[str, str]:
        """What went wrong in which DAG file."""
        errors = self.call("GET", "importErrors")["import_errors"]
        return {error["filename"]: error["stack_trace"] for error in errors}

    def add_connection(self, conn_id: str, conn_type: str, **values: Any) -> None:
        self.call(
            "POST", "connections", {"connection_id": conn_id, "conn_type": conn_type, **values}
        )

    def pause(self, dag_id: str, paused: bool = True) -> None:
        self.call("PATCH", f"dags/{dag_id}", {"is_paused": paused})

    def trigger(
        self, dag_id: str, conf: Mapping[str, Any] | None = None, run_id: str | None = None
    ) -> Run:
        body = {"logical_date": None, "conf": dict(conf or {}), "dag_run_id": run_id}
        answer = self.call("POST", f"dags/{dag_id}/dagRuns", body)
        return Run(self, dag_id, answer["dag_run_id"])

    def runs(self, dag_id: str) -> list[Run]:
        answer = self.call("GET", f"dags/{dag_id}/dagRuns", limit=100)
        return [Run(self, dag_id, run["dag_run_id"]) for run in answer["dag_runs"]]

    def asset_events(self, run: Run) -> list[dict[str, Any]]:
        """What the tasks of a run told of assets: each asset's `uri`, and `extra`."""
        query = {"source_dag_id": run.dag_id, "source_run_id": run.run_id}
        events: list[dict[str, Any]] = self.call("GET", "assets/events", **query)["asset_events"]
        return events

    def backfill(
        self,
        dag_id: str,
        start: datetime,
        end: datetime,
        conf: Mapping[str, Any] | None = None,
        at_once: int = 10,
    ) -> list[Run]:
        """Create a backfill, which creates its runs at once."""
        body = {
            "dag_id": dag_id,
            "from_date": start.isoformat(),
            "to_date": end.isoformat(),
            "dag_run_conf": dict(conf or {}),
            "max_active_runs": at_once,
        }
        self.call("POST", "backfills", body)
        return [run for run in self.runs(dag_id) if run.run_id.startswith("backfill")]


@dataclass(frozen=True)
class Try:
    """A task instance as it stands: its state, and which try that is."""

    task_id: str
    map_index: int
    state: str | None
    number: int


@dataclass(frozen=True)
class Run:
    """One DAG run."""

    api: AirflowApi
    dag_id: str
    run_id: str

    @property
    def _path(self) -> str:
        return f"dags/{self.dag_id}/dagRuns/{self.run_id}"

    def state(self) -> str:
        return str(self.api.call("GET", self._path)["state"])

    def wait(self, seconds: float = SECONDS) -> str:
        """The state in which the run ended, with every task instance settled."""

        def ended() -> bool:
            return self.state() in ENDED and all(one.state in SETTLED for one in self.tries())

        try:
            until(ended, f"the end of {self.run_id}", seconds)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; {self.states()}") from None
        return self.state()

    def ends(self, state: str, seconds: float = SECONDS) -> None:
        """Wait for the run's end, and expect it to end so; where not, say what its tasks said."""
        ended = self.wait(seconds)
        assert ended == state, self.explain(ended)

    def explain(self, ended: str) -> str:
        """The states of all tasks, and the last words of those that failed."""
        failed = [one for one in self.tries() if one.state == "failed"]
        words = [self.log((one.task_id, one.map_index), one.number)[-2000:] for one in failed]
        return "\n".join([f"{self.run_id} of {self.dag_id} is {ended}: {self.states()}", *words])

    def at(self, gate: Gate, seconds: float = SECONDS) -> int:
        """Wait until a task of the run stands at a gate, and return its process id."""

        def there() -> bool:
            state = self.state()
            assert gate.arrived or state not in ENDED, self.explain(state)
            return gate.arrived

        until(there, f"{self.run_id} at the gate {gate.name!r}", seconds)
        return gate.pid

    def tries(self) -> list[Try]:
        """Every task instance, mapped ones one by one."""
        found = self.api.call("GET", f"{self._path}/taskInstances", limit=100)["task_instances"]
        return [
            Try(one["task_id"], one["map_index"], one["state"], one["try_number"]) for one in found
        ]

    def states(self) -> dict[str, str | None]:
        """Each task's state; a mapped one is named `task[index]`."""
        return {_label(one): one.state for one in self.tries()}

    def numbers(self) -> dict[str, int]:
        """How often each task has been tried."""
        return {_label(one): one.number for one in self.tries()}

    def wait_for(self, task: Task, *states: str, seconds: float = SECONDS) -> str | None:
        """Wait until a task is in one of the states."""
        label = task if isinstance(task, str) else f"{task[0]}[{task[1]}]"

        def there() -> bool:
            return self.states().get(label) in states

        until(there, f"{label} of {self.run_id} to be {' or '.join(states)}", seconds)
        return self.states()[label]

    def mark(self, state: str) -> None:
        """Mark the run failed or success, as a user does."""
        self.api.call("PATCH", self._path, {"state": state})

    def mark_task(self, task: Task, state: str) -> None:
        name, index = task if isinstance(task, tuple) else (task, None)
        tail = name if index is None else f"{name}/{index}"
        self.api.call("PATCH", f"{self._path}/taskInstances/{tail}", {"new_state": state})

    def clear(self, *tasks: Task, only_failed: bool = False, downstream: bool = False) -> list[str]:
        """Clear the whole run or some of its tasks, and return which ones Airflow cleared."""
        body: dict[str, Any] = {
            "dry_run": False,
            "dag_run_id": self.run_id,
            "only_failed": only_failed,
            "include_downstream": downstream,
        }
        if tasks:
            body["task_ids"] = list(tasks)
        answer = self.api.call("POST", f"dags/{self.dag_id}/clearTaskInstances", body)
        return sorted(one["task_id"] for one in answer["task_instances"])

    def log(self, task: Task, number: int = 1) -> str:
        """What a try of a task logged, one message to a line."""
        name, index = task if isinstance(task, tuple) else (task, -1)
        path = f"{self._path}/taskInstances/{name}/logs/{number}"
        answer = self.api.call("GET", path, map_index=index, full_content=True)
        return "\n".join(_messages(answer["content"]))

    def xcom(self, task: Task, key: str = "return_value") -> Any:
        """What a task pushed."""
        name, index = task if isinstance(task, tuple) else (task, -1)
        path = f"{self._path}/taskInstances/{name}/xcomEntries/{key}"
        return self.api.call("GET", path, map_index=index, deserialize=False)["value"]


def _label(one: Try) -> str:
    return one.task_id if one.map_index < 0 else f"{one.task_id}[{one.map_index}]"


def _messages(content: list[Any]) -> Iterator[str]:
    for line in content:
        if isinstance(line, str):
            yield line
            continue
        yield line["event"]
        for error in line.get("error_detail") or ():
            yield f"{error['exc_type']}: {error['exc_value']}"
