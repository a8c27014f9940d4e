"""What every part's plot is made of: colours, numbers on axes, and labels where lines end."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

# Of the Okabe-Ito palette: told apart by every kind of colour vision, and by lightness.
OURS, PYLANCE, BETWEEN, SPARK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"


@contextlib.contextmanager
def figure(path: Path, title: str, width: float, height: float) -> Iterator[Figure]:
    """A figure that is saved at the end."""
    with mpl.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        drawn = Figure(figsize=(width, height), dpi=130, layout="constrained")
        yield drawn
        drawn.suptitle(title, fontsize=14, weight="bold")
        drawn.savefig(path, metadata={"Software": None})


def frame(axis: Axes, title: str, sizes: Sequence[float]) -> None:
    """Title, grid and ticks of a panel: plain numbers upwards, short ones at the sizes."""
    axis.set_title(title, fontsize=10.5, loc="left")
    axis.set_yscale("log")
    axis.xaxis.set_major_locator(FixedLocator(sizes))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(_short))
    axis.yaxis.set_major_formatter(FuncFormatter(_thousands))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axis.set_axisbelow(True)


def label_end(axis: Axes, text: str, height: float, colour: str) -> None:
    """Say what a line is, right of where it ends."""
    axis.annotate(
        text,
        (1.0, height),
        xycoords=("axes fraction", "data"),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        color=colour,
        weight="bold",
        annotation_clip=False,
    )


def apart(ends: Sequence[float], gap: float) -> list[float]:
    """Where the labels of lines go that end there, a gap apart in powers of ten.

    Labels that would overlap are spread around their middle; of equals the earlier is the upper.
    """
    groups: list[list[int]] = []
    for number in sorted(range(len(ends)), key=lambda one: (ends[one], -one)):
        groups.append([number])
        while len(groups) > 1 and (
            _spread(groups[-1], ends, gap)[0] - _spread(groups[-2], ends, gap)[-1] < gap
        ):
            groups[-2:] = [groups[-2] + groups[-1]]
    placed = {
        number: 10**height
        for group in groups
        for number, height in zip(group, _spread(group, ends, gap), strict=True)
    }
    return [placed[number] for number in range(len(ends))]


def _spread(group: Sequence[int], ends: Sequence[float], gap: float) -> list[float]:
    middle = sum(math.log10(ends[number]) for number in group) / len(group)
    return [middle + gap * (place - (len(group) - 1) / 2) for place in range(len(group))]


def _thousands(value: float, _: object) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _short(value: float, _: object) -> str:
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if value >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"
