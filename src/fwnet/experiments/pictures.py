"""Pictures of results, as lists of panels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fwnet.experiments.experiment import Result, Row

MARKERS = "osD^v<>PX*hd"
MOST_OF_ONE_HUE = 6


def color(index: int, count: int) -> Any:
    """Return a color: from dark to light for a few, otherwise of different hues."""
    if count <= MOST_OF_ONE_HUE:
        return mpl.colormaps["viridis"](0.92 * index / max(1, count - 1))
    return mpl.colormaps["tab20" if count > 10 else "tab10"](index)


@dataclass(frozen=True, kw_only=True)
class Panel(ABC):
    """One panel of a picture.

    Attributes:
        title: Title of the panel.
        methods: Methods that are shown; by default all.
        quantity: What is shown; by default everything.
        where: Settings of the rows that are shown.
        by: Setting for whose values the panel is repeated, such as "images".
        legend: Whether there is a legend, or "beside" for one beside the axes.
        labels: Other properties of the axes, such as xlabel or yscale.
    """

    title: str = ""
    methods: Sequence[str] = ()
    quantity: str | None = None
    where: dict[str, Any] = field(default_factory=dict)
    by: str = ""
    legend: bool | str = True
    labels: dict[str, Any] = field(default_factory=dict)

    @abstractmethod
    def draw(self, axis: Axes, result: Result) -> None:
        """Draw the panel."""

    def repeated(self, result: Result) -> list[Panel]:
        """Return one panel for every value of `by`."""
        if not self.by:
            return [self]
        return [
            replace(self, by="", where={self.by: value}, title=f"{self.title}{value}")
            for value in result.values_of(self.by, quantity=self.quantity)
        ]

    def rows(self, result: Result) -> list[Row]:
        """Return the rows that are shown."""
        rows = result.select(quantity=self.quantity, **self.where)
        return [row for row in rows if not self.methods or row.method in self.methods]

    def finish(self, axis: Axes, **labels: Any) -> None:
        """Set title, labels and legend."""
        axis.set(**{**labels, "title": self.title, **self.labels})
        axis.spines[["top", "right"]].set_visible(False)
        if self.legend and axis.get_legend_handles_labels()[0]:
            beside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.02, 0.5)}
            axis.legend(frameon=False, fontsize=8, **(beside if self.legend == "beside" else {}))


@dataclass(frozen=True, kw_only=True)
class Lines(Panel):
    """Figures with their spread against a setting, one line per method.

    Attributes:
        x: The setting.
        apart: Another setting whose values have lines of their own.
        split: Text in the names of methods; those that are the same before it share a line.
        guide: Height of a dotted line, or "diagonal".
    """

    x: str
    apart: str = ""
    split: str = ""
    guide: float | str | None = None

    def draw(self, axis: Axes, result: Result) -> None:
        """Draw the lines; dotted ones with crosses are those of the paper."""
        lines: dict[str, list[Row]] = {}
        for row in self.rows(result):
            if self.x in row.setting:
                beside = f", {self.apart} = {row.setting[self.apart]}" if self.apart else ""
                name = row.method.partition(self.split)[0] if self.split else row.method
                lines.setdefault(f"{name}{beside}", []).append(row)
        for index, (label, rows) in enumerate(lines.items()):
            rows.sort(key=lambda row: row.setting[self.x])
            places, shade = [row.setting[self.x] for row in rows], color(index, len(lines))
            axis.errorbar(
                places,
                [row.mean for row in rows],
                [row.spread or 0 for row in rows],
                capsize=3,
                marker=MARKERS[index % len(MARKERS)],
                markersize=5,
                color=shade,
                label=label,
            )
            papers = [row.paper for row in rows if row.paper is not None]
            if len(papers) == len(rows):
                axis.plot(places, papers, "x:", color=shade, label=f"{label}, the paper")
        if self.guide == "diagonal":
            axis.axline((1.5, 1.5), slope=1, color="0.6", linestyle=":")
        elif isinstance(self.guide, float):
            axis.axhline(self.guide, color="0.6", linestyle=":")
        self.finish(axis, xlabel=self.x, ylabel=self.quantity or "")


@dataclass(frozen=True, kw_only=True)
class Curves(Panel):
    """Curves of a result by epoch.

    Attributes:
        prefix: How the names of the curves begin; the rest is the label.
        names: Names of the curves, instead.
    """

    prefix: str = ""
    names: Sequence[str] = ()

    def draw(self, axis: Axes, result: Result) -> None:
        """Draw one line per curve."""
        names = self.names or [name for name in result.details if name.startswith(self.prefix)]
        known = [name for name in names if isinstance(result.details.get(name), list)]
        for index, name in enumerate(known):
            curve, label = result.details[name], name.removeprefix(self.prefix)
            places = range(1, len(curve) + 1)
            axis.plot(places, curve, color=color(index, len(known)), label=label)
        self.finish(axis, xlabel="epoch")


@dataclass(frozen=True, kw_only=True)
class Bars(Panel):
    """One bar per row, the longest on top, with its spread; crosses are the paper's figures.

    Attributes:
        label: Setting that labels the bars; by default the method.
        from_zero: Whether bars start at 0, and stay in the order of the rows.
        guide: Place of a dashed line.
    """

    label: str = ""
    from_zero: bool = False
    guide: float | None = None

    def draw(self, axis: Axes, result: Result) -> None:
        """Draw the bars; those of Frank-Wolfe networks are darker."""
        rows = self.rows(result)
        rows = rows[::-1] if self.from_zero else sorted(rows, key=lambda row: row.mean)
        for index, row in enumerate(rows):
            shade = color(1 if "fw" in row.method.lower().replace("-", "") else 3, 4)
            axis.barh(index, row.mean, xerr=row.spread or 0, color=shade)
            if row.paper is not None:
                axis.plot(row.paper, index, "X", color="black", markeredgecolor="white")
        labels = [row.setting[self.label] if self.label else row.method for row in rows]
        axis.set_yticks(range(len(rows)), labels, fontsize=7)
        if self.guide is not None:
            axis.axvline(self.guide, color="0.2", linestyle="--")
        if not self.from_zero and rows:
            values = [row.mean for row in rows] + [r.paper for r in rows if r.paper is not None]
            margin = 0.05 * (max(values) - min(values)) + 0.02
            axis.set_xlim(min(values) - margin, max(values) + margin)
        self.finish(axis, xlabel=f"{self.quantity or ''} (crosses: the paper)")


def panels(
    *parts: Panel, columns: int | None = None, width: float = 5.2
) -> Callable[[Result], Figure]:
    """Return a function that draws the panels of a result side by side."""

    def draw(result: Result) -> Figure:
        listed = [panel for part in parts for panel in part.repeated(result)]
        across = min(columns or len(listed), len(listed))
        down = -(-len(listed) // across)
        figure = Figure(figsize=(width * across, 3.9 * down), layout="constrained")
        axes = figure.subplots(down, across, squeeze=False)
        for axis, panel in zip(axes.flat, listed, strict=False):
            panel.draw(axis, result)
        return figure

    return draw
