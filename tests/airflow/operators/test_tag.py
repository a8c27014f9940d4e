from __future__ import annotations

import pytest

from airflow_provider_lancerefs.assets import lance_asset
from airflow_provider_lancerefs.operators.publish import LancePublishBranchOperator
from airflow_provider_lancerefs.operators.tag import LanceDeleteTagOperator, LanceTagOperator
from airflow_provider_lancerefs.refstore.errors import RefNotFoundError
from tests.airflow.operators.desk import NOTED, Desk, refused

pytestmark = pytest.mark.airflow


class TestTag:
    """Names for versions."""

    def test_create(self, desk: Desk) -> None:
        """Twice is as once, and the tag says who made it."""
        first, second = desk.twice(LanceTagOperator, tag="v1", task_id="name", metadata={"a": "b"})
        assert first == second
        assert first == {"tag": "v1", "datasets": {"orders": {"branch": "main", "version": 1}}}
        noted = {**NOTED, "airflow.task_id": "name", "a": "b"}
        assert noted.items() <= desk.store.tag("v1").metadata.items()

    def test_another_version(self, desk: Desk) -> None:
        """It is an error, unless the tag may move; then its metadata is the mover's."""
        desk.do(LanceTagOperator, tag="v1")
        desk.orders.append(2)
        assert "v1" in refused(desk, LanceTagOperator, tag="v1")
        first, second = desk.twice(LanceTagOperator, tag="v1", move=True, task_id="mover")
        assert first == second
        assert first["datasets"]["orders"]["version"] == 2
        assert desk.store.tag("v1").metadata["airflow.task_id"] == "mover"

    def test_protected(self, local_desk: Desk) -> None:
        """Only force moves it."""
        local_desk.do(LanceTagOperator, tag="v1", protected=True)
        local_desk.orders.append(2)
        refused(local_desk, LanceTagOperator, tag="v1", move=True)
        assert local_desk.store.tag("v1").version == 1
        local_desk.do(LanceTagOperator, tag="v1", move=True, force=True)
        assert local_desk.store.tag("v1").version == 2
        assert local_desk.store.tag("v1").protected

    @pytest.mark.parametrize("version", [1, 2])
    def test_one_that_stands_is_protected(self, local_desk: Desk, version: int) -> None:
        """A tag that was there without protection is protected if that is asked for."""
        local_desk.orders.append(2)
        local_desk.do(LanceTagOperator, tag="v1", revision=f"main@{version}")
        local_desk.do(LanceTagOperator, tag="v1", move=True, protected=True)
        assert local_desk.store.tag("v1").protected

    def test_a_published_branch(self, desk: Desk) -> None:
        """The tag names the version that published it, although main went on, and it is gone."""
        desk.branch(2)
        version = desk.do(LancePublishBranchOperator, branch="work")["datasets"]["orders"][
            "version"
        ]
        desk.orders.append(9)
        done = desk.do(LanceTagOperator, tag="v1", branch="work")
        assert done["datasets"]["orders"] == {"branch": "main", "version": version}

    def test_an_unpublished_branch(self, local_desk: Desk) -> None:
        """The tag names the branch's own newest version."""
        local_desk.branch(2)
        done = local_desk.do(LanceTagOperator, tag="v1", branch="work")
        assert done["datasets"]["orders"]["branch"] == "work"

    def test_a_branch_with_nothing_to_publish(self, local_desk: Desk) -> None:
        """The tag names what of main was the same as the branch."""
        local_desk.branch()
        local_desk.do(LancePublishBranchOperator, branch="work")
        local_desk.orders.append(9)
        done = local_desk.do(LanceTagOperator, tag="v1", branch="work")
        assert done["datasets"]["orders"] == {"branch": "main", "version": 1}

    def test_published_after_there_was_nothing(self, local_desk: Desk) -> None:
        """What was noted of a publish that had nothing to do does not hide a later one."""
        local_desk.branch()
        local_desk.do(LancePublishBranchOperator, branch="work")
        local_desk.orders.branch("work").append(2)
        done = local_desk.do(LancePublishBranchOperator, branch="work")
        tagged = local_desk.do(LanceTagOperator, tag="v1", branch="work")
        assert tagged["datasets"]["orders"]["version"] == done["datasets"]["orders"]["version"]

    def test_events(self, local_desk: Desk) -> None:
        """They carry tag, branch and version."""
        local_desk.do(
            LanceTagOperator, tag="v1", outlets=[lance_asset("orders", local_desk.conn_id)]
        )
        assert local_desk.events() == {"orders": {"tag": "v1", "branch": "main", "version": 1}}

    def test_delete(self, desk: Desk) -> None:
        """Twice is no error; the second time nobody had it."""
        desk.do(LanceTagOperator, tag="v1")
        first, second = desk.twice(LanceDeleteTagOperator, tag="v1", dataset=["orders", "items"])
        assert first == {"tag": "v1", "datasets": ["orders"]}
        assert second == {"tag": "v1", "datasets": []}
        with pytest.raises(RefNotFoundError):
            desk.store.tag("v1")

    def test_delete_a_protected_one(self, local_desk: Desk) -> None:
        """Only force deletes it."""
        local_desk.do(LanceTagOperator, tag="v1", protected=True)
        refused(local_desk, LanceDeleteTagOperator, tag="v1")
        local_desk.do(LanceDeleteTagOperator, tag="v1", force=True)
        assert local_desk.store.tag_names() == []
