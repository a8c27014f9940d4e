"""Desks to put operators to work on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.airflow.connecting import Connect, keys_of
from tests.airflow.operators.desk import Desk
from tests.services.seaweed import S3Server
from tests.tables import Place


@pytest.fixture
def desk(place: Place, connect: Connect, request: pytest.FixtureRequest) -> Desk:
    """The same on local disk and on S3."""
    fields: dict[str, Any] = {}
    if place.options:
        server: S3Server = request.getfixturevalue("s3")
        fields = keys_of(server)
    found = Desk(place, connect(host=place.uri, **fields))
    found.orders.create([1])
    found.items.create([1])
    return found


@pytest.fixture
def local_desk(local_place: Place, connect: Connect) -> Desk:
    """One on local disk alone, for what does not depend on the store."""
    found = Desk(local_place, connect(host=local_place.uri))
    found.orders.create([1])
    found.items.create([1])
    return found
