"""Every operator does its work on real stores, says what it did, and may be executed twice.

The context is that of `tests.airflow.contexts`, for speed; the end-to-end tests have a real one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import Asset, AssetAlias
from airflow.sdk.bases.operator import BaseOperator

from airflow_provider_lancerefs.assets import asset_uri, convert_asset_to_openlineage, lance_asset
from airflow_provider_lancerefs.operators.branch import (
    LanceCreateBranchOperator,
    LanceDeleteBranchOperator,
)
from airflow_provider_lancerefs.operators.clone import LanceShallowCloneOperator
from airflow_provider_lancerefs.operators.expire import LanceExpireBranchesOperator
from airflow_provider_lancerefs.operators.publish import LancePublishBranchOperator
from airflow_provider_lancerefs.operators.tag import LanceDeleteTagOperator, LanceTagOperator
from airflow_provider_lancerefs.refstore import refs
from airflow_provider_lancerefs.refstore.errors import RefNotFoundError
from airflow_provider_lancerefs.refstore.leases import Lease
from airflow_provider_lancerefs.refstore.storage.local import LocalStorage
from airflow_provider_lancerefs.refstore.store import RefStore
from tests.airflow.connecting import Connect, keys_of
from tests.airflow.contexts import Run
from tests.services.seaweed import S3Server
from tests.tables import Place

pytestmark = pytest.mark.airflow

NOTED = {
    "airflow.dag_id": "a_dag",
    "airflow.run_id": "manual__2026-01-02T00:00:00+00:00",
    "airflow.map_index": "-1",
    "airflow.try_number": "1",
    "airflow.logical_date": "2026-01-02T00:00:00+00:00",
    "airflow.owner": "somebody",
}
_numbers = itertools.count()


@dataclass
class Desk:
    """A root with two tables of one row, the connection that leads there, and a run."""

    root: Place
    conn_id: str
    run: Run = field(default_factory=Run)

    @property
    def orders(self) -> Place:
        return self.place("orders")

    @property
    def items(self) -> Place:
        return self.place("items")

    @property
    def store(self) -> RefStore:
        return self.orders.store()

    def place(self, name: str) -> Place:
        return Place(f"{self.root.uri}/{name}", self.root.options)

    def task(self, kind: type[BaseOperator], **arguments: Any) -> BaseOperator:
        arguments.setdefault("task_id", f"task_{next(_numbers)}")
        arguments.setdefault("dataset", "orders")
        given = {"dag": self.run.dag, "owner": "somebody", "lancerefs_conn_id": self.conn_id}
        return kind(**{**given, **arguments})

    def do(self, kind: type[BaseOperator], map_index: int = -1, **arguments: Any) -> Any:
        return self.run.execute(self.task(kind, **arguments), map_index)

    def twice(self, kind: type[BaseOperator], **arguments: Any) -> tuple[Any, Any]:
        """One task, executed two times, as by a retry after its reply was lost."""
        task = self.task(kind, **arguments)
        return self.run.execute(task), self.run.execute(task)

    def branch(self, *values: int, name: str = "work", **arguments: Any) -> str:
        """A branch of both tables to which the same values were written."""
        self.do(LanceCreateBranchOperator, branch=name, dataset=["orders", "items"], **arguments)
        for place in (self.orders, self.items) if values else ():
            place.branch(name).append(*values)
        return name

    def events(self) -> Mapping[str, Mapping[str, Any]]:
        """The extras of the asset events, by the last part of the asset's URI."""
        events = self.run.events
        return {one.uri.rpartition("/")[2]: events[one].extra for one in events}  # type: ignore[union-attr]


@pytest.fixture
def desk(place: Place, connect: Connect, request: pytest.FixtureRequest) -> Desk:
    """The same on local disk and on S3."""
    fields: dict[str, Any] = {}
    if place.options:
        server: S3Server = request.getfixturevalue("s3")
        fields = keys_of(server)
    found = Desk(place, connect(host=place.uri, **fields))
    found.orders.create([1])
    found.items.create([1])
    return found


@pytest.fixture
def local_desk(local_place: Place, connect: Connect) -> Desk:
    """One on local disk alone, for what does not depend on the store."""
    found = Desk(local_place, connect(host=local_place.uri))
    found.orders.create([1])
    found.items.create([1])
    return found


def refused(desk: Desk, kind: type[BaseOperator], **arguments: Any) -> str:
    """The sentence with which a task fails for good."""
    with pytest.raises(AirflowFailException) as error:
        desk.do(kind, **arguments)
    return str(error.value)


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


class TestLineage:
    """What OpenLineage is told."""

    def test_outputs(self, desk: Desk) -> None:
        """Every operator names its datasets as the asset of each does."""
        task = desk.task(LanceTagOperator, tag="v1", dataset=["orders", "items"])
        said = task.get_openlineage_facets_on_complete(None)  # type: ignore[attr-defined]
        assert said.inputs == []
        assert said.outputs == [
            convert_asset_to_openlineage(lance_asset(one, desk.conn_id), None)
            for one in ("orders", "items")
        ]
        (first, _) = said.outputs
        assert f"{first.namespace}/{first.name}".removeprefix("file/") == desk.orders.uri

    def test_a_clone(self, local_desk: Desk) -> None:
        """A clone is made of its source."""
        task = local_desk.task(LanceShallowCloneOperator, target="copy")
        said = task.get_openlineage_facets_on_complete(None)  # type: ignore[attr-defined]
        assert [one.name for one in said.inputs] == [local_desk.orders.uri]
        assert [one.name for one in said.outputs] == [local_desk.place("copy").uri]

    @pytest.mark.parametrize("dataset", ["/a/x.lance", "s3://bucket/x.lance"])
    def test_assets_of_full_uris(self, local_desk: Desk, dataset: str) -> None:
        """A full URI or an absolute path is found again in its asset."""
        said = convert_asset_to_openlineage(lance_asset(dataset, local_desk.conn_id), None)
        expected = ("file", dataset) if dataset[0] == "/" else ("s3://bucket", "x.lance")
        assert (said.namespace, said.name) == expected


def held(desk: Desk, name: str, seconds: float = 3600) -> None:
    """Leave a branch as a publisher does that is at work, or died a moment ago."""
    dataset = desk.orders.store(publish_lease=timedelta(seconds=seconds))._dataset
    Lease(dataset, refs.read_branch(dataset.storage, name))


def tree(desk: Desk) -> dict[str, str]:
    """Every file of the tables, and what it was when it was listed."""
    storage = LocalStorage(desk.root.uri)
    return {one.path: one.token for one in storage.list("")}
