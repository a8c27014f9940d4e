from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.bases.operator import BaseOperator

from airflow_provider_lancerefs.operators.branch import LanceDeleteBranchOperator
from airflow_provider_lancerefs.operators.expire import LanceExpireBranchesOperator
from airflow_provider_lancerefs.operators.publish import LancePublishBranchOperator
from airflow_provider_lancerefs.operators.tag import LanceDeleteTagOperator, LanceTagOperator
from tests.airflow.operators.desk import Desk, refused, tree

pytestmark = pytest.mark.airflow

FLAGS = [
    (LanceDeleteBranchOperator, "force", {"branch": "work"}),
    (LanceDeleteBranchOperator, "unless_needed", {"branch": "kept"}),
    (LanceDeleteBranchOperator, "keep_on_failure", {"branch": "work", "expect": "published"}),
    (LanceTagOperator, "move", {"tag": "v1"}),
    (LanceTagOperator, "protected", {"tag": "v2"}),
    (LanceDeleteTagOperator, "force", {"tag": "v1"}),
    (LanceExpireBranchesOperator, "report_only", {"pattern": "none"}),
    (LancePublishBranchOperator, "optimize_indices", {"branch": "work"}),
]


class TestFlags:
    """What a template makes of a flag is text, and 'False' must not mean yes."""

    @pytest.mark.parametrize(("kind", "flag", "arguments"), FLAGS)
    def test_text_is_read(
        self, local_desk: Desk, kind: type[BaseOperator], flag: str, arguments: dict[str, Any]
    ) -> None:
        """Either word is understood however it is written, and any other one is refused."""
        for text, meant in (("{{ 1 == 2 }}", False), ("{{ 1 == 1 }}", True), ("true", True)):
            task = local_desk.task(kind, **arguments, **{flag: text})
            task.render_template_fields({})  # type: ignore[arg-type]
            assert task.is_on(flag) is meant  # type: ignore[attr-defined]

    def test_false_is_no(self, local_desk: Desk) -> None:
        """A protected branch survives a force that was rendered as 'False'."""
        local_desk.branch(2, metadata={"lancerefs.protected": "true"})
        refused(local_desk, LanceDeleteBranchOperator, branch="work", force="{{ 1 == 2 }}")
        assert local_desk.store.branch_names() == ["work"]

    @pytest.mark.parametrize(("kind", "flag", "arguments"), FLAGS)
    def test_another_word(
        self, local_desk: Desk, kind: type[BaseOperator], flag: str, arguments: dict[str, Any]
    ) -> None:
        """It changes nothing."""
        local_desk.branch(2)
        local_desk.store.create_branch("kept")
        local_desk.store.create_tag("v1", "branch:kept")
        before = tree(local_desk)
        sentence = refused(local_desk, kind, **arguments, **{flag: "perhaps"})
        assert sentence == f"{flag} is true or false, not 'perhaps'."
        assert tree(local_desk) == before
