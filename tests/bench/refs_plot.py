"""The plot of the first part: requests per call against the number of refs, both sides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from tests.bench.measuring import Measurement
from tests.bench.plotting import OURS, PYLANCE, apart, figure, frame, label_end

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
    with figure(path, "Requests per call as a dataset's refs grow", 13, 6.6) as drawn:
        axes = drawn.subplots(2, len(PANELS) // 2, sharex=True, sharey=True)
        for axis, (call, among) in zip(axes.flat, PANELS, strict=True):
            here = [one for one in measurements if (one.call, one.among) == (call, among)]
            _panel(axis, f"{call}\namong N {among}", here)
        for axis in axes[-1]:
            axis.set_xlabel("N")
        for axis in axes[:, 0]:
            axis.set_ylabel("requests per call")


def _panel(axis: Axes, title: str, measured: Sequence[Measurement]) -> None:
    sizes = [one.refs for one in measured]
    lines = (
        ("pylance", PYLANCE, "s", [one.pylance.total for one in measured]),
        ("ours", OURS, "o", [one.ours.total for one in measured]),
    )
    axis.set_xscale("symlog", linthresh=_LINEAR_BELOW, linscale=0.5)
    frame(axis, title, sizes)
    axis.set_ylim(0.7, 100_000)
    axis.set_xlim(-12, sizes[-1] * 1.3)
    places = apart([totals[-1] for *_, totals in lines], _LABEL_GAP)
    for (name, colour, marker, totals), place in zip(lines, places, strict=True):
        axis.plot(sizes, totals, color=colour, marker=marker, markersize=5, linewidth=2)
        label_end(axis, f"{name} {totals[-1]:,}", place, colour)
