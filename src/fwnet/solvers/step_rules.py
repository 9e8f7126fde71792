"""Step rules: how far to go along a direction.

A rule sees the objective along the direction, f(γ) = f(0) + slope·γ + ½·curvature·γ², slope ≤ 0,
and returns γ for every row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

__all__ = ["Harmonic", "Line", "ShortStep", "StepRule"]


@dataclass(frozen=True)
class Line:
    """The objective along a direction; all tensors are (rows, 1)."""

    index: int  # the number of the step, from 0
    slope: Tensor  # ⟨∇f, d⟩ ≤ 0
    curvature: Tensor  # ‖Dd‖²
    limit: Tensor | float  # the largest γ that stays in the set

    def change(self, step_size: Tensor) -> Tensor:
        """f(γ) − f(0)."""
        return self.slope * step_size + 0.5 * self.curvature * step_size.square()


class StepRule(Protocol):
    """A function from a line to step sizes γ in [0, limit], (rows, 1)."""

    def __call__(self, line: Line) -> Tensor:
        """Return the step size of every row."""
        ...


@dataclass(frozen=True)
class Harmonic(StepRule):
    """γ = 2/(t + 2), the paper's rule: no line search, error O(1/t)."""

    def __call__(self, line: Line) -> Tensor:
        """Return the same step size for every row."""
        return _within(torch.full_like(line.slope, 2 / (line.index + 2)), line.limit)


@dataclass(frozen=True)
class ShortStep(StepRule):
    """γ = −slope/curvature: the exact line search, since the objective is quadratic."""

    def __call__(self, line: Line) -> Tensor:
        """Return the minimizer on the line; without curvature, the largest step."""
        flat = line.curvature <= 0
        exact = -line.slope / torch.where(flat, 1.0, line.curvature)
        return _within(torch.where(flat, torch.inf, exact), line.limit)


def _within(step_size: Tensor, limit: Tensor | float) -> Tensor:
    return torch.minimum(step_size, torch.as_tensor(limit).to(step_size)).clamp(min=0)
