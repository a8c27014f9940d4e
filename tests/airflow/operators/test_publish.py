from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import Asset, AssetAlias

from airflow_provider_lancerefs.assets import asset_uri, lance_asset
from airflow_provider_lancerefs.operators.publish import LancePublishBranchOperator
from tests.airflow.operators.desk import NOTED, Desk, held, refused

pytestmark = pytest.mark.airflow


class TestPublish:
    """What a branch holds becomes its parent's, once."""

    def test_twice_is_as_once(self, desk: Desk) -> None:
        """The second time it is said to have been done already, as the same version."""
        desk.branch(2, 3)
        first, second = desk.twice(LancePublishBranchOperator, branch="work", message="a message")
        one, other = first["datasets"]["orders"], second["datasets"]["orders"]
        assert desk.orders.values() == [1, 2, 3]
        assert one["version"] == other["version"]
        assert (one["already_published"], other["already_published"]) == (False, True)
        assert (one["published"], one["parent"]) == (True, "main")
        (entry,) = [
            one for one in desk.store.log() if one.published_branch == "work" and one.message
        ]
        assert entry.message == "a message"
        assert NOTED.items() <= entry.properties.items()

    def test_nothing_to_publish(self, desk: Desk) -> None:
        """It is no error, and it is noted that there was nothing."""
        desk.branch()
        first, second = desk.twice(LancePublishBranchOperator, branch="work")
        assert first == second
        assert not first["datasets"]["orders"]["published"]
        assert desk.store.branch("work").metadata["airflow.nothing_to_publish"] == "1"
        assert desk.store.resolve("main").number == 1

    def test_missing_writers(self, desk: Desk) -> None:
        """It is refused for good until each has noted itself on this life of the branch."""
        desk.branch(2)
        sentence = refused(
            desk, LancePublishBranchOperator, branch="work", require_writers=["one", "two"]
        )
        assert "one, two did not write" in sentence
        for writer in ("one", "two"):
            desk.store.record_writer("work", writer)
        desk.do(LancePublishBranchOperator, branch="work", require_writers=["one", "two"])
        assert desk.orders.values() == [1, 2]

    def test_writers_of_the_scope(self, local_desk: Desk) -> None:
        """Every instance of the scope's tasks is a writer, but those skipped or removed."""
        local_desk.branch(2)
        local_desk.run.states |= {
            "build": "success",
            "build_all_0": "success",
            "build_all_1": "success",
            "build_all_2": "removed",
            "maybe": "skipped",
            "outside": "success",
        }
        scope = ["build", "build_all", "maybe"]
        sentence = refused(local_desk, LancePublishBranchOperator, branch="work", scope=scope)
        assert "build, build_all[0], build_all[1] did not write" in sentence
        for writer in ("build", "build_all[0]", "build_all[1]"):
            local_desk.store.record_writer("work", writer)
        local_desk.do(LancePublishBranchOperator, branch="work", scope=scope)
        assert local_desk.orders.values() == [1, 2]

    def test_writers_of_a_mapped_groups_scope(self, local_desk: Desk) -> None:
        """In a mapped group an instance waits for those of its own index."""
        local_desk.branch(2)
        local_desk.run.states |= {"group.work_0": "success", "group.work_1": "failed"}
        local_desk.store.record_writer("work", "group.work[0]")
        arguments: dict[str, Any] = {"branch": "work", "scope": ["group.work"]}
        with pytest.raises(AirflowFailException, match=r"group\.work\[1\] did not write"):
            local_desk.do(LancePublishBranchOperator, map_index=1, **arguments)
        local_desk.do(LancePublishBranchOperator, map_index=0, **arguments)

    def test_several_datasets_all_or_none(self, desk: Desk) -> None:
        """Where one cannot be published none is; where all can, each is, twice as once."""
        both = ["orders", "items"]
        desk.branch(2)
        desk.store.record_writer("work", "one")
        arguments: dict[str, Any] = {"branch": "work", "dataset": both, "require_writers": ["one"]}
        assert "one did not write" in refused(desk, LancePublishBranchOperator, **arguments)
        assert desk.orders.values() == [1]
        desk.items.store().record_writer("work", "one")
        desk.store.publish("work")  # a first try that died between the two
        first, second = desk.twice(LancePublishBranchOperator, **arguments)
        assert first["datasets"]["orders"]["already_published"]
        assert not first["datasets"]["items"]["already_published"]
        assert second["datasets"]["items"]["version"] == first["datasets"]["items"]["version"]
        assert desk.orders.values() == desk.items.values() == [1, 2]

    def test_a_conflict_in_one_of_several(self, local_desk: Desk) -> None:
        """What main did meanwhile to the second dataset stops the first one as well."""
        local_desk.branch()
        local_desk.orders.branch("work").append(2)
        local_desk.items.branch("work").delete("n = 1")
        local_desk.items.overwrite(7)
        refused(local_desk, LancePublishBranchOperator, branch="work", dataset=["orders", "items"])
        assert local_desk.orders.values() == [1]

    def test_events_of_several_datasets(self, local_desk: Desk) -> None:
        """The event of each asset carries its own version; another asset has the first one's."""
        local_desk.orders.append(5)
        local_desk.branch(2)
        assets = [lance_asset(one, local_desk.conn_id) for one in ("items", "orders")]
        done = local_desk.do(
            LancePublishBranchOperator,
            branch="work",
            dataset=["orders", "items"],
            outlets=[*assets, Asset(uri="s3://somewhere/else")],
        )
        versions = {one: there["version"] for one, there in done["datasets"].items()}
        assert versions["orders"] != versions["items"]
        assert local_desk.events() == {
            "orders": {"branch": "work", "version": versions["orders"]},
            "items": {"branch": "work", "version": versions["items"]},
            "else": {"branch": "work", "version": versions["orders"]},
        }

    def test_events_through_an_alias(self, local_desk: Desk) -> None:
        """It has the assets of those datasets that are no outlet of their own."""
        local_desk.branch(2)
        alias, asset = AssetAlias("any"), lance_asset("orders", local_desk.conn_id)
        done = local_desk.do(
            LancePublishBranchOperator,
            branch="work",
            dataset=["orders", "items"],
            outlets=[alias, asset],
        )
        (event,) = local_desk.run.events[alias].asset_alias_events
        assert event.dest_asset_key.uri == asset_uri("items", local_desk.conn_id)
        assert event.extra == {"branch": "work", "version": done["datasets"]["items"]["version"]}

    def test_a_live_publisher_is_waited_for(
        self, local_desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A lease that a dead one left runs out, and the publish goes on from there."""
        monkeypatch.setenv("AIRFLOW__LANCEREFS__PUBLISH_LEASE", "2")
        local_desk.branch(2)
        held(local_desk, "work", seconds=2)
        local_desk.do(LancePublishBranchOperator, branch="work")
        assert local_desk.orders.values() == [1, 2]
