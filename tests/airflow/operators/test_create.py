from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_lancerefs.assets import lance_asset
from airflow_provider_lancerefs.operators.branch import LanceCreateBranchOperator
from tests.airflow.contexts import Run
from tests.airflow.operators.desk import NOTED, Desk, held
from tests.tables import Place

pytestmark = pytest.mark.airflow


class TestCreate:
    """A branch for the run, or one by its name."""

    def test_a_branch_of_the_run(self, desk: Desk) -> None:
        """What is returned leads to the branch, and the branch says who made it."""
        made = desk.do(LanceCreateBranchOperator, task_id="make", metadata={"team": "red"})
        (name,) = desk.store.branch_names()
        assert made["branch"] == name
        assert name.startswith("run/a_dag-manual__2026-01-02T00-00-00-00-00-")
        one = made["datasets"]["orders"]
        branch = desk.store.branch(name)
        assert one["life"] == branch.life
        assert (one["base_version"], one["parent"]) == (1, "main")
        assert Place(one["uri"], desk.root.options).values() == [1]
        noted = {**NOTED, "airflow.task_id": "make", "team": "red"}
        assert noted.items() <= branch.metadata.items()

    def test_the_parts_that_others_pull(self, local_desk: Desk) -> None:
        """The name, and where to write, are XComs of their own."""
        made = local_desk.do(LanceCreateBranchOperator, task_id="make", dataset=["items", "orders"])
        pushed = {key: value for (_, _, key), value in local_desk.run.xcoms.items()}
        assert pushed["branch"] == f'"{made["branch"]}"'
        assert pushed["uri"] == f'"{made["datasets"]["items"]["uri"]}"'

    def test_each_life_has_a_name_and_the_older_ones_go(self, desk: Desk) -> None:
        """A retry makes another branch, so that what still writes to the first one is not seen."""
        first, second = desk.twice(LanceCreateBranchOperator)
        assert first["branch"] != second["branch"]
        assert first["branch"].rpartition("/")[0] == second["branch"].rpartition("/")[0]
        assert desk.store.branch_names() == [second["branch"]]

    def test_a_release_stays(self, local_desk: Desk) -> None:
        """An older life that was tagged is not deleted, nor is a protected one."""
        first = local_desk.do(LanceCreateBranchOperator)["branch"]
        local_desk.store.create_tag("v1", f"branch:{first}")
        second = local_desk.do(LanceCreateBranchOperator)["branch"]
        local_desk.store.set_metadata(
            local_desk.store.branch(second), {"lancerefs.protected": "true"}
        )
        third = local_desk.do(LanceCreateBranchOperator)["branch"]
        assert {*local_desk.store.branch_names()} == {first, second, third}

    def test_a_life_that_is_being_published_is_in_the_way(
        self, local_desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No new life begins beside it, for both would be published; a retry may find it over."""
        monkeypatch.setenv("AIRFLOW__LANCEREFS__PUBLISH_LEASE", "1")
        first = local_desk.do(LanceCreateBranchOperator)["branch"]
        local_desk.orders.branch(first).append(2)
        held(local_desk, first)
        with pytest.raises(Exception, match="publish") as error:
            local_desk.do(LanceCreateBranchOperator)
        assert not isinstance(error.value, AirflowFailException)
        assert local_desk.store.branch_names() == [first]

    def test_other_runs_are_left_alone(self, local_desk: Desk) -> None:
        """Only the same run's, of the same map index, are its earlier lives."""
        others = [Run("another"), Run(run_id="another")]
        names = [local_desk.do(LanceCreateBranchOperator, map_index=2)["branch"]]
        for other in others:
            names.append(
                Desk(local_desk.root, local_desk.conn_id, other).do(LanceCreateBranchOperator)[
                    "branch"
                ]
            )
        names.append(local_desk.do(LanceCreateBranchOperator)["branch"])
        assert {*local_desk.store.branch_names()} == {*names}
        assert len({*names}) == 4

    def test_an_explicit_name(self, desk: Desk) -> None:
        """A retry returns the branch that the first try made."""
        first, second = desk.twice(LanceCreateBranchOperator, branch="feature", source="main@1")
        assert first == second
        assert desk.store.branch_names() == ["feature"]

    def test_several_datasets(self, local_desk: Desk) -> None:
        """Each gets a branch of the same name, and the event of each asset says so."""
        assets = [lance_asset(one, local_desk.conn_id) for one in ("orders", "items")]
        made = local_desk.do(LanceCreateBranchOperator, dataset=["orders", "items"], outlets=assets)
        for place in (local_desk.orders, local_desk.items):
            assert place.store().branch_names() == [made["branch"]]
        assert local_desk.events() == {
            "orders": {"branch": made["branch"]},
            "items": {"branch": made["branch"]},
        }
