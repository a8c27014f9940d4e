"""The table's main rows on sqlite, on which Airflow stands where nothing else is installed."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tests.airflow.conftest import DAGS
from tests.airflow.gates import Gates
from tests.airflow.marks import REAL_AIRFLOW
from tests.airflow.processes import kill_worker
from tests.airflow.row import Row
from tests.airflow.tables import SEED
from tests.airflow.world import World, airflow_world
from tests.tables import Place

pytestmark = REAL_AIRFLOW


def test_on_sqlite(tmp_path: Path) -> None:
    """A good run, a bad one and one whose worker is killed end as they do elsewhere."""
    with contextlib.ExitStack() as stack:
        world = stack.enter_context(airflow_world(tmp_path / "airflow", [DAGS]))
        assert world.on_sqlite
        rows = [_row(world, tmp_path / name) for name in ("good", "bad", "killed")]
        seen = [stack.enter_context(row.watched()) for row in rows]
        good, bad, killed = rows
        runs = [
            good.trigger(),
            bad.trigger(failing={"write_0": 9}),
            killed.trigger(hold=("write_0",)),
        ]
        kill_worker(runs[2].at(killed.gates["write_0"]))
        killed.gates["write_0"].open()
        for run, state in zip(runs, ("success", "failed", "success"), strict=True):
            run.ends(state)
    assert [observer.runs for observer in seen] == [{1: 1}, {}, {1: 1}]


def _row(world: World, folder: Path) -> Row:
    gates = Gates(folder / "gates")
    gates.folder.mkdir(parents=True)
    place = Place(str(folder / "orders.lance")).create(SEED)
    return Row(world, gates, place, place.uri)
