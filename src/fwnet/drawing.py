"""Pages in one file, with figures as SVG in the color of the text, and pictures as WebP."""

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

STYLE = """
:root { color-scheme: light dark; --ink: #222; --soft: #666; --paper: #fff; --line: #ddd }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ddd; --soft: #999; --paper: #16181c; --line: #444 }
}
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: var(--ink); background: var(--paper) }
h1 { margin-bottom: 0 } h2 { margin-top: 2.5rem } .lead { color: var(--soft) }
svg { display: block; max-width: 100%; height: auto }
td, th { padding: .2rem 1rem .2rem 0; text-align: left; border-bottom: 1px solid var(--line) }
td + td, th + th { text-align: right }
.compare { --at: 50%; position: relative; max-width: 32rem }
.compare img { display: block; width: 100% }
.over { position: absolute; inset: 0; clip-path: inset(0 calc(100% - var(--at)) 0 0) }
.compare::after { content: ""; position: absolute; top: 0; bottom: 1.6rem; left: var(--at);
                  width: 2px; background: #fff; box-shadow: 0 0 3px #000; pointer-events: none }
.compare input { width: 100%; height: 1.6rem; margin: 0 }
table { border-collapse: collapse } code { font-size: .9em; overflow-wrap: anywhere }
.names { display: flex; justify-content: space-between; max-width: 32rem; margin: 0;
         color: var(--soft) }
"""


def page(title: str, heading: str, lead: str, body: str) -> str:
    """Return an HTML page, light and dark, that loads no other files. `body` is HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title>"
        '<meta name="viewport" content="width=device-width">'
        '<link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head>\n<body><h1>{html.escape(heading)}</h1>\n"
        f'<p class="lead">{html.escape(lead)}</p>\n'
        f"{body}</body></html>\n"
    )


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


def webp(image: np.ndarray) -> str:
    """Return an image of 8 bits as the address of an <img>."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "WEBP", quality=80, method=6)
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
    right.set(
        xlabel="epoch",
        ylabel="squared error of a code,\nmean of new signals",
        ylim=(0, 1.1 * max(errors)),
    )
    for axis in (left, right):
        remove_frame(axis)
    return left, right


def remove_frame(axis: Axes) -> None:
    """Keep only the left and the lower line."""
    axis.spines[["top", "right"]].set_visible(False)


def label_of(p: float) -> str:
    """Return p in words: "1.3", "∞"."""
    return "∞" if p == math.inf else f"{p:g}"
