"""The history of a training as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

__all__ = ["draw_history"]


def draw_history(history: Sequence[Mapping[str, Any]]) -> Figure:
    """Loss and validation by epoch, and beside them the learned numbers: p, γ, …"""
    watched = [
        name
        for name, value in history[-1].items()
        if name not in ("step", "epoch", "loss", "learning_rate", "seconds", "validation")
        and isinstance(value, float | list)
    ]
    figure = Figure(figsize=(4.5 * (1 + len(watched)), 3.4), layout="constrained")
    axes = figure.subplots(1, 1 + len(watched), squeeze=False)[0]
    epochs = [record["epoch"] for record in history]
    axes[0].plot(epochs, [2 * record["loss"] for record in history], label="training", color="0.3")
    if "validation" in history[-1]:
        values = [record["validation"] for record in history]
        axes[0].plot(epochs, values, label="validation", color="C0")
        axes[0].legend(frameon=False)
    axes[0].set(ylabel="error a sample")
    for axis, name in zip(axes[1:], watched, strict=True):
        axis.plot(epochs, [record[name] for record in history], color="C0", linewidth=1)
        axis.set(ylabel=name)
    for axis in axes:
        axis.set(xlabel="epoch")
        axis.spines[["top", "right"]].set_visible(False)
    return figure
