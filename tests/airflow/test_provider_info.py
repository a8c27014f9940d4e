"""What Airflow reads of the provider is in its own shape, and names things that are there."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest
from airflow.providers.common.compat.sdk import BaseHook, BaseOperator, BaseSensorOperator
from airflow.triggers.base import BaseTrigger

from airflow_provider_lancerefs.get_provider_info import get_provider_info
from airflow_provider_lancerefs.hooks import refs
from airflow_provider_lancerefs.hooks.refs import LanceRefsHook

pytestmark = pytest.mark.airflow

PACKAGE = "airflow_provider_lancerefs"
SCHEMAS = Path(airflow.__file__).parent
KINDS = {
    "hooks": BaseHook,
    "operators": BaseOperator,
    "sensors": BaseSensorOperator,
    "triggers": BaseTrigger,
}
REPOSITORY = Path(__file__).parents[2]


def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((SCHEMAS / name).read_text())
    return loaded


def modules_of(kind: str) -> list[str]:
    return [name for one in get_provider_info().get(kind, ()) for name in one["python-modules"]]


def existing(kind: str) -> list[str]:
    """The modules of a folder that define a class of its kind, told by the source's text."""
    folder = REPOSITORY / PACKAGE / kind
    return [
        f"{PACKAGE}.{kind}.{path.stem}"
        for path in sorted(folder.glob("*.py"))
        if re.search(r"^class Lance\w+(Hook|Operator|Sensor|Trigger)\b", path.read_text(), re.M)
        and path.stem != "base"
    ]


def dotted(info: object) -> Iterator[str]:
    """Every string in the provider's info that names something in the package."""
    if isinstance(info, Mapping):
        for value in info.values():
            yield from dotted(value)
    elif isinstance(info, list):
        for value in info:
            yield from dotted(value)
    elif isinstance(info, str) and info.startswith(f"{PACKAGE}."):
        yield info


def resolve(name: str) -> object:
    """The module, or the thing in one, of that name."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        module, _, last = name.rpartition(".")
        return getattr(import_module(module), last)


def test_airflows_own_schema() -> None:
    """Airflow would take it: one that it would not breaks every provider that is installed."""
    jsonschema.validate(get_provider_info(), schema("provider_info.schema.json"))


@pytest.mark.parametrize("part", ["connection-types", "asset-uris", "config", "integrations"])
def test_the_strict_shape(part: str) -> None:
    """The parts whose shape the runtime's schema leaves open have the one of providers' sources."""
    strict = schema("provider.yaml.schema.json")
    one = {"definitions": strict.get("definitions", {}), **strict["properties"][part]}
    if part == "integrations":  # a logo and a place in the docs are for Airflow's own
        one["items"] = {**one["items"], "additionalProperties": True}
    jsonschema.validate(get_provider_info()[part], one)


def test_the_connections_fields_are_what_the_hook_reads() -> None:
    """A field that the form shows is one that the hook uses, and the other way round."""
    (connection,) = get_provider_info()["connection-types"]
    assert set(connection["conn-fields"]) == {*refs._OPTIONS, "aws_conn_id"}


@pytest.mark.parametrize("field", ["session_token"])
def test_secret_fields_are_shown_as_such(field: str) -> None:
    """What is secret is typed into a password field."""
    (connection,) = get_provider_info()["connection-types"]
    assert connection["conn-fields"][field]["schema"]["format"] == "password"


def test_every_name_is_there() -> None:
    """Every module, class and function that is named can be imported."""
    names = list(dotted(get_provider_info()))
    assert len(names) > 10
    for name in names:
        assert resolve(name) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_modules_are_in_sync(kind: str) -> None:
    """Each module that has a class for DAG authors is declared, and each declared one has one."""
    declared = modules_of(kind)
    assert sorted(declared) == existing(kind)
    for name in declared:
        module = import_module(name)
        public = [getattr(module, one) for one in module.__all__]
        classes = [one for one in public if inspect.isclass(one) and issubclass(one, KINDS[kind])]
        assert classes, name
        assert all(one.__module__ == name for one in classes)


def test_the_hook_is_the_connections() -> None:
    """The hook and the connection type agree on their names."""
    (connection,) = get_provider_info()["connection-types"]
    assert resolve(connection["hook-class-name"]) is LanceRefsHook
    assert connection["connection-type"] == LanceRefsHook.conn_type
    assert connection["hook-name"] == LanceRefsHook.hook_name
    assert LanceRefsHook.conn_name_attr in inspect.signature(LanceRefsHook).parameters
    default = inspect.signature(LanceRefsHook).parameters[LanceRefsHook.conn_name_attr].default
    assert default == LanceRefsHook.default_conn_name


def test_the_distribution() -> None:
    """The distribution has the name that Airflow looks for, and the entry point leads here."""
    installed = distribution(get_provider_info()["package-name"])
    assert installed.name == get_provider_info()["package-name"]
    (entry,) = installed.entry_points.select(group="apache_airflow_provider")
    assert entry.name == "provider_info"
    assert entry.load() is get_provider_info


def test_the_option_is_the_one_that_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The declared option sets the lease, and its default is the one without it."""
    options = get_provider_info()["config"]["lancerefs"]["options"]
    assert refs.publish_lease().total_seconds() == int(options["publish_lease"]["default"])
    monkeypatch.setenv("AIRFLOW__LANCEREFS__PUBLISH_LEASE", "7")
    assert refs.publish_lease().total_seconds() == 7
