"""Figures and pictures inside a page: SVG in the color of the text around it, and WebP."""

import base64
import html
import io
import math
import re
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from fwnet.sets import LpBall


def svg(figure: Figure, title: str) -> str:
    """Return a figure as SVG. What is black in it takes the color of the page's text."""
    file = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = file.getvalue()
    text = text[text.index("<svg") :].replace("#000000", "currentColor")
    text = re.sub(r"font: ([^;\"]*?)'[^;\"]*", r"font: \1system-ui, sans-serif", text)
    label = f'<svg role="img" aria-label="{html.escape(title)}" fill="currentColor"'
    return text.replace("<svg", label, 1)


def webp(image: np.ndarray, quality: int = 80) -> str:
    """Return an image of 8 bits as the address of an <img>."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "WEBP", quality=quality, method=6)
    return f"data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}"


def draw_ball(axis: Axes, p: float, u: Tensor, color: object, label: str | None = None) -> None:
    """Draw the border of the Lp ball of the plane, and the answer of its oracle to u."""
    angles = torch.linspace(0, 2 * math.pi, 361)
    circle = torch.stack([angles.cos(), angles.sin()], dim=-1)
    ball = LpBall(p)
    border = circle / ball.gauge(circle).unsqueeze(-1)
    axis.plot(*border.T.numpy(), color=color, label=label)
    axis.plot(*ball.lmo(u).numpy(), "o", color=color, markersize=8)


def draw_direction(axis: Axes, u: Tensor) -> None:
    """Draw an arrow along −u, and nothing but whole numbers on the axes."""
    x, y = (-0.5 * u).tolist()
    axis.annotate("", xy=(x, y), xytext=(0, 0), arrowprops={"arrowstyle": "->"})
    axis.text(0.5 * x, 0.9 * y, "−u", ha="center", va="center")
    axis.set_aspect("equal")
    axis.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    remove_frame(axis)


def draw_entries(axis: Axes, values: Tensor, color: object, title: str) -> None:
    """Draw the entries of a vector as bars from 0."""
    axis.bar(range(len(values)), values.tolist(), color=color)
    axis.axhline(0, color="black", linewidth=0.8, alpha=0.6)
    axis.set(title=title, xticks=[])
    axis.spines[["top", "right", "bottom"]].set_visible(False)


def draw_training(
    figure: Figure,
    exponents: Sequence[float],
    true_p: float,
    errors: Sequence[float],
    color: object,
) -> tuple[Axes, Axes]:
    """Draw p and the error on new signals over the epochs; return both axes."""
    left, right = figure.subplots(1, 2)
    left.plot(exponents, color=color, label="learned")
    left.axhline(true_p, color="black", alpha=0.6, linestyle=":", label="true p")
    left.set(xlabel="epoch", ylabel="p")
    right.plot(errors, color=color, label="network, 4 layers")
    right.set(xlabel="epoch", ylabel="error on new signals", ylim=(0, 1.1 * max(errors)))
    for axis in (left, right):
        remove_frame(axis)
    return left, right


def remove_frame(axis: Axes) -> None:
    """Keep only the left and the lower line."""
    axis.spines[["top", "right"]].set_visible(False)


def label_of(p: float) -> str:
    """Return p in words: "1.3", "∞"."""
    return "∞" if p == math.inf else f"{p:g}"
