"""The plot of the third part: requests and memory against the number of triggers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from tests.bench.plotting import OURS, PYLANCE, figure, frame, label_end
from tests.bench.sensors_results import Result


def draw(path: Path, results: Sequence[Result]) -> None:
    """Draw the cases that have as many sensors as watchers."""
    even = [one for one in results if one.case.sensors == one.case.watchers and one.case.triggers]
    with figure(path, "Waiting for tags in ten datasets", 9.5, 3.8) as drawn:
        left, right = drawn.subplots(1, 2)
        _draw_requests(left, even)
        _draw_memory(right, even)


def _draw_requests(axis: Axes, results: Sequence[Result]) -> None:
    triggers = [one.case.triggers for one in results]
    axis.set_xscale("log")
    frame(axis, "Requests per interval, by triggers", triggers)
    ours = [one.per_interval for one in results]
    axis.plot(triggers, triggers, color=PYLANCE, marker="o", linestyle="--")
    axis.plot(triggers, ours, color=OURS, marker="o")
    axis.set_ylim(1, max(triggers) * 2)
    label_end(axis, "one by one", triggers[-1], PYLANCE)
    label_end(axis, "shared", ours[-1], OURS)


def _draw_memory(axis: Axes, results: Sequence[Result]) -> None:
    triggers = [one.case.triggers for one in results]
    axis.set_xscale("log")
    frame(axis, "Memory of the triggerer in MB, by triggers", triggers)
    axis.set_yscale("linear")
    memory = [one.memory / 1e6 for one in results]
    axis.plot(triggers, memory, color=OURS, marker="o")
    axis.set_ylim(0, max(memory) * 1.2)
    label_end(axis, f"{memory[-1]:,.0f}", memory[-1], OURS)
