"""The plot of the first part: requests per call against the number of refs, both sides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from tests.bench.measuring import Measurement

# Of the Okabe-Ito palette: told apart by every kind of colour vision, and by lightness.
OURS, PYLANCE = "#0072B2", "#D55E00"
PANELS = (
    ("read a tag", "tags"),
    ("create a tag on a branch", "tags"),
    ("list tag names", "tags"),
    ("delete a branch", "tags"),
    ("create a branch from main", "branches"),
    ("create a branch from a branch", "branches"),
    ("list branches with contents", "branches"),
    ("delete a branch", "branches"),
)
_LINEAR_BELOW = 100
_LABEL_GAP = 0.75  # of a power of ten


def draw(path: Path, measurements: Sequence[Measurement]) -> None:
    """Small multiples on one scale, each line labelled where it ends."""
    with mpl.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(13, 6.6), dpi=130, layout="constrained")
        axes = figure.subplots(2, len(PANELS) // 2, sharex=True, sharey=True)
        for axis, (call, among) in zip(axes.flat, PANELS, strict=True):
            here = [one for one in measurements if (one.call, one.among) == (call, among)]
            _panel(axis, f"{call}\namong N {among}", here)
        for axis in axes[-1]:
            axis.set_xlabel("N")
        for axis in axes[:, 0]:
            axis.set_ylabel("requests per call")
        figure.suptitle("Requests per call as a dataset's refs grow", fontsize=14, weight="bold")
        figure.savefig(path, metadata={"Software": None})


def _panel(axis: Axes, title: str, measured: Sequence[Measurement]) -> None:
    sizes = [one.refs for one in measured]
    lines = (
        ("pylance", PYLANCE, "s", [one.pylance.total for one in measured]),
        ("ours", OURS, "o", [one.ours.total for one in measured]),
    )
    axis.set_title(title, fontsize=10.5, loc="left")
    axis.set_yscale("log")
    axis.set_xscale("symlog", linthresh=_LINEAR_BELOW, linscale=0.5)
    axis.set_ylim(0.7, 100_000)
    axis.set_xlim(-12, sizes[-1] * 1.3)
    axis.xaxis.set_major_locator(FixedLocator(sizes))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(_short))
    axis.yaxis.set_major_formatter(FuncFormatter(_thousands))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axis.set_axisbelow(True)
    for (name, colour, marker, totals), place in zip(
        lines, _apart(lines[0][3][-1], lines[1][3][-1]), strict=True
    ):
        axis.plot(sizes, totals, color=colour, marker=marker, markersize=5, linewidth=2)
        axis.annotate(
            f"{name} {totals[-1]:,}",
            (1.0, place),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            weight="bold",
            annotation_clip=False,
        )


def _apart(upper: float, lower: float) -> tuple[float, float]:
    """Where the labels of two line ends go, so that they do not overlap on a log scale."""
    gap = 10**_LABEL_GAP
    if upper / lower >= gap:
        return upper, lower
    middle = (upper * lower) ** 0.5
    return middle * gap**0.5, middle / gap**0.5


def _thousands(value: float, _: object) -> str:
    return f"{value:,.0f}"


def _short(value: float, _: object) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"
