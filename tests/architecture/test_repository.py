"""What the repository holds, and that its own commands and pins are whole."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[2]

TOP_LEVEL = frozenset(
    {
        "CHANGELOG.md",
        "LICENSE",
        "Makefile",
        "README.md",
        "airflow_provider_lancerefs",
        "constraints.txt",
        "docs",
        "example_dags",
        "pyproject.toml",
        "tests",
    }
)

# Folders of one machine, and hosts that packages come from. Written so as not to match themselves.
OF_ONE_MACHINE = re.compile(
    r"(?<![\w.:/}~-])/(?:work|farm|root/\.|home/\w|Users/\w|tmp/\w+/v(?:env)?/)"
    r"|files\.pythonhosted\.|pypi\.org|registry\.npmjs\.|repo1?\.maven\.|proxy\.golang\.|deb\.debian\."
)

DECISION_NAME = re.compile(r"(\d{4})-[a-z0-9]+(?:-[a-z0-9]+)*\.md")
DECISION_LINES = 120

VERB = re.compile(r"^([a-z][a-z-]*):(?!=)(.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """Every file that is, or is about to be, in the repository."""
    git = ["git", "-c", "safe.directory=*", "-C", str(REPOSITORY)]
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    return [Path(name) for name in listed if name and (REPOSITORY / name).is_file()]


@pytest.fixture(scope="module")
def makefile() -> str:
    return (REPOSITORY / "Makefile").read_text()


def test_the_top_level_holds_what_is_agreed(files: list[Path]) -> None:
    """A new entry at the top is a decision, not an accident; files with a dot are tools' own."""
    found = {file.parts[0] for file in files}

    assert set() == {name for name in found if not name.startswith(".")} - TOP_LEVEL


def test_no_file_knows_one_machine(files: list[Path]) -> None:
    """The project runs from any folder, with any package index."""
    assert [] == [
        f"{file}:{said}" for file in files for said in machine_mentions(REPOSITORY / file)
    ]


def test_a_planted_machine_path_is_found(tmp_path: Path) -> None:
    """The search sees folders and hosts, and lets relative paths and URIs be."""
    bad, good = tmp_path / "bad.md", tmp_path / "good.md"
    folder, host = "work", "pypi" + ".org"
    bad.write_text(f"cd /{folder}/main\nsee https://{host}/simple\n'/{folder}/x'")
    good.write_text(f"docs/{folder}/x, s3://{folder}/x, memory://root/x, ~/{folder}/x, /data/x")

    assert ["1", "2", "3"] == [said.partition(":")[0] for said in machine_mentions(bad)]
    assert [] == list(machine_mentions(good))


def test_decision_records_are_numbered_and_short(files: list[Path]) -> None:
    """Each decision has a number of its own and fits on a page or two."""
    records = [file for file in files if file.parent == Path("docs/decisions")]
    names = {record.name: DECISION_NAME.fullmatch(record.name) for record in records}
    numbers = [match[1] for match in names.values() if match]

    assert [] == [name for name, match in names.items() if match is None]
    assert len(set(numbers)) == len(numbers), numbers
    assert [] == [record for record in records if line_count(record) > DECISION_LINES]


def test_every_verb_explains_itself(makefile: str) -> None:
    """`make help` has one line for each verb of the Makefile, and each is declared phony."""
    verbs = set(dict(VERB.findall(makefile)))
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert verbs == set(re.findall(r"^  ([a-z-]+)  +\S", shown, re.MULTILINE))
    assert verbs == set(re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE))


def test_continuous_integration_runs_verbs(makefile: str) -> None:
    """Each step of CI is a verb that anyone can run at the desk."""
    script = (REPOSITORY / ".ci" / "run").read_text()
    steps = re.search(r"^for verb in (.+); do$", script, re.MULTILINE)

    assert steps is not None
    assert (
        {"check", "test", "test-bare"} <= set(steps[1].split()) <= set(dict(VERB.findall(makefile)))
    )


def test_pins_are_plain() -> None:
    """A pin is a name and a version: no address, no hash, no marker."""
    assert [] == [line for line in pin_lines() if not re.fullmatch(r"[\w.-]+==[\w.]+", line)]


def test_everything_the_project_asks_for_is_pinned() -> None:
    """No dependency of library, S3 extra and development group floats, however indirect."""
    pinned = {canonicalize_name(line.partition("==")[0]) for line in pin_lines()}

    assert set() == set(needed(development_requirements())) - pinned


def machine_mentions(file: Path) -> Iterator[str]:
    """Line number and text of each mention; a file that is not text has none."""
    content = file.read_bytes()
    if b"\0" in content:
        return
    for number, line in enumerate(content.decode(errors="replace").splitlines(), start=1):
        if OF_ONE_MACHINE.search(line):
            yield f"{number}: {line.strip()}"


def line_count(file: Path) -> int:
    return len((REPOSITORY / file).read_text().splitlines())


def pin_lines() -> list[str]:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def development_requirements() -> list[Requirement]:
    """What `make venv` asks for: the dependencies, the S3 extra and the group `dev`."""
    pyproject = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    groups = pyproject["dependency-groups"]
    asked = [
        *pyproject["project"]["dependencies"],
        *pyproject["project"]["optional-dependencies"]["s3"],
        *(line for included in groups["dev"] for line in groups[included["include-group"]]),
    ]
    return [Requirement(line) for line in asked]


def needed(requirements: Iterable[Requirement]) -> dict[str, frozenset[str]]:
    """The distributions these lead to, as installed here, with the extras asked of each."""
    found: dict[str, frozenset[str]] = {}
    waiting = list(requirements)
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        extras = found.get(name, frozenset()) | one.extras
        if found.get(name) == extras:
            continue
        found[name] = extras
        for line in importlib.metadata.requires(name) or ():
            inner = Requirement(line)
            if applies(inner, extras):
                waiting.append(inner)
    return found


def applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in {"", *extras})
