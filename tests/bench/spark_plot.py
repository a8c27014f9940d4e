"""The plot of the fourth part: throughput against partitions, of each task and table."""

from __future__ import annotations

import math
from pathlib import Path

from matplotlib.axes import Axes

from tests.bench.plotting import BETWEEN, OURS, PYLANCE, apart, figure, frame, label_end
from tests.bench.spark_results import Results
from tests.bench.spark_rows import Table
from tests.bench.spark_ways import Task, Way

_CONNECTOR = "#CC79A7"  # of the same palette
COLOURS = {
    Way.OURS: OURS,
    Way.CONNECTOR: _CONNECTOR,
    Way.PARQUET: BETWEEN,
    Way.PYLANCE: PYLANCE,
}
TASKS = (Task.WRITE, Task.READ, Task.COLUMNS, Task.FILTER)
_LABEL_GAP = 0.07  # of the height


def draw(path: Path, results: Results) -> None:
    """A row for each table, a column for each task."""
    tables = results.tables
    title = "Millions of rows a second, by partitions"
    with figure(path, title, 4.2 * len(TASKS), 3.6 * len(tables)) as drawn:
        axes = drawn.subplots(len(tables), len(TASKS), squeeze=False)
        for row, table in enumerate(tables):
            for column, task in enumerate(TASKS):
                _panel(axes[row, column], results, table, task)


def _panel(axis: Axes, results: Results, table: Table, task: Task) -> None:
    along = results.partitions
    axis.set_xscale("log", base=2)
    frame(axis, f"{task}\n{table}", along)
    lines = {way: _line(results, way, table, task) for way in COLOURS if way in results.ways}
    lines = {way: line for way, line in lines.items() if not math.isnan(line[-1])}
    heights = [one for line in lines.values() for one in line if not math.isnan(one)]
    low, high = min(heights) / 1.6, max(heights) * 1.6
    axis.set_ylim(low, high)
    ends = [line[-1] for line in lines.values()]
    places = apart(ends, _LABEL_GAP * math.log10(high / low))
    for (way, line), place in zip(lines.items(), places, strict=True):
        style = "--" if way is Way.PYLANCE else "-"
        axis.plot(along, line, color=COLOURS[way], marker="o", markersize=5, linestyle=style)
        label_end(axis, f"{way} {line[-1]:.2f}", place, COLOURS[way])


def _line(results: Results, way: Way, table: Table, task: Task) -> list[float]:
    rows = results.rows(table) / 1e6
    took = [results.seconds(way, task, table, number) for number in results.partitions]
    return [rows / one if one else math.nan for one in took]
