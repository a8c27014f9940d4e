"""Airflow connections to the places of the tests, as the environment gives them."""

from __future__ import annotations

import json
from collections.abc import Mapping


def variable(conn_id: str) -> str:
    """The environment variable that holds a connection."""
    return f"AIRFLOW_CONN_{conn_id.upper()}"


def connection(options: Mapping[str, str]) -> str:
    """A connection with pylance's storage options."""
    return json.dumps({"conn_type": "lancerefs", "extra": dict(options)})
