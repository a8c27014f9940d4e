from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.services.proxy import S3Proxy
from tests.services.seaweed import BUCKET, S3Server, s3_server
from tests.tables import Place

settings.register_profile(
    "default", max_examples=100, deadline=None, derandomize=True, database=None
)
settings.register_profile("nightly", max_examples=5_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """A real S3 server."""
    with s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3_proxy(s3: S3Server) -> Iterator[S3Proxy]:
    """A proxy in front of it that counts, delays and breaks requests."""
    with S3Proxy(s3.port) as proxy:
        yield proxy


@pytest.fixture
def local_place(tmp_path: Path) -> Place:
    """A fresh place on local disk; nothing stands there yet."""
    return Place(str(tmp_path / "table"))


@pytest.fixture
def s3_place(s3: S3Server, s3_proxy: S3Proxy) -> Place:
    """A fresh place on S3, reached through the proxy."""
    return Place(f"s3://{BUCKET}/{uuid.uuid4().hex}", s3.storage_options(s3_proxy.port))


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def place(request: pytest.FixtureRequest) -> Place:
    """A fresh place, once on local disk and once on S3."""
    chosen: Place = request.getfixturevalue(f"{request.param}_place")
    return chosen
