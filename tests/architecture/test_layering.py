"""Lower layers never import higher ones, and the ref store stays light.

Each rule is a function from a package to the sentences that say where it is broken. It runs over
the project, where it must find nothing, and over a planted breach, which it must find.
"""

from __future__ import annotations

import graphlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.architecture.source import Package, is_within

REPOSITORY = Path(__file__).parents[2]
NAME = "airflow_provider_lancerefs"

# What each layer stands on. It may import that, and whatever that stands on in turn.
STANDS_ON: dict[str, frozenset[str]] = {
    "get_provider_info": frozenset(),
    "refstore": frozenset(),
    "project": frozenset({"refstore"}),
    "spark": frozenset({"refstore"}),
    "failures": frozenset({"refstore"}),
    "hooks": frozenset({"refstore"}),
    "noting": frozenset(),
    "lineage": frozenset({"hooks", "refstore"}),
    "assets": frozenset({"lineage"}),
    "triggers": frozenset({"failures", "hooks"}),
    "sensors": frozenset({"triggers"}),
    "operators": frozenset({"assets", "failures", "lineage", "noting", "spark"}),
    "working": frozenset({"operators"}),
    "runs": frozenset({"assets", "working"}),
    "plugins": frozenset({"hooks"}),
    "cli": frozenset({"hooks"}),
    "commands": frozenset({"cli"}),
}

# The ref store from the bottom up: a module may import its own step and those below it. Modules
# that no step names are its operations.
OPERATIONS = 5
STEPS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "plans"}),
    frozenset({"names"}),
    frozenset({"models"}),
    frozenset({"codec", "layout", "revision", "storage.base"}),
    frozenset({"storage", "manifest", "rowids", "rowsets", "transactions", "_proto"}),
    frozenset(),
    frozenset({"store"}),
    frozenset({""}),
)

# Layers that a Spark executor or a plain script imports, and what they must never ask for.
WITHOUT_AIRFLOW = {
    "refstore": frozenset({"airflow", "pyspark"}),
    "project": frozenset({"airflow", "pyspark"}),
    "spark": frozenset({"airflow"}),
}

READ_THE_ENVIRONMENT = frozenset({"hooks", "plugins", "cli"})

HEAVY = frozenset({"airflow", "pyspark", "lance", "pyarrow", "s3fs", "aiobotocore"})


def upward_imports(package: Package) -> Iterable[str]:
    for one in package.own_imports:
        importer, target = layer_of(one.importer), layer_of(one.target)
        if importer != target and target not in foundations(importer):
            yield f"{one}, which is no foundation of {importer or 'the root'}"


def layers_without_a_place(package: Package) -> Iterable[str]:
    layers = {layer_of(module) for module in package.modules} - {""}
    return (f"STANDS_ON does not say where {layer} stands" for layer in layers - set(STANDS_ON))


def root_imports(package: Package) -> Iterable[str]:
    return (
        f"{one}, and the root imports nothing" for one in package.imports if is_root(one.importer)
    )


def upward_steps(package: Package) -> Iterable[str]:
    refstore = f"{package.name}.refstore"
    for one in package.own_imports:
        if is_within(one.importer, refstore) and is_within(one.target, refstore):
            if step_of(one.target, refstore) > step_of(one.importer, refstore):
                yield f"{one}, which stands above it"


def protobuf_imports(package: Package) -> Iterable[str]:
    proto, *readers = (
        f"{package.name}.refstore.{name}"
        for name in ("_proto", "manifest", "rowids", "transactions")
    )
    for one in package.own_imports:
        if is_within(one.target, proto) and one.importer not in readers:
            yield f"{one}, which only the readers of the format may"


def foreign_imports(package: Package) -> Iterable[str]:
    for one in package.imports:
        if one.target.partition(".")[0] in WITHOUT_AIRFLOW.get(layer_of(one.importer), ()):
            yield f"{one}, which {layer_of(one.importer)} has to do without"


def relative_imports(package: Package) -> Iterable[str]:
    return (
        f"{one.importer}:{one.line} has a relative import"
        for one in package.imports
        if one.relative
    )


def environment_reads(package: Package) -> Iterable[str]:
    for module, line in package.environment_reads():
        if layer_of(module) not in READ_THE_ENVIRONMENT:
            yield f"{module}:{line} reads the environment"


