"""One row of the state table: a dataset of its own, runs that write to it, and what is left."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.airflow.api import Run
from tests.airflow.gates import Gates
from tests.airflow.observing import Observer, findings, leftovers, sweep, watching
from tests.airflow.stops import stops
from tests.airflow.world import World
from tests.tables import Place


@dataclass
class Row:
    """A dataset that someone watches, and the runs that were started on it."""

    airflow: World
    gates: Gates
    place: Place
    dataset: str
    conn_id: str = "lancerefs_default"

    def conf(self, number: int | None, **rest: Any) -> dict[str, Any]:
        """A run's conf: where it writes, and which rows."""
        return {"dataset": self.dataset, "conn_id": self.conn_id, "number": number, **rest}

    def trigger(
        self,
        dag_id: str = "row",
        number: int = 1,
        *,
        hold: tuple[str, ...] = (),
        failing: Mapping[str, int] | None = None,
        stop: Mapping[str, int | str] | None = None,
        gates: Gates | None = None,
        **rest: Any,
    ) -> Run:
        """Start a run that holds at gates, fails in some tries, or stops inside operators."""
        conf = {
            **self.conf(number, failing=dict(failing or {}), **rest),
            **(gates or self.gates).holding(*hold),
            **stops(self.place.uri, **(stop or {})),
        }
        return self.airflow.api.trigger(dag_id, conf)

    @contextlib.contextmanager
    def watched(self, writers: int = 1) -> Iterator[Observer]:
        """Watch main while this lasts; afterwards sweep once, and expect nothing left."""
        with watching(self.place, writers) as observer:
            yield observer
        sweep(self.place)
        assert leftovers(self.place) == []
        assert findings(self.place) == []
