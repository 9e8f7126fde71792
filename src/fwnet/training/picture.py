"""Draw the history of a training."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from fwnet.training.task import ShownFigure


def draw_history(history: Sequence[Mapping[str, Any]], shown: ShownFigure) -> Figure:
    """Draw loss, validation and learned numbers (p, γ, …) by epoch.

    Where the loss is proportional to the validation figure, both share one plot.
    """
    last = history[-1]
    watched = [
        name
        for name, value in last.items()
        if name not in ("step", "epoch", "loss", "learning_rate", "seconds", "validation")
        and isinstance(value, float | list)
    ]
    validated, together = "validation" in last, shown.loss_factor is not None
    count = 1 + (validated and not together) + len(watched)
    figure = Figure(figsize=(4.5 * count, 3.4), layout="constrained")
    axes = list(figure.subplots(1, count, squeeze=False)[0])
    epochs = [record["epoch"] for record in history]
    for axis in axes:
        axis.set(xlabel="epoch")
        axis.spines[["top", "right"]].set_visible(False)

    axis = axes.pop(0)
    factor = shown.loss_factor or 1.0
    losses = [factor * record["loss"] for record in history]
    axis.plot(epochs, losses, label="training", color="0.3")
    axis.set(ylabel=shown.name if together else "loss")
    if validated:
        values = [shown.scale(record["validation"]) for record in history]
        below = axis if together else axes.pop(0)
        below.plot(epochs, values, label="validation", color="C0")
        below.set(ylabel=f"{shown.name} ({shown.unit})" if shown.unit else shown.name)
        if together:
            axis.legend(frameon=False)
    for axis, name in zip(axes, watched, strict=True):
        axis.plot(epochs, [record[name] for record in history], color="C0", linewidth=1)
        axis.set(ylabel=name)
    return figure
