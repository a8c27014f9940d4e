"""Every argument of an operator or sensor is a template, kept plainly under its own name."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from airflow.sdk.bases.operator import BaseOperator

from airflow_provider_lancerefs.get_provider_info import get_provider_info

pytestmark = pytest.mark.airflow

PACKAGE = "airflow_provider_lancerefs"
NOT_FOR_TEMPLATES = {"scope", "deferrable", "outlets", "poke_interval"}


def classes() -> list[type[BaseOperator]]:
    """Those that DAG authors use."""
    info = get_provider_info()
    names = [name for kind in ("operators", "sensors") for name in info[kind][0]["python-modules"]]
    found = [getattr(module, one) for module in map(import_module, names) for one in module.__all__]
    return [one for one in found if inspect.isclass(one) and issubclass(one, BaseOperator)]


def own(kind: type) -> Iterator[type]:
    """A class, and those it inherits from, as far as they are the provider's."""
    return (one for one in kind.__mro__ if one.__module__.startswith(PACKAGE))


def inits(kind: type) -> list[Any]:
    return [one.__init__ for one in own(kind) if "__init__" in vars(one)]  # type: ignore[misc]


def arguments(kind: type) -> set[str]:
    """The keyword arguments that the provider's own classes add."""
    names = {name for init in inits(kind) for name in inspect.signature(init).parameters}
    return names - {"self", "kwargs"}


def assigned(kind: type) -> set[str]:
    """What is kept as it was given: `self.name = name`."""
    found = set()
    for init in inits(kind):
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(init)))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
                (target,) = node.targets
                if isinstance(target, ast.Attribute) and target.attr == node.value.id:
                    found.add(target.attr)
    return found


def test_there_are_classes() -> None:
    """The tests below are about something."""
    assert len(classes()) >= 10


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_every_argument_is_a_template(kind: type[BaseOperator]) -> None:
    """But for those that Airflow needs before there is a run."""
    assert arguments(kind) - NOT_FOR_TEMPLATES <= {*kind.template_fields}


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_templates_are_kept_plainly(kind: type[BaseOperator]) -> None:
    """Each is an argument, and an attribute of that name to which it is assigned as it is."""
    inherited = {
        field
        for one in kind.__mro__
        if not one.__module__.startswith(PACKAGE)
        for field in vars(one).get("template_fields", ())
    }
    ours = {*kind.template_fields} - inherited
    assert ours <= arguments(kind)
    assert ours <= assigned(kind)
    assert len(kind.template_fields) == len({*kind.template_fields})


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_nothing_happens_before_execution(kind: type[BaseOperator]) -> None:
    """What is not rendered yet is neither looked at nor changed."""
    fields = [name for name in kind.template_fields if name in arguments(kind)]
    task = kind(task_id="task", **{name: "{{ " + name + " }}" for name in fields})
    for name in fields:
        assert getattr(task, name) == "{{ " + name + " }}"


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_flags_are_arguments(kind: type[BaseOperator]) -> None:
    """Each argument that is true or false is checked as one, whatever a template makes of it."""
    flags = {
        name
        for init in inits(kind)
        for name, parameter in inspect.signature(init).parameters.items()
        if isinstance(parameter.default, bool)
    }
    assert flags - NOT_FOR_TEMPLATES == {*getattr(kind, "flags", ())}
