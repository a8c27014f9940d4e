from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_provider_lancerefs.operators.branch import LanceCreateBranchOperator
from airflow_provider_lancerefs.operators.expire import LanceExpireBranchesOperator
from tests.airflow.operators.desk import Desk

pytestmark = pytest.mark.airflow


class TestExpire:
    """The sweep."""

    def test_twice_is_as_once(self, desk: Desk) -> None:
        """What is old is deleted; the second time it is not there."""
        desk.branch(2, name="run/old")
        desk.branch(2, name="other")
        first, second = desk.twice(
            LanceExpireBranchesOperator, older_than="0s", dataset=["orders", "items"]
        )
        assert [(one["dataset"], one["branch"], one["deleted"]) for one in first] == [
            ("orders", "run/old", True),
            ("items", "run/old", True),
        ]
        assert second == []
        assert desk.store.branch_names() == ["other"]

    def test_unfinished_runs(self, local_desk: Desk) -> None:
        """The branches of runs that are queued or running stay, whoever sweeps."""
        name = local_desk.do(LanceCreateBranchOperator)["branch"]
        run = local_desk.run
        run.unfinished.add((run.dag_id, run.run_id))
        (kept,) = local_desk.do(LanceExpireBranchesOperator, older_than=timedelta(0))
        assert kept == {
            "dataset": "orders",
            "branch": name,
            "deleted": False,
            "reason": f"the run {run.run_id} of {run.dag_id} is not over",
        }
        run.unfinished.clear()
        (gone,) = local_desk.do(LanceExpireBranchesOperator, older_than=timedelta(0))
        assert gone["deleted"]

    def test_report_only(self, local_desk: Desk) -> None:
        """It is said what would be deleted, and it stays."""
        local_desk.branch(2, name="run/old")
        first, second = local_desk.twice(
            LanceExpireBranchesOperator, older_than="0s", report_only=True
        )
        assert first == second
        assert (first[0]["branch"], first[0]["deleted"]) == ("run/old", False)
        assert local_desk.store.branch_names() == ["run/old"]

    def test_what_stays(self, local_desk: Desk) -> None:
        """Young, tagged and protected ones."""
        for name in ("run/tagged", "run/young"):
            local_desk.branch(2, name=name)
        local_desk.branch(2, name="run/guarded", metadata={"lancerefs.protected": "true"})
        local_desk.store.create_tag("v1", "branch:run/tagged")
        for age in ("0s", "1h"):
            swept = local_desk.do(LanceExpireBranchesOperator, older_than=age, pattern="run/[tg]*")
            assert not any(one["deleted"] for one in swept)
        assert not local_desk.do(LanceExpireBranchesOperator, older_than="1h")[2]["deleted"]
        assert len(local_desk.store.branch_names()) == 3