def import_cycles(package: Package) -> Iterable[str]:
    graph: dict[str, set[str]] = {}
    for one in package.own_imports:
        if one.importer != one.target:
            graph.setdefault(one.importer, set()).add(one.target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        yield "these import each other: " + " -> ".join(reversed(error.args[1]))


RULES: tuple[Callable[[Package], Iterable[str]], ...] = (
    upward_imports,
    layers_without_a_place,
    root_imports,
    upward_steps,
    protobuf_imports,
    foreign_imports,
    relative_imports,
    environment_reads,
    import_cycles,
)

# Rule, the file that breaks it, its content, and what the rule says.
BREACHES = (
    (upward_imports, "refstore/names.py", f"from {NAME}.hooks import x", "imports {}.hooks"),
    (upward_imports, "spark/run.py", f"from {NAME} import cli", "imports {}.cli"),
    (
        upward_imports,
        "triggers/tag.py",
        f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import {NAME}.operators.tag",
        "triggers.tag:3 imports {}.operators.tag",
    ),
    (
        upward_imports,
        "project/merge.py",
        f"def late():\n    importlib.import_module('{NAME}.spark')",
        "project.merge:2 imports {}.spark",
    ),
    (layers_without_a_place, "helpers.py", "", "where helpers stands"),
    (root_imports, "__init__.py", "import airflow", "imports airflow"),
    (upward_steps, "refstore/errors.py", f"from {NAME}.refstore import names", "refstore.names"),
    (upward_steps, "refstore/layout.py", f"import {NAME}.refstore.storage.s3", "storage.s3"),
    (upward_steps, "refstore/storage/base.py", f"import {NAME}.refstore.manifest", "manifest"),
    (upward_steps, "refstore/tagging.py", f"from {NAME}.refstore.store import x", "refstore.store"),
    (upward_steps, "refstore/store.py", f"from {NAME}.refstore import RefStore", "{}.refstore,"),
    (protobuf_imports, "refstore/store.py", f"import {NAME}.refstore._proto.x_pb2", "_proto.x_pb2"),
    (foreign_imports, "refstore/store.py", "def f():\n    import airflow.sdk", "airflow.sdk"),
    (foreign_imports, "spark/run.py", "from airflow.hooks import base", "airflow.hooks"),
    (relative_imports, "refstore/names.py", "from .errors import x", "names:1 has a relative"),
    (environment_reads, "refstore/store.py", "import os\nos.environ['X']", "store:2 reads"),
    (environment_reads, "spark/run.py", "import os as o\no.getenv('X')", "spark.run:2 reads"),
    (environment_reads, "project/merge.py", "from os import getenv", "project.merge:1 reads"),
    (import_cycles, "refstore/errors.py", f"import {NAME}.refstore.names", "import each other"),
)


@pytest.fixture(scope="module")
def project() -> Package:
    return Package(REPOSITORY / NAME)


@pytest.fixture
def package_with(tmp_path: Path) -> Callable[[str, str], Package]:
    """A sound little package, but for one file of the caller's."""

    def make(file: str, content: str) -> Package:
        sound = {
            "__init__.py": "",
            "cli.py": f"import os\nfrom {NAME} import hooks\nos.environ",
            "hooks/__init__.py": f"import airflow\nimport {NAME}.refstore.names",
            "refstore/__init__.py": f"from {NAME}.refstore.names import x",
            "refstore/names.py": f"from {NAME}.refstore import errors",
            "refstore/errors.py": "from __future__ import annotations",
            "refstore/manifest.py": f"from {NAME}.refstore._proto import x_pb2",
            "refstore/storage/memory.py": f"from {NAME}.refstore.storage import base",
            "refstore/storage/base.py": f"from {NAME}.refstore.errors import x",
        }
        for name, text in {**sound, file: content}.items():
            path = tmp_path / NAME / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Package(tmp_path / NAME)

    return make


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_project_keeps_the_rule(
    project: Package, rule: Callable[[Package], Iterable[str]]
) -> None:
    """No module on disk breaks this rule."""
    assert [] == sorted(rule(project))


@pytest.mark.parametrize(
    ("rule", "file", "content", "said"),
    BREACHES,
    ids=[f"{index}-{breach[0].__name__}" for index, breach in enumerate(BREACHES)],
)
def test_a_planted_breach_is_found(
    package_with: Callable[[str, str], Package],
    rule: Callable[[Package], Iterable[str]],
    file: str,
    content: str,
    said: str,
) -> None:
    """One breach makes its rule, and no sound module, speak."""
    found = list(rule(package_with(file, content)))

    assert 1 == len(found), found
    assert said.format(NAME) in found[0]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_sound_package_is_left_in_peace(
    package_with: Callable[[str, str], Package], rule: Callable[[Package], Iterable[str]]
) -> None:
    """Imports that go down, and an environment read where it may be, are no breach."""
    assert [] == list(rule(package_with("refstore/layout.py", f"import {NAME}.refstore.codec")))


def test_every_rule_has_a_planted_breach() -> None:
    """A rule that was never seen to fail proves nothing."""
    assert set(RULES) == {breach[0] for breach in BREACHES}


def test_the_ref_store_loads_nothing_heavy() -> None:
    """Importing the library costs neither Airflow, Spark, Lance, Arrow nor the S3 client."""
    assert set() == loaded_by(f"{NAME}.refstore") & HEAVY


@pytest.mark.parametrize(
    "layer", sorted(layer for layer in WITHOUT_AIRFLOW if (REPOSITORY / NAME / layer).exists())
)
def test_every_module_imports_without_airflow(project: Package, layer: str) -> None:
    """Each module of a layer below Airflow can be imported where Airflow is not."""
    modules = [module for module in project.modules if is_within(module, f"{NAME}.{layer}")]

    assert set() == loaded_by(*modules) & WITHOUT_AIRFLOW[layer]


def layer_of(module: str) -> str:
    """The first name below the package; empty for the package itself."""
    return module.partition(".")[2].partition(".")[0]


def is_root(module: str) -> bool:
    return not layer_of(module)


def foundations(layer: str) -> frozenset[str]:
    direct = STANDS_ON.get(layer, frozenset())
    return direct.union(*(foundations(below) for below in direct))


def step_of(module: str, refstore: str) -> int:
    """Where a module of the ref store stands: its own name decides, else the nearest parent's."""
    name = module.removeprefix(refstore).removeprefix(".")
    while True:
        for step, names in enumerate(STEPS):
            if name in names:
                return step
        if "." not in name:
            return OPERATIONS
        name = name.rpartition(".")[0]


def loaded_by(*modules: str) -> set[str]:
    """The top-level packages that a new interpreter without Airflow holds after importing these.

    Airflow is hidden, for it is installed here; `make test-bare` has an environment without it.
    """
    script = (
        "import importlib, json, sys\n"
        "sys.modules['airflow'] = None\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print(json.dumps([name for name, module in sys.modules.items() if module]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *modules],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in json.loads(done.stdout)}
