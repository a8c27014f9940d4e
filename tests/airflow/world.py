"""A real Airflow on free loopback ports, in a folder of its own."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.airflow.api import AirflowApi
from tests.airflow.components import Components, migrate, running
from tests.airflow.configuration import Configuration
from tests.airflow.waiting import until

START_SECONDS = 180


@dataclass(frozen=True)
class World:
    """A running Airflow, and a way to talk to it."""

    configuration: Configuration
    components: Components
    api: AirflowApi

    @property
    def home(self) -> Path:
        return self.configuration.home


@contextlib.contextmanager
def airflow_world(
    home: Path,
    folders: Sequence[Path],
    *,
    database: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[World]:
    """Start Airflow with the DAGs of some folders, and stop it afterwards.

    It stands on sqlite, unless another database is named. It is up once every component is healthy
    and every DAG file has been read without an error.
    """
    configuration = Configuration(
        home=home,
        port=_free_port(),
        folders=folders,
        database=database or f"sqlite:///{home / 'airflow.db'}?timeout=60",
        environment=environment or {},
    )
    configuration.prepare()
    migrate(configuration)
    api = AirflowApi(configuration.url, configuration.password)
    with contextlib.closing(api), running(configuration) as components:
        _wait_until_up(api, components)
        _wait_until_parsed(api, _dag_files(folders))
        yield World(configuration, components, api)


def _wait_until_up(api: AirflowApi, components: Components) -> None:
    def up() -> bool:
        components.check()
        return api.healthy()

    until(up, "a healthy Airflow", START_SECONDS)
    api.log_in()


def _wait_until_parsed(api: AirflowApi, files: set[Path]) -> None:
    def parsed() -> bool:
        errors = api.import_errors()
        if errors:
            raise RuntimeError("\n\n".join(f"{file}\n{why}" for file, why in errors.items()))
        dags = api.call("GET", "dags", limit=100)["dags"]
        return files <= {Path(dag["fileloc"]) for dag in dags}

    until(parsed, "every DAG file to be read", START_SECONDS)


def _dag_files(folders: Sequence[Path]) -> set[Path]:
    return {
        path for folder in folders for path in folder.glob("*.py") if "DAG(" in path.read_text()
    }


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
