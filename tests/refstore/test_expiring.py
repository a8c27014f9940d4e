from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_provider_lancerefs.refstore import InvalidInputError
from tests.tables import Place

NO_TIME = timedelta(0)


class TestExpire:
    def test_only_old_and_free_branches_go(self, place: Place) -> None:
        """Matching branches that nothing needs go; the others stay, each with its reason."""
        place.create([1])
        store = place.store()
        for name in ("run/free", "run/tagged", "run/parent", "other"):
            store.create_branch(name)
        store.create_branch("run/kept", metadata={"lancerefs.protected": "true"})
        store.create_branch("child", "branch:run/parent")
        store.create_tag("v1", "branch:run/tagged")
        tried = store.expire_branches("run/*", NO_TIME, dry_run=True)
        assert {one.branch: one.due for one in tried} == {
            "run/free": True,
            "run/kept": False,
            "run/parent": False,
            "run/tagged": False,
        }
        assert len(store.branch_names()) == 6
        swept = store.expire_branches("run/*", NO_TIME)
        assert [one.branch for one in swept if one.deleted] == ["run/free"]
        assert {one.branch: one.reason for one in swept if not one.deleted} == {
            "run/kept": "protected",
            "run/parent": "needed by branch 'child'",
            "run/tagged": "needed by tag 'v1'",
        }
        assert store.branch_names() == ["child", "other", "run/kept", "run/parent", "run/tagged"]
        assert store.check().clean

    def test_young_branches_stay(self, place: Place) -> None:
        """A branch that was written to lately is not swept."""
        place.create([1])
        store = place.store()
        store.create_branch("a")
        (kept,) = store.expire_branches("*", timedelta(hours=1))
        assert (kept.due, kept.reason) == (False, "too young")

    @pytest.mark.parametrize(("pattern", "age"), [("", NO_TIME), ("*", -timedelta(days=1))])
    def test_nonsense_is_refused(self, place: Place, pattern: str, age: timedelta) -> None:
        """An empty pattern or a negative age sweeps nothing."""
        place.create([1])
        with pytest.raises(InvalidInputError):
            place.store().expire_branches(pattern, age)
