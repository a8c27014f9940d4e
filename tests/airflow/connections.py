"""Airflow connections to the places of the tests, as the environment gives them."""

from __future__ import annotations

import json
from collections.abc import Mapping


def variable(conn_id: str) -> str:
    """The environment variable that holds a connection."""
    return f"AIRFLOW_CONN_{conn_id.upper()}"


def connection(options: Mapping[str, str]) -> str:
    """A connection without a root, and with the keys of pylance's storage options."""
    extra = {"endpoint": "aws_endpoint", "region": "aws_region", "allow_http": "allow_http"}
    return json.dumps(
        {
            "conn_type": "lancerefs",
            "login": options.get("aws_access_key_id"),
            "password": options.get("aws_secret_access_key"),
            "extra": {key: options[name] for key, name in extra.items() if name in options},
        }
    )
