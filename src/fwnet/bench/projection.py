"""Projection onto the Lp ball, compared with the paper's Frank-Wolfe iterations."""

import dataclasses

import torch
from torch import Tensor

import fwnet
from fwnet.bench.harness import Options, Report, compare

RADIUS, P = 5.0, 1.3


def run(options: Options) -> Report:
    """Project 15,000 vectors of length 100 in float64: p = 1.3, radius 5, as in the paper."""
    count, steps = (300, 500) if options.quick else (15_000, 5_000)
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(count, 100, dtype=torch.float64, generator=generator).to(options.device)
    ball = fwnet.LpBall(P, RADIUS)
    frank_wolfe = f"Frank-Wolfe, {steps:,} steps of 2/(t+2)"
    report = options.report("projection", baseline="LpBall.project")
    group = f"{count:,} × 100 float64, p = {P}"
    (ours,) = compare(group, {"LpBall.project": lambda _: ball.project(y)}, options)
    # This takes minutes, so run it once: its spread is far below the ratio.
    paper = {frank_wolfe: lambda _: frank_wolfe_projection(y, ball, steps)}
    (theirs,) = compare(group, paper, options, rounds=1, warmup=0, measure_memory=False)
    ratio = theirs.milliseconds / ours.milliseconds
    report.rows = [ours, dataclasses.replace(theirs, ratio=ratio)]
    exact = ball.project(y)
    report.notes = {
        "times as fast as the paper's way": ratio,
        "largest optimality residual": optimality_residual(y, exact).max().item(),
        "largest distance left by Frank-Wolfe": (
            (frank_wolfe_projection(y[:100], ball, steps) - exact[:100]).norm(dim=-1).max().item()
        ),
        "seed": 0,
    }
    return report


def frank_wolfe_projection(y: Tensor, ball: fwnet.LpBall, steps: int) -> Tensor:
    """z ← (1 − γ)z + γ·lmo(z − y), γ = 2/(t + 2), from z = 0: the paper's method."""
    z = torch.zeros_like(y)
    for t in range(steps):
        z = torch.lerp(z, ball.lmo(z - y), 2 / (t + 2))
    return z


def optimality_residual(y: Tensor, z: Tensor) -> Tensor:
    """Return the largest violation of z + μ·sign(z)|z|^(p−1) = y and ‖z‖_p = radius."""
    t, a = z.abs() / RADIUS, y.abs() / RADIUS
    normal = t ** (P - 1)
    top = t.argmax(-1, keepdim=True)
    mu = (a - t).gather(-1, top) / normal.gather(-1, top)
    stationarity = (t + mu * normal - a).abs().amax(-1) / a.amax(-1)
    return torch.maximum(stationarity, (torch.linalg.vector_norm(t, P, dim=-1) - 1).abs())
