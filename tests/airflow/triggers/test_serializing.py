from __future__ import annotations

import inspect
import json

import pytest
from airflow.triggers.base import BaseTrigger

from airflow_provider_lancerefs.triggers.refs import (
    LanceBranchTrigger,
    LanceTagTrigger,
    LanceTagWatchTrigger,
)
from tests.airflow.triggers.asking import Arguments

pytestmark = pytest.mark.airflow

EVERY_ARGUMENT: list[tuple[type[BaseTrigger], Arguments]] = [
    (LanceTagTrigger, {"dataset": "a", "tag": "v1", "pattern": "v*", "min_version": 3}),
    (
        LanceBranchTrigger,
        {
            "dataset": "a",
            "branch": "b",
            "until": "published",
            "after_version": 3,
            "seen": {"parent": "main", "parent_version": 1, "identifier": [[1, "00"]]},
        },
    ),
    (LanceTagWatchTrigger, {"dataset": "a", "pattern": "v*"}),
]


@pytest.mark.parametrize(("trigger_class", "given"), EVERY_ARGUMENT, ids=["tag", "branch", "watch"])
def test_a_trigger_comes_back_as_it_was(trigger_class: type[BaseTrigger], given: Arguments) -> None:
    """What is serialised is every argument, in plain JSON, and makes the same trigger."""
    trigger = trigger_class(**given, lancerefs_conn_id="c", poke_interval=7.0)
    path, kwargs = trigger.serialize()
    assert path == f"{trigger_class.__module__}.{trigger_class.__qualname__}"
    assert kwargs == {**given, "lancerefs_conn_id": "c", "poke_interval": 7.0}
    assert set(kwargs) == set(inspect.signature(trigger_class).parameters)
    assert trigger_class(**json.loads(json.dumps(kwargs))).serialize() == (path, kwargs)
