from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_lancerefs.operators.branch import (
    LanceCreateBranchOperator,
    LanceDeleteBranchOperator,
)
from airflow_provider_lancerefs.operators.publish import LancePublishBranchOperator
from airflow_provider_lancerefs.operators.tag import LanceTagOperator
from tests.airflow.operators.desk import Desk, refused

pytestmark = pytest.mark.airflow


class TestDelete:
    """The end of a branch, as a plain task and as the guard of a run."""

    def test_twice_is_as_once(self, desk: Desk) -> None:
        """One that is gone is no error."""
        desk.branch(2)
        first, second = desk.twice(LanceDeleteBranchOperator, branch="work")
        assert first == second == {"branch": "work", "datasets": ["orders"]}
        assert desk.store.branch_names() == []

    def test_unpublished(self, desk: Desk) -> None:
        """It is discarded, and then the run has failed, at the second time as well."""
        setup = desk.task(LanceCreateBranchOperator, task_id="setup")
        name = desk.run.execute(setup)["branch"]
        desk.orders.branch(name).append(2)
        guard = desk.task(LanceDeleteBranchOperator, branch=name, expect="published")
        guard.set_upstream(setup)
        for _ in range(2):
            with pytest.raises(AirflowFailException, match="was not published, and was discarded"):
                desk.run.execute(guard)
            assert desk.store.branch_names() == []
        assert desk.orders.values() == [1]

    def test_published(self, desk: Desk) -> None:
        """It has ended well, also when the first try deleted it and died."""
        setup = desk.task(LanceCreateBranchOperator, task_id="setup")
        name = desk.run.execute(setup)["branch"]
        desk.orders.branch(name).append(2)
        desk.do(LancePublishBranchOperator, branch=name)
        guard = desk.task(LanceDeleteBranchOperator, branch=name, expect="published")
        guard.set_upstream(setup)
        assert desk.run.execute(guard) == desk.run.execute(guard)
        assert desk.store.branch_names() == []
        assert desk.orders.values() == [1, 2]

    @pytest.mark.parametrize("tag", [None, "v1"])
    def test_nothing_to_publish_is_published(self, local_desk: Desk, tag: str | None) -> None:
        """A publish that found nothing to do has done what was expected, also for a second try."""
        setup = local_desk.task(LanceCreateBranchOperator, task_id="setup")
        name = local_desk.run.execute(setup)["branch"]
        publish = local_desk.task(LancePublishBranchOperator, branch=name)
        local_desk.run.execute(publish)
        if tag:
            local_desk.do(LanceTagOperator, tag=tag)
        guard = local_desk.task(
            LanceDeleteBranchOperator, branch=name, expect="published", expect_tag=tag
        )
        guard.set_upstream([setup, publish])
        assert local_desk.run.execute(guard) == local_desk.run.execute(guard)
        assert local_desk.store.branch_names() == []
        if tag:
            local_desk.store.delete_tag(tag)
            with pytest.raises(AirflowFailException, match="and tagged as 'v1'"):
                local_desk.run.execute(guard)

    @pytest.mark.parametrize("published", [False, True])
    def test_keep_on_failure(self, local_desk: Desk, published: bool) -> None:
        """What was not published stays for a look; what was does not."""
        local_desk.branch(2)
        arguments = {"branch": "work", "expect": "published", "keep_on_failure": True}
        if published:
            local_desk.do(LancePublishBranchOperator, branch="work")
            local_desk.do(LanceDeleteBranchOperator, **arguments)
        else:
            sentence = refused(local_desk, LanceDeleteBranchOperator, **arguments)
            assert "left for a look" in sentence
        assert local_desk.store.branch_names() == ([] if published else ["work"])

    def test_tagged(self, desk: Desk) -> None:
        """A branch that is a release stays, and that is what was expected."""
        desk.branch(2)
        sentence = refused(
            desk, LanceDeleteBranchOperator, branch="work", expect="tagged", keep_on_failure=True
        )
        assert "was not tagged" in sentence
        desk.do(LanceTagOperator, tag="v1", branch="work")
        first, second = desk.twice(LanceDeleteBranchOperator, branch="work", expect="tagged")
        assert first == second
        assert desk.store.branch_names() == ["work"]

    def test_untagged(self, local_desk: Desk) -> None:
        """One that should have been tagged and was not is discarded."""
        local_desk.branch(2)
        assert "was not tagged, and was discarded" in refused(
            local_desk, LanceDeleteBranchOperator, branch="work", expect="tagged"
        )
        assert local_desk.store.branch_names() == []

    def test_a_child_is_no_tag(self, local_desk: Desk) -> None:
        """A branch that stays for another one's sake was not tagged by that."""
        local_desk.branch(2)
        local_desk.store.create_branch("child", "branch:work")
        refused(local_desk, LanceDeleteBranchOperator, branch="work", expect="tagged")
        assert local_desk.store.branch_names() == ["child", "work"]

    @pytest.mark.parametrize("tagged", ["not", "elsewhere", "there", "later"])
    def test_published_and_tagged(self, local_desk: Desk, tagged: str) -> None:
        """A run that should have made a release has not, if it did not come to its tag."""
        local_desk.branch(2)
        local_desk.do(LancePublishBranchOperator, branch="work")
        if tagged != "not":
            revision = "main@1" if tagged == "elsewhere" else "main"
            if tagged == "later":
                local_desk.orders.append(3)
            local_desk.do(LanceTagOperator, tag="v1", revision=revision)
        arguments = {"branch": "work", "expect": "published", "expect_tag": "v1"}
        if tagged in ("there", "later"):
            local_desk.do(LanceDeleteBranchOperator, **arguments)
        else:
            sentence = refused(local_desk, LanceDeleteBranchOperator, **arguments)
            assert "was not published and tagged as 'v1'" in sentence
        assert local_desk.store.branch_names() == []

    def test_gone_and_never_there(self, local_desk: Desk) -> None:
        """Where nobody knows of the branch, it was not published."""
        refused(local_desk, LanceDeleteBranchOperator, branch="work", expect="published")
        local_desk.do(LanceDeleteBranchOperator, branch="work")

    def test_one_that_is_needed(self, local_desk: Desk) -> None:
        """A tag keeps it from being deleted, which is an error unless it may be."""
        local_desk.branch(2)
        local_desk.store.create_tag("v1", "branch:work")
        assert "v1" in refused(local_desk, LanceDeleteBranchOperator, branch="work")
        local_desk.do(LanceDeleteBranchOperator, branch="work", unless_needed=True)
        assert local_desk.store.branch_names() == ["work"]

    def test_one_that_is_protected(self, local_desk: Desk) -> None:
        """Only force deletes it."""
        local_desk.branch(2, metadata={"lancerefs.protected": "true"})
        refused(local_desk, LanceDeleteBranchOperator, branch="work", unless_needed=True)
        local_desk.do(LanceDeleteBranchOperator, branch="work", force=True)
        assert local_desk.store.branch_names() == []

    def test_several_datasets(self, local_desk: Desk) -> None:
        """Each is deleted before it is said which was not published."""
        local_desk.branch(2)
        local_desk.do(LancePublishBranchOperator, branch="work", dataset="items")
        sentence = refused(
            local_desk,
            LanceDeleteBranchOperator,
            branch="work",
            dataset=["orders", "items"],
            expect="published",
        )
        assert "of orders was not published" in sentence
        assert not local_desk.store.branch_names()
        assert not local_desk.items.store().branch_names()
