from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)
from airflow.sdk import DAG, BaseSensorOperator

from airflow_provider_lancerefs.refstore import StorageError
from airflow_provider_lancerefs.sensors.refs import LanceBranchSensor, LanceTagSensor
from airflow_provider_lancerefs.triggers.refs import LanceBranchTrigger, LanceTagTrigger
from tests.airflow.refs import INTERVAL, connect, first, run
from tests.services.proxy import S3Proxy
from tests.tables import Place

pytestmark = pytest.mark.airflow

Make = Callable[..., Any]


@pytest.fixture
def place(local_place: Place) -> Place:
    """What is particular to S3 is tested with the triggers."""
    return local_place


@pytest.fixture
def table(place: Place) -> Place:
    """A table of two versions."""
    return place.create([1]).append(2)


@pytest.fixture
def make(place: Place, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes a sensor of the place, which gives up quickly."""
    conn_id = connect(monkeypatch, place)

    def make(sensor: type[BaseSensorOperator], **arguments: Any) -> BaseSensorOperator:
        common = {"dataset": place.uri, "lancerefs_conn_id": conn_id, "task_id": "wait"}
        given = {"poke_interval": INTERVAL, "timeout": 5 * INTERVAL, **common, **arguments}
        return sensor(**given)

    return make


def deferred(sensor: BaseSensorOperator, **arguments: Any) -> TaskDeferred:
    """How the sensor defers, which it has to."""
    with pytest.raises(TaskDeferred) as deferral:
        sensor.execute({}, **arguments)
    return deferral.value


def complete(sensor: Any, event: dict[str, Any], deferral: TaskDeferred) -> Any:
    """What Airflow calls when the event has come."""
    assert deferral.method_name == "execute_complete"
    return sensor.execute_complete({}, event=event, **(deferral.kwargs or {}))


@pytest.mark.parametrize("deferrable", [False, True], ids=["worker", "deferrable"])
@pytest.mark.parametrize(
    "wanted", [{"tag": "v1"}, {"pattern": "v*"}, {"tag": "v1", "min_version": "2"}]
)
def test_a_tag_that_is_there_is_returned_at_once(
    table: Place, make: Make, deferrable: bool, wanted: dict[str, Any]
) -> None:
    """Small JSON: which tag, and what it names."""
    table.store().create_tag("v1", "main@2")
    for _ in range(2):
        found = make(LanceTagSensor, deferrable=deferrable, **wanted).execute({})
        assert json.loads(json.dumps(found)) == found
        assert (found["dataset"], found["tag"]) == (table.uri, "v1")
        assert (found["branch"], found["version"]) == ("main", 2)


def test_a_tag_that_never_comes_times_out(table: Place, make: Make) -> None:
    """Neither another name nor an older version will do."""
    table.store().create_tag("v1", "main@1")
    for wanted in ({"tag": "v2"}, {"pattern": "w*"}, {"tag": "v1", "min_version": 2}):
        with pytest.raises(AirflowSensorTimeout):
            make(LanceTagSensor, deferrable=False, **wanted).execute({})


def test_a_deferred_sensor_ends_with_what_its_trigger_finds(table: Place, make: Make) -> None:
    """It waits in the triggerer, with names alone, and looks again at the end."""
    sensor = make(LanceTagSensor, deferrable=True, tag="v1", min_version="2", timeout=60)
    deferral = deferred(sensor)
    assert isinstance(deferral.trigger, LanceTagTrigger)
    assert deferral.trigger.serialize()[1] == {
        "dataset": table.uri,
        "tag": "v1",
        "pattern": None,
        "min_version": 2,
        "lancerefs_conn_id": sensor.lancerefs_conn_id,
        "poke_interval": INTERVAL,
    }
    table.store().create_tag("v1", "main@2")
    event = run(first(deferral.trigger))
    found = complete(sensor, event, deferral)
    assert {**found, "status": "success"} == event


def test_a_tag_that_went_meanwhile_is_waited_for_again(table: Place, make: Make) -> None:
    """The time that is left, not all of it again."""
    sensor = make(LanceTagSensor, deferrable=True, tag="v1", timeout=60)
    before = datetime.now(UTC)
    deferral = deferred(sensor)
    assert timedelta(seconds=50) < deferral.timeout <= timedelta(seconds=60)
    assert deferral.kwargs is not None
    deadline = datetime.fromisoformat(deferral.kwargs["deadline"])
    assert timedelta(seconds=60) <= deadline - before < timedelta(seconds=70)
    with pytest.raises(TaskDeferred) as again:
        complete(sensor, {"status": "success", "tag": "v1"}, deferral)
    assert again.value.kwargs == deferral.kwargs
    assert again.value.timeout < deferral.timeout
    deferral.kwargs["deadline"] = before.isoformat()
    with pytest.raises(AirflowSensorTimeout, match="within the 60 s"):
        complete(sensor, {"status": "success", "tag": "v1"}, deferral)


@pytest.mark.s3
def test_a_store_that_fails_at_the_end_is_waited_for(
    s3_place: Place, s3_proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look fails the task, which Airflow retries; the last one is made again."""
    s3_place.create([1])
    sensor = LanceTagSensor(
        task_id="wait",
        dataset=s3_place.uri,
        tag="v1",
        lancerefs_conn_id=connect(monkeypatch, s3_place),
        deferrable=True,
    )
    deferral = deferred(sensor)
    with s3_proxy.breaking(lambda request: "drop request"):
        with pytest.raises(StorageError):
            sensor.execute({})
        with pytest.raises(TaskDeferred):
            complete(sensor, {"status": "success", "tag": "v1"}, deferral)


@pytest.mark.s3
def test_a_bucket_that_is_not_there_is_waited_for(
    s3_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may yet make it."""
    conn_id = connect(monkeypatch, s3_place)
    common = {"task_id": "wait", "dataset": "s3://lancerefs-nowhere/a", "deferrable": True}
    for sensor, wanted in (
        (LanceTagSensor, {"tag": "v1"}),
        (LanceTagSensor, {"pattern": "v*"}),
        (LanceBranchSensor, {"branch": "a"}),
        (LanceBranchSensor, {"branch": "main", "until": "advanced", "after_version": 1}),
    ):
        deferred(sensor(lancerefs_conn_id=conn_id, **common, **wanted))


@pytest.mark.parametrize("deferrable", [False, True], ids=["worker", "deferrable"])
@pytest.mark.parametrize("end", ["fails", "softly"])
@pytest.mark.parametrize(
    ("sensor", "wrong", "said"),
    [
        (LanceTagSensor, {"tag": "a/b"}, "'a/b' is not a tag name"),
        (LanceTagSensor, {}, "either the name of a tag or a pattern"),
        (LanceTagSensor, {"tag": "a", "min_version": "{{ x }}"}, "min_version is a version"),
        (LanceTagSensor, {"tag": "a", "dataset": "gs://b/c"}, "has no conditional writes"),
        (LanceTagSensor, {"tag": "a", "lancerefs_conn_id": "nobody"}, "`nobody` isn't defined"),
        (LanceBranchSensor, {"branch": "a//b"}, "'a//b' is not a branch name"),
        (LanceBranchSensor, {"branch": "a", "until": "gone"}, "not until 'gone'"),
    ],
)
def test_what_never_can_come_true_fails_without_a_retry(
    local_place: Place,
    deferrable: bool,
    end: str,
    sensor: type[BaseSensorOperator],
    wrong: dict[str, Any],
    said: str,
) -> None:
    """One sentence says why; a soft sensor is skipped instead."""
    soft = end == "softly"
    given = {"task_id": "wait", "dataset": local_place.uri, "deferrable": deferrable, **wrong}
    with pytest.raises(AirflowSkipException if soft else AirflowFailException) as failure:
        sensor(soft_fail=soft, **given).execute({})
    if deferrable or not soft:
        assert said in str(failure.value)


@pytest.mark.parametrize("soft", [False, True])
def test_an_error_of_the_trigger_fails_without_a_retry(
    local_place: Place, make: Make, soft: bool
) -> None:
    """The trigger's sentence is the task's; no event at all is an error as well."""
    local_place.create()
    sensor = make(LanceTagSensor, deferrable=True, tag="v1", soft_fail=soft)
    deferral = deferred(sensor)
    for event, said in (({"status": "error", "message": "Never."}, "Never."), (None, "No event")):
        with pytest.raises(AirflowSkipException if soft else AirflowFailException, match=said):
            complete(sensor, event, deferral)  # type: ignore[arg-type]


@pytest.mark.parametrize("deferrable", [False, True], ids=["worker", "deferrable"])
def test_a_branch_is_returned_with_its_version(table: Place, make: Make, deferrable: bool) -> None:
    """It exists, then has a version of its own, then was published."""
    store = table.store()

    def look(**wanted: Any) -> Any:
        sensor = make(LanceBranchSensor, deferrable=deferrable, branch="a", **wanted)
        try:
            return sensor.execute({})
        except (TaskDeferred, AirflowSensorTimeout):
            return None

    waits: list[dict[str, Any]] = [
        {},
        {"until": "advanced"},
        {"until": "advanced", "after_version": "3"},
        {"until": "published"},
    ]

    def versions() -> list[int | None]:
        found = (look(**wanted) for wanted in waits)
        return [one["version"] if one else None for one in found]

    assert versions() == [None, None, None, None]
    store.create_branch("a")
    assert versions() == [2, None, None, None]
    table.branch("a").append(3)
    assert versions() == [2, 3, None, None]
    table.branch("a").append(4)
    assert versions() == [2, 4, 4, None]
    version = store.publish("a").version
    assert versions() == [2, 4, 4, version]


def test_a_branch_that_was_published_and_deleted_is_found(table: Place, make: Make) -> None:
    """The sensor tells its trigger which life of the branch it saw, and takes its word for it."""
    store = table.store()
    store.create_branch("a")
    table.branch("a").append(3)
    sensor = make(LanceBranchSensor, deferrable=True, branch="a", until="published")
    deferral = deferred(sensor)
    assert isinstance(deferral.trigger, LanceBranchTrigger)
    version = store.publish("a").version
    store.delete_branch("a")
    event = run(first(deferral.trigger))
    assert complete(sensor, event, deferral)["version"] == version


def test_every_argument_is_a_template() -> None:
    """Only how to wait is fixed; rendered, arguments mean what they say."""
    with DAG("d", params={"version": 2}):
        for sensor, arguments in (
            (LanceTagSensor, {"tag": "{{ x }}", "pattern": "{{ x }}", "min_version": "{{ n }}"}),
            (
                LanceBranchSensor,
                {"branch": "{{ x }}", "until": "{{ x }}", "after_version": "{{ n }}"},
            ),
        ):
            common = {"dataset": "{{ x }}", "lancerefs_conn_id": "{{ x }}"}
            given = {**arguments, **common}
            task = sensor(task_id=sensor.__name__, **given)
            assert {*task.template_fields} == {*given}
            task.render_template_fields({"x": "rendered", "n": 2})
            for name in given:
                assert str(getattr(task, name)) in ("rendered", "2")


IMPORT = """
import json, sys
import airflow_provider_lancerefs.sensors.refs as sensors
import airflow_provider_lancerefs.triggers.refs
heavy = {"aiobotocore", "fastapi", "lance", "pyarrow", "pyspark", "s3fs"}
task = sensors.LanceTagSensor(task_id="a", dataset="b")
print(json.dumps([task.deferrable, sorted(heavy & set(sys.modules))]))
"""


@pytest.mark.parametrize("deferrable", [False, True])
def test_importing_loads_nothing_heavy(tmp_path: Path, deferrable: bool) -> None:
    """A DAG file costs neither Lance nor an S3 client; whether to defer is Airflow's setting."""
    settings = {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": str(deferrable),
    }
    done = subprocess.run(
        [sys.executable, "-c", IMPORT],
        env={**os.environ, **settings},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [deferrable, []]
