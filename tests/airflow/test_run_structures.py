"""What `lance_run` makes of a DAG: which tasks, in which order, and what Airflow keeps of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.airflow.releases import DagSerialization
from tests.airflow.run_bodies import (
    beside_each_other,
    dag_of,
    empty,
    group_inside,
    in_a_group,
    in_a_mapped_group,
    mapped_inside,
    neither,
    nested,
    plain,
    several,
    tag_only,
)

pytestmark = pytest.mark.airflow

STRUCTURES: list[tuple[Callable[[], None], dict[str, list[str]]]] = [
    (
        plain,
        {
            "create_branch": ["check", "discard_branch", "publish_branch", "work"],
            "work": ["check"],
            "check": ["publish_branch"],
            "publish_branch": ["discard_branch"],
            "discard_branch": [],
        },
    ),
    (
        several,
        {
            "create_branch": ["discard_branch", "publish_branch", "tag_branch", "work"],
            "work": ["publish_branch"],
            "publish_branch": ["tag_branch"],
            "tag_branch": ["discard_branch"],
            "discard_branch": [],
        },
    ),
    (
        in_a_group,
        {
            "group.create_branch": [
                "group.check",
                "group.discard_branch",
                "group.publish_branch",
                "group.work",
            ],
            "group.work": ["group.check"],
            "group.check": ["group.publish_branch"],
            "group.publish_branch": ["group.discard_branch"],
            "group.discard_branch": [],
        },
    ),
    (
        in_a_mapped_group,
        {
            "group.create_branch": ["group.discard_branch", "group.publish_branch", "group.work"],
            "group.work": ["group.publish_branch"],
            "group.publish_branch": ["group.discard_branch"],
            "group.discard_branch": [],
        },
    ),
    (
        mapped_inside,
        {
            "create_branch": ["discard_branch", "publish_branch", "work"],
            "work": ["check"],
            "check": ["publish_branch"],
            "publish_branch": ["discard_branch"],
            "discard_branch": [],
        },
    ),
    (
        group_inside,
        {
            "create_branch": ["discard_branch", "group.work", "publish_branch"],
            "group.work": ["group.check"],
            "group.check": ["publish_branch"],
            "publish_branch": ["discard_branch"],
            "discard_branch": [],
        },
    ),
    (
        nested,
        {
            "outer_create_branch": [
                "inner_create_branch",
                "outer_discard_branch",
                "outer_publish_branch",
                "work",
            ],
            "work": ["outer_publish_branch"],
            "inner_create_branch": ["check", "inner_discard_branch", "inner_publish_branch"],
            "check": ["inner_publish_branch"],
            "inner_publish_branch": ["inner_discard_branch", "outer_publish_branch"],
            "inner_discard_branch": ["outer_discard_branch"],
            "outer_publish_branch": ["outer_discard_branch"],
            "outer_discard_branch": [],
        },
    ),
    (
        beside_each_other,
        {
            f"{name}_{one}": [f"{name}_{other}" for other in others]
            for name in ("one", "two")
            for one, others in {
                "create_branch": ["discard_branch", "publish_branch", "work"],
                "work": ["publish_branch"],
                "publish_branch": ["discard_branch"],
                "discard_branch": [],
            }.items()
        },
    ),
    (
        tag_only,
        {
            "create_branch": ["discard_branch", "tag_branch", "work"],
            "work": ["tag_branch"],
            "tag_branch": ["discard_branch"],
            "discard_branch": [],
        },
    ),
    (
        neither,
        {
            "create_branch": ["discard_branch", "work"],
            "work": ["discard_branch"],
            "discard_branch": [],
        },
    ),
    (
        empty,
        {
            "create_branch": ["discard_branch", "publish_branch"],
            "publish_branch": ["discard_branch"],
            "discard_branch": [],
        },
    ),
]


def every_dag() -> Any:
    builds = [build for build, _ in STRUCTURES]
    return pytest.mark.parametrize("build", builds, ids=lambda build: build.__name__)


@pytest.mark.parametrize(
    ("build", "expected"), STRUCTURES, ids=[build.__name__ for build, _ in STRUCTURES]
)
def test_structure(build: Callable[[], None], expected: dict[str, list[str]]) -> None:
    """The tasks, and what comes after each."""
    dag = dag_of(build)
    assert {one.task_id: sorted(one.downstream_task_ids) for one in dag.tasks} == expected


@every_dag()
def test_setups_and_teardowns(build: Callable[[], None]) -> None:
    """Creating is a setup, discarding its teardown; whatever else there is, is neither."""
    for one in dag_of(build).tasks:
        assert one.is_setup == one.task_id.endswith("create_branch")
        assert one.is_teardown == one.task_id.endswith("discard_branch")
        if one.is_teardown:
            prefix = one.task_id.removesuffix("discard_branch")
            assert f"{prefix}create_branch" in one.upstream_task_ids


@every_dag()
def test_serialization(build: Callable[[], None]) -> None:
    """What Airflow keeps of the DAG is the same at each parse, and can be read again."""
    first, second = (DagSerialization.to_dict(dag_of(build)) for _ in range(2))
    assert json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
    assert " at 0x" not in json.dumps(first)
    there = DagSerialization.from_dict(first)
    assert {*there.task_ids} == {*dag_of(build).task_ids}
    for one in there.tasks:
        assert one.is_teardown == one.task_id.endswith("discard_branch")
