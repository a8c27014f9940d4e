"""How the Airflow of the tests is set: all happens in seconds, nothing leaves the machine."""

from __future__ import annotations

import base64
import json
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
USER = "admin"
LEASE_SECONDS = 10  # how long a publisher that was killed is taken to be alive
HEARTBEAT_SECONDS = 20  # how long a worker that was killed with its supervisor is taken to be alive


@dataclass(frozen=True)
class Configuration:
    """Where one Airflow keeps its things, and how its components find each other."""

    home: Path
    port: int
    folders: Sequence[Path]
    database: str
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    password: str = field(default_factory=secrets.token_urlsafe, repr=False)
    secret: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)

    fernet_key: str = field(
        default_factory=lambda: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        repr=False,
    )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def passwords(self) -> Path:
        return self.home / "passwords.json"

    def prepare(self) -> None:
        """Write what the components read."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.passwords.write_text(json.dumps({USER: self.password}))
        self.passwords.chmod(0o600)

    def patience(self, component: str) -> dict[str, str]:
        """How long a component waits for a lock of sqlite's.

        The API server's event loop waits itself, also for requests that need the loop to end: the
        sooner it gives up the better. Nobody else gives up before it does.
        """
        if not self.database.startswith("sqlite"):
            return {}
        seconds = 3 if component == "api-server" else 60
        return {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"{self.database}?timeout={seconds}"}

    def environ(self) -> dict[str, str]:
        """Each component's environment; nothing of the caller's own Airflow or AWS is in it."""
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("AIRFLOW", "AWS"))
        }
        options = {
            f"AIRFLOW__{section.upper()}__{name.upper()}": str(value)
            for section, names in self._options().items()
            for name, value in names.items()
        }
        return {
            **inherited,
            **options,
            "AIRFLOW_HOME": str(self.home),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONUNBUFFERED": "1",
            "SPARK_LOCAL_IP": "127.0.0.1",
            **self.environment,
        }

    def _options(self) -> Mapping[str, Mapping[str, object]]:
        return {
            "core": {
                "auth_manager": "airflow.api_fastapi.auth.managers.simple"
                ".simple_auth_manager.SimpleAuthManager",
                "dags_are_paused_at_creation": False,
                "dags_folder": self.folders[0],
                "default_task_retry_delay": 1,
                "execution_api_server_url": f"{self.url}/execution/",
                "executor": "LocalExecutor",
                "fernet_key": self.fernet_key,
                "load_examples": False,
                "min_serialized_dag_update_interval": 0,
                "parallelism": 12,
                "simple_auth_manager_passwords_file": self.passwords,
                "simple_auth_manager_users": f"{USER}:admin",
            },
            "database": {"sql_alchemy_conn": self.database},
            "logging": {"colored_console_log": False},
            "usage_data_collection": {"enabled": False},
            "api": {
                "base_url": self.url,
                "host": "127.0.0.1",
                "port": self.port,
                "secret_key": self.secret,
                "workers": 1,
            },
            "api_auth": {"jwt_secret": self.secret},
            "dag_processor": {
                "bundle_refresh_check_interval": 1,
                "dag_bundle_config_list": json.dumps([_bundle(path) for path in self.folders]),
                "min_file_process_interval": 3600,  # no file changes while it runs
                "parsing_processes": 2,
                "refresh_interval": 3600,
            },
            "lancerefs": {"publish_lease": LEASE_SECONDS},
            "scheduler": {
                "job_heartbeat_sec": 2,
                "scheduler_heartbeat_sec": 2,
                "scheduler_idle_sleep_time": 0.3,
                "task_instance_heartbeat_timeout": HEARTBEAT_SECONDS,
                "task_instance_heartbeat_timeout_detection_interval": 1,
                "trigger_timeout_check_interval": 1,
            },
            "triggerer": {"job_heartbeat_sec": 2},
            "workers": {
                "execution_api_timeout": 30,
                "max_failed_heartbeats": 10,
                "min_heartbeat_interval": 1,
            },
        }


def _bundle(folder: Path) -> dict[str, object]:
    return {
        "name": folder.name,
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(folder)},
    }
