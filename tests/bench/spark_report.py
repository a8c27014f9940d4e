"""The report of the fourth part: tables on stdout; a page, the raw numbers and a plot as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.bench import spark_plot
from tests.bench.report import Table as Shown
from tests.bench.report import generated_by
from tests.bench.spark_results import AS_FAST_AS_CONNECTOR, Bar, Results
from tests.bench.spark_rows import POOL, Table
from tests.bench.spark_stage import CONNECTOR, CONNECTOR_PYSPARK, HEAP
from tests.bench.spark_ways import Task, Way

PART = "spark"
_OTHERS = (Way.PARQUET, Way.CONNECTOR, Way.PYLANCE)


def write(folder: Path, results: Results, bars: Sequence[Bar]) -> None:
    """Print the tables, and write spark.md, spark.json and spark.png."""
    sections = {
        f"{results.rows(table):,} rows of {table}": [
            *(_times(results, table, task) for task in Task if _measured(results, table, task)),
            _memory(results, table),
        ]
        for table in results.tables
    }
    judged = _judged(bars)
    for heading, tables in {**sections, "Bars": [judged]}.items():
        print("\n\n".join([heading, *(table.text() for table in tables)]), end="\n\n")
    (folder / f"{PART}.md").write_text(_page(results, sections, judged))
    (folder / f"{PART}.json").write_text(json.dumps(_raw(results, bars), indent=2) + "\n")
    spark_plot.draw(folder / f"{PART}.png", results)


def _measured(results: Results, table: Table, task: Task) -> bool:
    return any(one.task is task and one.table is table for one in results.all)


def _times(results: Results, table: Table, task: Task) -> Shown:
    """Seconds of each way; then how many times the throughput of another ours is."""
    rows = []
    for way in results.ways:
        took = [results.seconds(way, task, table, number) for number in results.partitions]
        if any(took):
            rows.append([way, *(f"{one:.2f} s" if one else "" for one in took)])
    for other in _OTHERS if task is not Task.GENERATE else ():
        ratios = [results.faster(other, task, table, number) for number in results.partitions]
        if any(ratios):
            said = f"throughput of {Way.OURS}, by that of {other}"
            rows.append([said, *(f"{one:.2f}x" if one else "" for one in ratios)])
    return Shown(task.capitalize(), _header(results), rows)


def _header(results: Results) -> list[str]:
    return ["partitions", *(str(number) for number in results.partitions)]


def _memory(results: Results, table: Table) -> Shown:
    found = {(one.way, one.table, one.partitions): one.bytes for one in results.memory}
    rows = []
    for way in results.ways:
        among = [0] * len(results.partitions) if way is Way.PYLANCE else results.partitions
        held = [found.get((way, table, one)) for one in among]
        rows.append([way, *(f"{one / 1e6:,.0f} MB" if one else "" for one in held)])
    return Shown("Most memory", _header(results), rows)


def _judged(bars: Sequence[Bar]) -> Shown:
    rows = [[bar.what, bar.allowed, bar.found, "kept" if bar.kept else "MISSED"] for bar in bars]
    return Shown("Allowed and found", ["", "bar", "found", ""], rows)


def _page(results: Results, sections: dict[str, list[Shown]], judged: Shown) -> str:
    parts = [
        "# What writing and reading with Spark costs",
        f"<!-- {generated_by(PART)} -->\n{generated_by(PART)}",
        "Rows written to a run's branch and read from it, beside Spark's own Parquet, the JVM "
        "connector for Lance, and pylance without Spark, measured in one run.\n"
        + _headline(results),
        "![Throughput against partitions](spark.png)",
        "## How it was measured",
        "\n".join(f"- {line}" for line in _method(results)),
        *(
            "\n\n".join([f"## {heading}", *(table.markdown() for table in tables)])
            for heading, tables in sections.items()
        ),
        "## Bars\n\n"
        "The run fails if one of these is missed. They are on the table with vectors: writing is "
        "at least as fast as by Parquet or the connector, whichever is faster; reading all takes "
        f"at most {AS_FAST_AS_CONNECTOR} times as long as by the connector; reading two columns, "
        "or few rows, is at least as fast as by the connector." + _unjudged(results),
        judged.markdown(),
    ]
    return "\n\n".join(parts) + "\n"


def _unjudged(results: Results) -> str:
    return (
        f" Where the connector could not be measured ({results.missing}), nothing is held against "
        "it."
        if results.missing
        else ""
    )


def _method(results: Results) -> list[str]:
    used = ", ".join(f"{name} {number}" for name, number in results.versions.items())
    return [
        f"{used}; Spark is `local[2]` with a heap of at most {HEAP}, and files are "
        + (
            "in memory (tmpfs), so that no disk sets the pace."
            if results.in_memory
            else "on local disk, mostly in the page cache."
        ),
        f"**{Way.OURS}**: `LanceRun.write` and `LanceRun.read` on a branch, commit included. "
        f"**{Way.PARQUET}**: Spark's own, with its usual settings. **{Way.PYLANCE}**: "
        "`write_dataset` and `scanner` in one process, without partitions. "
        + (
            f"The JVM connector is not here: {results.missing}."
            if Way.CONNECTOR not in results.ways
            else f"**{Way.CONNECTOR}**: `{CONNECTOR}`, the newest that could be had from Maven "
            f"Central. It runs in pyspark {CONNECTOR_PYSPARK}, for there is none for newer ones, "
            'by `format("lance")` with its usual settings, on the main of a table that was made '
            "empty before."
        ),
        "Rows are made by each task while it writes; how long that takes alone is told too, and is "
        f"in every write. Vectors are looked up in a pool of {POOL:,} random ones, too many for a "
        "dictionary.",
        "Partitions are those that write; what is read is coalesced to as many. Reading all goes "
        "to Spark's `noop`. Two columns are summed up, and so are all columns of the few rows that "
        "a range of `n` leaves; the sums are compared with what they must be.",
        "Each way has processes of its own, new ones for each number of partitions, which have "
        "done everything before with few rows. Ways take turns, each writing, reading and removing "
        "its table. The two short reads are done five times, of which the middle one counts.",
        "Memory is what the JVM, its Python processes and the script hold together, at most, in "
        "all tasks; what processes share is counted once (proportional set size). The JVM seldom "
        "gives back what it took. In a cluster the script is on the driver.",
        "Times include whatever else the machine was doing.",
    ]


def _headline(results: Results) -> str:
    table, most = results.tables[-1], results.partitions[-1]
    said = []
    for task in (Task.WRITE, Task.READ):
        took = {way: results.seconds(way, task, table, most) for way in results.ways}
        shown = ", ".join(f"{way} {one:.1f} s" for way, one in took.items() if one)
        said.append(f"{task}: {shown}")
    return f"{results.rows(table):,} rows of {table}, {most} partitions; {'; '.join(said)}."


def _raw(results: Results, bars: Sequence[Bar]) -> dict[str, object]:
    return {
        "generated": generated_by(PART),
        "versions": results.versions,
        "missing": results.missing,
        "results": [asdict(one) for one in results.all],
        "memory": [asdict(one) for one in results.memory],
        "bars": [asdict(one) for one in bars],
    }
