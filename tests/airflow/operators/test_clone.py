from __future__ import annotations

import pytest

from airflow_provider_lancerefs.operators.clone import LanceShallowCloneOperator
from tests.airflow.operators.desk import Desk, refused

pytestmark = pytest.mark.airflow


class TestClone:
    """A dataset elsewhere that shares this one's files."""

    def test_twice_is_as_once(self, desk: Desk) -> None:
        """The source is pinned once, and the clone shows it."""
        first, second = desk.twice(LanceShallowCloneOperator, target="copy", revision="main@1")
        assert first == second
        assert first == {
            "dataset": "orders",
            "target": f"{desk.root.uri}/copy",
            "branch": "main",
            "version": 1,
        }
        assert desk.place("copy").values() == [1]
        assert len(desk.store.tag_names()) == 1

    def test_one_at_a_time(self, local_desk: Desk) -> None:
        """One target cannot be the clone of two datasets."""
        refused(local_desk, LanceShallowCloneOperator, target="copy", dataset=["orders", "items"])
