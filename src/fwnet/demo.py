"""`fwnet demo`: the main ideas on data that ships with the package, as one HTML page.

Uses public names only, so that every picture doubles as an example.
"""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import torch
from matplotlib.figure import Figure
from torch import Tensor

import fwnet

__all__ = ["DemoReport", "write_demo"]

EXPONENTS = (1.0, 1.3, 2.0, 4.0, math.inf)


@dataclass(frozen=True)
class Section:
    """A picture with the sentence that says what it shows."""

    name: str
    title: str
    text: str
    figure: Figure


@dataclass(frozen=True)
class DemoReport:
    """Where the page is, and its findings in one line each."""

    page: Path
    summary: list[str]


def write_demo(output: Path, progress: Callable[[str], None] = lambda _: None) -> DemoReport:
    """Compute every section, write its picture and the page into the folder `output`."""
    output.mkdir(parents=True, exist_ok=True)
    sections = []
    for message, make in (
        ("pool_p for several p", show_pool),
        ("the oracle on the ball", show_oracle),
        ("projection with its certificate", show_projection),
    ):
        progress(message)
        section = make()
        sections.append(section)
        (output / f"{section.name}.png").write_bytes(_png(section.figure))
    page = output / "index.html"
    page.write_text(_page(sections), encoding="utf-8")
    return DemoReport(page, [section.text for section in sections])


def show_pool() -> Section:
    """Draw one vector beside pool_p of it, from p = 1 to p = ∞."""
    u = torch.tensor([-1.0, 0.55, -0.9, 0.1, -0.3, 0.75, -0.05, 0.2])
    figure = Figure(figsize=(11, 2.6), layout="constrained")
    axes = figure.subplots(1, len(EXPONENTS) + 1, sharey=True)
    bars = [("−u", -u, "0.6")] + [
        (f"p = {_label(p)}", fwnet.pool_p(u, p), color)
        for p, color in zip(EXPONENTS, _colors(), strict=True)
    ]
    for axis, (title, values, color) in zip(axes, bars, strict=True):
        axis.bar(range(len(values)), values.numpy(), color=color)
        axis.axhline(0, color="0.3", linewidth=0.8)
        axis.set(title=title, xticks=[], ylim=(-1.15, 1.15))
        axis.spines[["top", "right", "bottom"]].set_visible(False)
    shares = [
        f"{fwnet.pool_p(u, p).abs().max() / fwnet.pool_p(u, p).abs().sum():.0%} at p = {_label(p)}"
        for p in (1.0, 2.0, math.inf)
    ]
    return Section(
        "pool_p",
        "One unit between max pooling and equal magnitudes",
        "pool_p turns a vector into the point of the Lp ball most opposed to it. The largest entry "
        f"holds {', '.join(shares[:-1])} and {shares[-1]} of the total magnitude.",
        figure,
    )


def show_oracle() -> Section:
    """Draw the balls of the plane and where the oracle goes for one direction."""
    u = torch.tensor([-1.0, -0.6])
    angles = torch.linspace(0, 2 * math.pi, 721)
    circle = torch.stack([angles.cos(), angles.sin()], dim=-1)
    figure = Figure(figsize=(6, 4.6), layout="constrained")
    axis = figure.subplots()
    for p, color in zip(EXPONENTS, _colors(), strict=True):
        ball = fwnet.LpBall(p)
        border = circle / ball.gauge(circle).unsqueeze(-1)
        s = ball.lmo(u)
        axis.plot(*border.T.numpy(), color=color, label=f"p = {_label(p)}")
        axis.plot(*s.numpy(), "o", color=color, markersize=8)
    x, y = (-0.5 * u).tolist()
    axis.annotate("", xy=(x, y), xytext=(0, 0), arrowprops={"arrowstyle": "->", "color": "0.3"})
    axis.text(0.5 * x, 0.9 * y, "−u", ha="center", va="center")
    axis.set_aspect("equal")
    axis.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    axis.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    gaps = [abs((u @ fwnet.pool_p(u, p)).item() + _dual_norm(u, p)) for p in EXPONENTS]
    return Section(
        "oracle",
        "The oracle: how far can each ball go against u?",
        "Each dot is LpBall(p).lmo(u), where Hölder's bound ⟨s, u⟩ ≥ −‖u‖_q is an equality: the "
        f"largest difference here is {max(gaps):.1g}.",
        figure,
    )


def show_projection() -> Section:
    """Project vectors on a ball and compare with Frank-Wolfe iterations for the same problem."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(200, 100, dtype=torch.float64, generator=generator)
    ball = fwnet.LpBall(p=1.3, radius=5.0)
    exact = ball.project(y)
    gap = duality_gap(y, exact, ball)
    z = torch.zeros_like(y)
    steps, gaps = [], []
    for t in range(1000):
        step_size = 2 / (t + 2)
        z = (1 - step_size) * z + step_size * ball.lmo(z - y)
        if (t + 1) & t == 0 or t == 999:
            steps.append(t + 1)
            gaps.append(duality_gap(y, z, ball).max().item())
    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    axis = figure.subplots()
    frank_wolfe, newton = _colors()[1], _colors()[3]
    axis.loglog(steps, gaps, "o-", color=frank_wolfe, label="Frank-Wolfe, steps 2/(t+2)")
    worst = max(gap.max().item(), 1e-16)
    axis.axhline(worst, color=newton, label="LpBall.project")
    axis.set(xlabel="Frank-Wolfe steps", ylabel="largest duality gap of 200 vectors")
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    return Section(
        "projection",
        "Exact projection, with a certificate",
        "200 vectors projected on the ball of p = 1.3 and radius 5: largest duality gap "
        f"{worst:.0e}, {int(ball.contains(exact).sum())} of them inside. "
        f"1,000 Frank-Wolfe steps leave {gaps[-1]:.0e}.",
        figure,
    )


def duality_gap(y: Tensor, z: Tensor, ball: fwnet.LpBall) -> Tensor:
    """⟨z − y, z − s⟩ with s = lmo(z − y): an upper bound on how far z is from optimal."""
    residual = z - y
    return (residual * (z - ball.lmo(residual))).sum(-1)


def _dual_norm(u: Tensor, p: float) -> float:
    return float(torch.linalg.vector_norm(u, ord=fwnet.dual_exponent(p)))


def _label(p: float) -> str:
    return "∞" if p == math.inf else f"{p:g}"


def _colors() -> list[tuple[float, float, float, float]]:
    palette = mpl.colormaps["viridis"]
    return [palette(0.9 * i / (len(EXPONENTS) - 1)) for i in range(len(EXPONENTS))]


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160)
    return buffer.getvalue()


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff }
h1 { margin-bottom: 0 } h2 { margin-top: 2.5rem } img { max-width: 100%; max-height: 28rem }
.lead { color: #555 }
"""


def _page(sections: list[Section]) -> str:
    """Put everything into one file: pictures are embedded, nothing is fetched."""
    body = "\n".join(
        f"<h2>{html.escape(section.title)}</h2>\n<p>{html.escape(section.text)}</p>\n"
        f'<img alt="{html.escape(section.title)}" '
        f'src="data:image/png;base64,{base64.b64encode(_png(section.figure)).decode()}">'
        for section in sections
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>fwnet demo</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>fwnet</h1>\n"
        f'<p class="lead">Lp-norm constrained coding, version {fwnet.__version__}</p>\n'
        f"{body}\n</body></html>\n"
    )
