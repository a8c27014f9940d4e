"""The benchmark runs, keeps its bars and writes its report, at sizes that a test can wait for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.measuring import Measurement, Sample

REPOSITORY = Path(__file__).parents[2]
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.s3
@pytest.mark.slow
def test_quick_run_keeps_the_bars_and_writes_the_report(tmp_path: Path) -> None:
    """A quick run of the command ends well, and leaves a page, numbers and a plot that agree."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "refs", "--quick", "--out", str(tmp_path)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "refs.json").read_text())
    requests = {
        (one["call"], one["among"], one["refs"]): (
            sum(one["ours"]["requests"].values()),
            sum(one["pylance"]["requests"].values()),
        )
        for one in report["measurements"]
    }
    assert requests["read a tag", "tags", 100] == (1, 3)
    assert requests["list tag names", "tags", 100] == (1, 201)
    ours, pylance = requests["delete a branch", "tags and 20 branches", 100]
    assert ours <= 30
    assert pylance > 2 * 100 + 4 * 20
    page = (tmp_path / "refs.md").read_text()
    assert "| read a tag | 1 : 3 (3.0x) | 1 : 3 (3.0x) |" in page
    assert "make bench" in page
    assert "read a tag" in done.stdout
    assert (tmp_path / "refs.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(("made", "missed"), [(2, False), (3, True)])
def test_a_bar_is_missed_above_it(made: int, missed: bool) -> None:
    """A bar names the most requests that are allowed."""
    ours = Sample({"LIST": 1, "PUT": made - 1}, ())
    measured = Measurement("create a tag", "tags", 100, ours, Sample({"PUT": 3}, ()), bar=2)

    assert bool(measured.missed_bar) is missed


def test_an_unknown_part_is_refused() -> None:
    """The command names the parts there are, and does nothing."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "reefs"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "there is no part reefs; there is refs" in done.stderr
