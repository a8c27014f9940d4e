"""Places without a dataset."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_lancerefs.refstore import (
    ConflictError,
    DatasetNotFoundError,
    NotFoundError,
    Version,
)
from tests.refstore.bad_input.expecting import (
    Table,
    contents,
    error_of,
)
from tests.tables import Place


@pytest.fixture(
    params=["nothing", "empty folder", "file", "memory", pytest.param("s3", marks=pytest.mark.s3)]
)
def missing(request: pytest.FixtureRequest, local_place: Place) -> Place:
    """A place where no dataset stands."""
    path = Path(local_place.uri)
    if request.param == "empty folder":
        path.mkdir()
    elif request.param == "file":
        path.write_text("no dataset")
    elif request.param == "memory":
        return Place(f"memory://missing/{path.parent.name}")
    elif request.param == "s3":
        chosen: Place = request.getfixturevalue("s3_place")
        return chosen
    return local_place


def test_missing_datasets(missing: Place, local_place: Place, tmp_path: Path) -> None:
    """Where no dataset stands, what needs one says so, nothing is listed, and nothing is made."""
    table = Table.make(Place(str(tmp_path / "another")))
    store = missing.store()
    target = str(tmp_path / "target")
    before = contents(local_place)
    for call in (
        lambda: store.resolve("main"),
        store.files,
        store.manifest,
        store.check,
        lambda: store.check(repair=True),
        lambda: store.create_branch("new"),
        lambda: store.create_tag("new", "main"),
        lambda: store.shallow_clone(target),
        lambda: store.relocate(target),
    ):
        error = error_of(call)
        assert isinstance(error, DatasetNotFoundError)
        assert str(error) == f"There is no Lance dataset at {missing.uri}."
    for call in (
        lambda: store.branch("b"),
        lambda: store.tag("t"),
        lambda: store.resolve("branch:b"),
        lambda: store.resolve("tag:t"),
        lambda: store.resolve("main@1"),
        lambda: store.delete_branch("b"),
        lambda: store.delete_tag("t"),
        lambda: store.create_tag("new", Version("main", 1, 400)),
        lambda: store.move_tag(table.tag, Version("main", 1, 400)),
        lambda: store.set_metadata(table.tag, {"k": "v"}),
        lambda: store.set_metadata(table.branch, {"k": "v"}),
    ):
        assert isinstance(error_of(call), NotFoundError | ConflictError)
    assert store.branches() == store.tags() == []
    assert store.expire_branches("*", timedelta(0)) == []
    assert store.delete_branch("b", missing_ok=True) is False
    assert store.delete_tag("t", missing_ok=True) is False
    assert contents(local_place) == before
