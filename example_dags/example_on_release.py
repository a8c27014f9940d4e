"""A consumer that runs whenever a release is made or moved, with nobody waiting in between."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task
from orders import DATASET

from airflow_provider_lancerefs.assets import asset_uri
from airflow_provider_lancerefs.triggers.refs import LanceTagWatchTrigger

RELEASES = Asset(
    name="releases of orders",
    uri=f"{asset_uri(DATASET)}/releases",
    watchers=[
        AssetWatcher(
            name="tags of orders",
            trigger=LanceTagWatchTrigger(dataset=DATASET, pattern="release-*"),
        )
    ],
)


@task
def react(triggering_asset_events: Any = None) -> list[str]:
    """One run may stand for several releases: look at each."""
    events = (triggering_asset_events or {}).get(RELEASES, [])
    return [event.extra["payload"]["tag"] for event in events]


with DAG("example_lance_on_release", schedule=[RELEASES], catchup=False, tags=["example", "lance"]):
    react()
