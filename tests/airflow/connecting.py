"""Connections of the provider's own type, which the environment gives a test."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.services.seaweed import BUCKET, S3Server

Connect = Callable[..., str]


def connector(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Makes a connection of the fields it is given, and returns its id."""

    def connect(**fields: Any) -> str:
        conn_id = f"lancerefs_{uuid.uuid4().hex}"
        value = json.dumps({"conn_type": "lancerefs", **fields})
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", value)
        return conn_id

    return connect


def keys_of(server: S3Server) -> dict[str, Any]:
    """The fields with which the tests' S3 server lets everybody in."""
    extra = {"endpoint": f"http://127.0.0.1:{server.port}", "allow_http": True}
    return {
        "login": server.access_key,
        "password": server.secret_key,
        "extra": {**extra, "region": "us-east-1"},
    }


def s3_connection(connect: Connect, server: S3Server, root: str = f"s3://{BUCKET}/x") -> str:
    """A connection to a root on that server."""
    return connect(host=root, **keys_of(server))
