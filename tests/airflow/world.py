"""A real Airflow on free loopback ports, in a folder of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tests.airflow.api import AirflowApi, healthy
from tests.airflow.components import Components, migrate, running
from tests.airflow.configuration import Configuration
from tests.airflow.waiting import until
from tests.services.ports import free_ports

START_SECONDS = 180


@dataclass(frozen=True)
class World:
    """A running Airflow, and a way to talk to it.

    Every process of it belongs to one of `sessions`.
    """

    home: Path
    url: str
    password: str = field(repr=False)
    sessions: frozenset[int]
    database: str = field(repr=False)

    @property
    def on_sqlite(self) -> bool:
        return self.database.startswith("sqlite")

    @cached_property
    def api(self) -> AirflowApi:
        api = AirflowApi(self.url, self.password)
        api.log_in()
        return api


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
        port=free_ports(1)[0],
        folders=folders,
        database=database or f"sqlite:///{home / 'airflow.db'}",
        environment=environment or {},
    )
    configuration.prepare()
    migrate(configuration)
    with running(configuration) as components:
        _wait_until_up(components, configuration.url)
        world = World(
            home,
            configuration.url,
            configuration.password,
            components.sessions,
            configuration.database,
        )
        with contextlib.closing(world.api):
            _wait_until_parsed(world.api, _dag_files(folders))
            yield world


def _wait_until_up(components: Components, url: str) -> None:
    def up() -> bool:
        components.check()
        return healthy(url)

    until(up, "a healthy Airflow", START_SECONDS)


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
