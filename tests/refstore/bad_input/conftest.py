"""Tables to call with bad input."""

from __future__ import annotations

import pytest

from tests.refstore.bad_input.expecting import (
    Table,
)
from tests.tables import Place


@pytest.fixture
def table(place: Place) -> Table:
    return Table.make(place)


@pytest.fixture
def local_table(local_place: Place) -> Table:
    return Table.make(local_place)


@pytest.fixture
def s3_table(s3_place: Place) -> Table:
    return Table.make(s3_place)
