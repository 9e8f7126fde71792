"""What the pictures of the experiments have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fwnet.experiments.experiment import Row

__all__ = ["bars", "color", "marker", "new_figure", "plot_rows", "tidy"]

MARKERS = "osD^v<>PX*hd"
MOST_OF_ONE_HUE = 6


def new_figure(columns: int = 1, rows: int = 1, width: float = 5.2) -> tuple[Figure, Any]:
    """A figure with its axes, as an array if there are several."""
    figure = Figure(figsize=(width * columns, 3.9 * rows), layout="constrained")
    return figure, figure.subplots(rows, columns)


def color(index: int, count: int) -> Any:
    """One of so many colors: from dark to light if they are few, otherwise of different hues."""
    if count <= MOST_OF_ONE_HUE:
        return mpl.colormaps["viridis"](0.92 * index / max(1, count - 1))
    return mpl.colormaps["tab20" if count > 10 else "tab10"](index)


def marker(index: int) -> str:
    """A shape that goes with a color."""
    return MARKERS[index % len(MARKERS)]


def plot_rows(axis: Axes, rows: list[Row], key: str, **style: Any) -> None:
    """Draw figures with their spread against one of their settings."""
    axis.errorbar(
        [row.setting[key] for row in rows],
        [row.ours for row in rows],
        [row.spread or 0 for row in rows],
        capsize=3,
        **{"marker": "o", "markersize": 5, **style},
    )


def bars(axis: Axes, rows: list[Row], is_ours: Callable[[Row], bool], **labels: Any) -> None:
    """One bar a method, the longest on top, with its spread; crosses are the paper's figures."""
    rows = sorted(rows, key=lambda row: row.ours)
    for index, row in enumerate(rows):
        axis.barh(index, row.ours, xerr=row.spread or 0, color=color(1 if is_ours(row) else 3, 4))
        if row.paper is not None:
            axis.plot(row.paper, index, "X", color="black", markeredgecolor="white")
    values = [row.ours for row in rows] + [row.paper for row in rows if row.paper is not None]
    margin = 0.05 * (max(values) - min(values)) + 0.02
    axis.set_yticks(range(len(rows)), [row.method for row in rows], fontsize=7)
    axis.set_xlim(min(values) - margin, max(values) + margin)
    tidy(axis, legend=False, **labels)


def tidy(axis: Axes, legend: bool = True, legend_beside: bool = False, **labels: Any) -> None:
    """Label the axes and take away what is not read."""
    axis.set(**labels)
    axis.spines[["top", "right"]].set_visible(False)
    if legend_beside:
        axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5))
    elif legend:
        axis.legend(frameon=False, fontsize=8)
