"""What the pictures of the experiments have in common."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fwnet.experiments.experiment import Row

__all__ = ["color", "new_figure", "plot_rows", "tidy"]


def new_figure(columns: int = 1, rows: int = 1, width: float = 5.2) -> tuple[Figure, Any]:
    """A figure with its axes, as an array if there are several."""
    figure = Figure(figsize=(width * columns, 3.9 * rows), layout="constrained")
    return figure, figure.subplots(rows, columns)


def color(index: int, count: int) -> Any:
    """One of so many colors that are told apart in gray, too."""
    return mpl.colormaps["viridis"](0.92 * index / max(1, count - 1))


def plot_rows(axis: Axes, rows: list[Row], key: str, **style: Any) -> None:
    """Draw figures with their spread against one of their settings."""
    axis.errorbar(
        [row.setting[key] for row in rows],
        [row.ours for row in rows],
        [row.spread or 0 for row in rows],
        capsize=3,
        **style,
    )


def tidy(axis: Axes, legend: bool = True, **labels: Any) -> None:
    """Label the axes and take away what is not read."""
    axis.set(**labels)
    axis.spines[["top", "right"]].set_visible(False)
    if legend:
        axis.legend(frameon=False, fontsize=8)
