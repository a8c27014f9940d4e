"""The plot of the second part: requests and time against files, and against rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes

from tests.bench.plotting import BETWEEN, OURS, PYLANCE, SPARK, apart, figure, frame, label_end
from tests.bench.publish_results import Results, Size, Way, Where
from tests.bench.report import milliseconds

LINES = {
    Way.SPARK: ("Spark", SPARK, "D"),
    Way.APPEND: ("append", PYLANCE, "s"),
    Way.COPIES: ("copies", BETWEEN, "^"),
    Way.ZERO_COPY: ("zero-copy", OURS, "o"),
}
_COUNTED = "requests, S3"
_LABEL_GAP = 0.065  # of the height
_REQUESTS, _SECONDS = (8, 3_000), (0.005, 100)

Height = Callable[[Size, Way], float | None]


def draw(path: Path, results: Results) -> None:
    """Requests in the first column, time in the others; one scale for each of the two."""
    by_files, by_rows = results.by_files(), results.by_rows()
    series = [("files", by_files), *(("rows", sizes) for sizes in by_rows)]
    with figure(path, "Bringing a branch's new rows into main", 4.2 + 4.2 * len(series), 8) as to:
        axes = to.subplots(2, 1 + len(series))
        counts = _counts(results)
        _panel(axes[0, 0], _COUNTED, "files", by_files, counts, _REQUESTS)
        _panel(axes[1, 0], _COUNTED, "rows", by_rows[0], counts, _REQUESTS)
        for column, (across, sizes) in enumerate(series, 1):
            for row, where in enumerate((_near(results), Where.DISK)):
                place = f"seconds, {where}"
                heights = _medians(results, where)
                _panel(axes[row, column], place, across, sizes, heights, _SECONDS)


def _near(results: Results) -> Where:
    return Where.S3 if Where.S3 in results.places else Where.FAR


def _counts(results: Results) -> Height:
    counted = results.counted_ways
    return lambda size, way: results.requests(size, way) if way in counted else None


def _medians(results: Results, where: Where) -> Height:
    return lambda size, way: results.median(size, way, where)


def _panel(
    axis: Axes,
    what: str,
    across: str,
    sizes: Sequence[Size],
    height: Height,
    limits: tuple[float, float],
) -> None:
    one = sizes[0]
    along = [size.files if across == "files" else size.rows for size in sizes]
    fixed = f"{one.rows:,} rows" if across == "files" else f"{one.files} files"
    axis.set_xscale("log")
    frame(axis, f"{what}\n{fixed}, {one.row_bytes} bytes a row", along)
    axis.set_ylim(*limits)
    axis.set_xlim(along[0] / 1.3, along[-1] * 1.3)
    axis.set_xlabel(across)
    ways = [way for way in LINES if any(height(size, way) for size in sizes)]
    lines = [[height(size, way) or math.nan for size in sizes] for way in ways]
    ends = [line[-1] for line in lines]
    gap = _LABEL_GAP * math.log10(limits[1] / limits[0])
    for way, line, end, place in zip(ways, lines, ends, apart(ends, gap), strict=True):
        name, colour, marker = LINES[way]
        axis.plot(along, line, color=colour, marker=marker, markersize=5, linewidth=2)
        number = f"{end:,.0f}" if what == _COUNTED else milliseconds(end)
        label_end(axis, f"{name} {number}", place, colour)
