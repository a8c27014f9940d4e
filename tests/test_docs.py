"""The documents say what is so: examples run, links lead somewhere, nothing is left out."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from airflow_provider_lancerefs import refstore
from airflow_provider_lancerefs.cli import main
from airflow_provider_lancerefs.refstore import ErrorKind, LanceRefsError, checking, orphans

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


README = (ROOT / "README.md").read_text()
MINUTE = README[README.index("## A minute with it") :]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_the_readme_s_minute_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The examples run as they stand, one after the other, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, block in enumerate(blocks(MINUTE, "python")):
        exec(compile(block, f"README block {number}", "exec"), names)
    printed = capsys.readouterr().out
    for comment in re.findall(r"print\(.*?\)  # (.+)", README):
        assert comment in printed
    lines = "".join(blocks(MINUTE, "console")).splitlines()
    commands = [shlex.split(line)[2:] for line in lines if line.startswith("$ lancerefs")]
    assert len(commands) == 6
    for command in commands:
        assert main(command) == 0, command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every link to a file of the repository leads to one."""
    for target in re.findall(r"\]\((?!https?://)([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_error_is_explained() -> None:
    """The page on errors names every error class and every kind, with the exit code."""
    text = (ROOT / "docs" / "errors.md").read_text()
    for name in refstore.__all__:
        value = getattr(refstore, name)
        if isinstance(value, type) and issubclass(value, LanceRefsError):
            assert f"`{name}`" in text, name
    general = {ErrorKind.NOT_FOUND}
    for kind in set(ErrorKind) - general:
        assert f"`{kind.value}`" in text, kind


def test_every_refusal_is_explained() -> None:
    """The page on errors names every code with which a publish is refused."""
    text = (ROOT / "docs" / "errors.md").read_text()
    assert [code for code in refstore.RefusalCode if f"`{code.value}`" not in text] == []


def test_every_finding_is_explained() -> None:
    """The page on errors names everything that fsck can find."""
    text = (ROOT / "docs" / "errors.md").read_text()
    sources = "".join(Path(module.__file__).read_text() for module in (checking, orphans))
    codes = set(re.findall(r'Finding\(\s*"([a-z-]+)"', sources))
    assert len(codes) > 10
    assert [code for code in sorted(codes) if f"`{code}`" not in text] == []
