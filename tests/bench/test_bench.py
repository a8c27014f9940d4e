"""The benchmark runs, keeps its bars and writes its report, at sizes that a test can wait for."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.measuring import Measurement, Sample
from tests.bench.plotting import apart
from tests.bench.publish_results import Result, Results, Size, Way, Where, bars
from tests.bench.sensors_results import rate
from tests.bench.spark_results import Result as SparkResult
from tests.bench.spark_results import Results as SparkResults
from tests.bench.spark_results import bars as spark_bars
from tests.bench.spark_rows import Table as SparkTable
from tests.bench.spark_ways import Task as SparkTask
from tests.bench.spark_ways import Way as SparkWay
from tests.services.proxy import Request

REPOSITORY = Path(__file__).parents[2]
PNG = b"\x89PNG\r\n\x1a\n"


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.bench", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.s3
@pytest.mark.slow
def test_quick_run_keeps_the_bars_and_writes_the_report(tmp_path: Path) -> None:
    """A quick run of the command ends well, and leaves a page, numbers and a plot that agree."""
    done = bench("refs", "--quick", "--out", str(tmp_path))

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


@pytest.mark.s3
@pytest.mark.slow
@pytest.mark.spark
def test_quick_run_of_publish_keeps_the_bars_on_requests(tmp_path: Path) -> None:
    """Neither rows nor files make a publish without copies ask for more."""
    done = bench("publish", "--quick", "--out", str(tmp_path))

    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "publish.json").read_text())
    requests = {
        (one["way"], one["size"]["files"], one["size"]["rows"]): sum(
            one["sample"]["requests"].values()
        )
        for one in report["results"]
        if one["where"] == Where.FAR
    }
    fewest = requests[Way.ZERO_COPY, 1, 10**5]
    assert requests[Way.ZERO_COPY, 100, 10**5] == fewest
    assert requests[Way.ZERO_COPY, 10, 10**5] == requests[Way.ZERO_COPY, 10, 10**4] == fewest
    assert requests[Way.COPIES, 100, 10**5] == requests[Way.COPIES, 1, 10**5] + 99
    assert [one for one in report["bars"] if "times as fast" in one["what"]] == []
    page = (tmp_path / "publish.md").read_text()
    assert f"| publish, zero-copy | {fewest} | {fewest} | {fewest} |" in page
    assert "| zero-copy beside Spark | " in page
    assert (tmp_path / "publish.png").read_bytes().startswith(PNG)


@pytest.mark.airflow
@pytest.mark.s3
@pytest.mark.slow
def test_quick_run_of_sensors_keeps_the_bars_on_requests(tmp_path: Path) -> None:
    """A hundred sensors and watchers on ten datasets cost one request per dataset and interval."""
    done = bench("sensors", "--quick", "--out", str(tmp_path))

    assert done.returncode == 0, done.stderr
    (result,) = json.loads((tmp_path / "sensors.json").read_text())["results"]
    assert result["case"] == {"sensors": 50, "watchers": 50}
    assert set(result["quiet"]) == {"LIST"}
    assert 10 <= result["quiet"]["LIST"] <= 10 * result["intervals"]
    assert round(result["per_interval"], 1) <= 10
    assert result["changed"]["GET"] == 10
    assert result["events"] == 20
    assert "50 sensors, 50 watchers" in (tmp_path / "sensors.md").read_text()
    assert (tmp_path / "sensors.png").read_bytes().startswith(PNG)


@pytest.mark.spark
@pytest.mark.slow
def test_quick_run_of_spark_measures_every_task(tmp_path: Path) -> None:
    """Whatever is read is what was written, by each way; a page, numbers and a plot tell of it."""
    done = bench("spark", "--quick", "--out", str(tmp_path))

    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "spark.json").read_text())
    measured = {(one["way"], one["task"], one["table"]) for one in report["results"]}
    for way in (SparkWay.OURS, SparkWay.PARQUET, SparkWay.PYLANCE):
        for table in SparkTable:
            tasks = {task for of, task, on in measured if (of, on) == (way, table)}
            assert {SparkTask.WRITE, SparkTask.READ, SparkTask.COLUMNS, SparkTask.FILTER} <= tasks
    assert all(one["bytes"] > 10**7 for one in report["memory"])
    page = (tmp_path / "spark.md").read_text()
    assert "The JVM connector is not here: a quick run leaves it out" in page
    assert "### Read two columns" in page
    assert (tmp_path / "spark.png").read_bytes().startswith(PNG)


ONE, MANY, WIDE = Size(1, 1, 10**7), Size(1, 1_000, 10**7), Size(8, 1_000, 10**7)


def published(
    zero_copy: dict[Size, int], copies: dict[Size, int], seconds: dict[Way, float]
) -> Results:
    """What a run would have found: requests by size, seconds by way."""
    counted = dict.fromkeys(Way, zero_copy) | {Way.COPIES: copies}
    return Results(
        [
            Result(size, way, where, Sample({"GET": counted[way][size]}, (seconds[way],)))
            for size in (ONE, MANY, WIDE)
            for way in Way
            for where in Where
        ]
    )


FEW = {ONE: 20, MANY: 21, WIDE: 21}
ONE_MORE_EACH = {ONE: 24, MANY: 1_023, WIDE: 1_023}
QUICK = {Way.ZERO_COPY: 0.1, Way.COPIES: 1.0, Way.APPEND: 2.1, Way.SPARK: 2.1}


def test_bars_of_publish_that_are_kept() -> None:
    """One page more of listing and one copy for each file are allowed."""
    assert all(bar.kept for bar in bars(published(FEW, ONE_MORE_EACH, QUICK), timed=True))


@pytest.mark.parametrize(
    ("zero_copy", "copies", "seconds", "missed"),
    [
        (FEW | {MANY: 22, WIDE: 22}, ONE_MORE_EACH, QUICK, ["zero-copy"]),
        (FEW | {WIDE: 22}, ONE_MORE_EACH, QUICK, ["zero-copy"]),
        (FEW, ONE_MORE_EACH | {MANY: 1_024, WIDE: 1_024}, QUICK, ["with copies"]),
        (FEW, ONE_MORE_EACH, QUICK | {Way.APPEND: 1.9}, ["times as fast as read"] * 6),
        (FEW, ONE_MORE_EACH, QUICK | {Way.SPARK: 1.9}, ["times as fast as INSERT"] * 6),
    ],
    ids=["files", "bytes", "copies", "time", "time of Spark"],
)
def test_bars_of_publish_that_are_missed(
    zero_copy: dict[Size, int],
    copies: dict[Size, int],
    seconds: dict[Way, float],
    missed: list[str],
) -> None:
    """Each bar names the number that is over it."""
    found = bars(published(zero_copy, copies, seconds), timed=True)
    lines = [str(bar) for bar in found if not bar.kept]

    assert len(lines) == len(missed), lines
    assert all(part in line for part, line in zip(missed, lines, strict=True))


def timed(written: dict[SparkWay, float], read: dict[SparkWay, float]) -> SparkResults:
    """What a run in two partitions would have found: seconds to write, and for each way to read."""
    reads = (SparkTask.READ, SparkTask.COLUMNS, SparkTask.FILTER)
    took = [(way, SparkTask.WRITE, one) for way, one in written.items()]
    took += [(way, task, one) for way, one in read.items() for task in reads]
    return SparkResults(
        [SparkResult(way, task, SparkTable.VECTORS, 2, 10, one) for way, task, one in took]
    )


@pytest.mark.parametrize(
    ("written", "read", "missed"),
    [
        ((1.0, 1.0, 1.1), (1.0, 1.0), []),
        ((1.0, 1.1, 0.9), (1.0, 1.0), ["write, 2 partitions: times as fast as Parquet"]),
        ((1.0, 0.9, 1.1), (1.0, 1.0), ["write, 2 partitions: times as fast as connector"]),
        ((1.0, 1.0, 1.0), (1.2, 1.0), ["read two columns", "read few rows"]),
        ((1.0, 1.0, 1.0), (1.4, 1.0), ["read all", "read two columns", "read few rows"]),
    ],
    ids=["kept", "slower than Parquet", "than the connector", "selective reads", "full reads"],
)
def test_bars_of_spark(
    written: tuple[float, ...], read: tuple[float, ...], missed: list[str]
) -> None:
    """Writes are held against the faster of the others, reads against the connector."""
    ways = (SparkWay.OURS, SparkWay.CONNECTOR, SparkWay.PARQUET)
    found = timed(dict(zip(ways, written, strict=True)), dict(zip(ways[:2], read, strict=True)))
    lines = [str(bar) for bar in spark_bars(found) if not bar.kept]

    assert len(lines) == len(missed), lines
    assert all(part in line for part, line in zip(missed, lines, strict=True))


def test_bars_of_spark_without_the_connector() -> None:
    """Only what can be compared is judged."""
    found = timed({SparkWay.OURS: 1.0, SparkWay.PARQUET: 2.0}, {SparkWay.OURS: 1.0})

    assert ["2.00"] == [bar.found for bar in spark_bars(found)]


def test_the_rate_of_requests_is_told_by_their_distance() -> None:
    """Equal requests count as often as they come; those that came once say nothing."""
    every_ten = [Request("GET", "/a", "prefix=1", arrived) for arrived in (3.0, 13.0, 23.0)]
    every_five = [Request("GET", "/a", "prefix=2", arrived) for arrived in (0.0, 5.0, 10.0)]
    once = [Request("GET", "/b", "", 1.0)]

    assert rate([*every_ten, *every_five, *once], interval=10) == pytest.approx(3)


@pytest.mark.parametrize(
    ("ends", "placed"),
    [
        ([1_000, 10, 1], [3, 1, 0]),
        ([10, 10], [1.25, 0.75]),
        ([1, 10**0.25, 10**0.5], [-0.25, 0.25, 0.75]),
    ],
)
def test_labels_do_not_overlap(ends: list[float], placed: list[float]) -> None:
    """Labels stand where their lines end, or spread around the middle of those that are close."""
    assert [math.log10(one) for one in apart(ends, 0.5)] == pytest.approx(placed)


@pytest.mark.parametrize(("made", "missed"), [(2, False), (3, True)])
def test_a_bar_is_missed_above_it(made: int, missed: bool) -> None:
    """A bar names the most requests that are allowed."""
    ours = Sample({"LIST": 1, "PUT": made - 1}, ())
    measured = Measurement("create a tag", "tags", 100, ours, Sample({"PUT": 3}, ()), bar=2)

    assert bool(measured.missed_bar) is missed


def test_an_unknown_part_is_refused() -> None:
    """The command names the parts there are, and does nothing."""
    done = bench("reefs")

    assert done.returncode == 2
    assert "there is no part reefs; there is refs, publish, sensors" in done.stderr
