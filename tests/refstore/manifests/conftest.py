"""Tables to read manifests of."""

from __future__ import annotations

import pytest

from tests.refstore.manifests.tables import TABLES


@pytest.fixture(scope="session")
def uris(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where each of the tables stands, written once."""
    folder = tmp_path_factory.mktemp("manifests")
    return {name: made(str(folder / name)) for name, made in TABLES.items()}


@pytest.fixture(params=TABLES)
def uri(request: pytest.FixtureRequest, uris: dict[str, str]) -> str:
    return uris[request.param]
