from __future__ import annotations

from pathlib import Path

import pytest

from tests.airflow.releases import since
from tests.bench.sensors_stage import CONN_ID, Triggerer
from tests.tables import Place

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.slow,
    since(3, 3, what="store of a watcher's state"),
]


def test_a_watcher_takes_up_where_it_was_in_a_triggerer(tmp_path: Path, local_place: Place) -> None:
    """What Airflow keeps for it tells what is new after a restart, and what was told before."""
    store = local_place.create().store()
    store.create_tag("v0", "main")
    watcher = {
        "path": "airflow_provider_lancerefs.triggers.refs.LanceTagWatchTrigger",
        "kwargs": {
            "dataset": local_place.uri,
            "pattern": "v*",
            "lancerefs_conn_id": CONN_ID,
            "poke_interval": 0.5,
        },
        "asset": "watched",
    }

    def triggerer() -> Triggerer:
        return Triggerer(tmp_path / "home", {}, [watcher])

    with triggerer() as first:
        first.wait(lambda: first.kept == 1)
        store.create_tag("v1", "main")
        first.wait(lambda: first.kept == 2)
        assert first.tags(0) == ["v1"]
    store.create_tag("v2", "main")
    with triggerer() as second:
        second.wait(lambda: second.kept == 1)
        assert second.tags(0) == ["v2"]
    assert [first.failures(), second.failures()] == [[], []]
