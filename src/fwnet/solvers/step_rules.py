"""How far to go along a direction: step rules as objects.

A rule sees the objective along the direction, f(γ) = f(0) + slope·γ + ½·curvature·γ², slope ≤ 0,
and returns γ for every row. What it has to remember between steps is a number a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

__all__ = ["Backtracking", "FixedStep", "Harmonic", "Line", "ShortStep", "StepRule"]


@dataclass(frozen=True)
class Line:
    """The objective along a direction; all tensors are (rows, 1)."""

    index: int  # which step of the method this is, from 0
    slope: Tensor  # ⟨∇f, d⟩ ≤ 0
    curvature: Tensor  # ‖Dd‖²
    squared_length: Tensor  # ‖d‖²
    limit: Tensor | float  # the largest γ that stays in the set

    def change(self, step_size: Tensor) -> Tensor:
        """f(γ) − f(0)."""
        return self.slope * step_size + 0.5 * self.curvature * step_size.square()


class StepRule(Protocol):
    """A rule with its settings."""

    def init(self, like: Tensor) -> Tensor:
        """What to remember before the first step, (rows, 1)."""
        return torch.zeros_like(like)

    def __call__(self, line: Line, memory: Tensor) -> tuple[Tensor, Tensor]:
        """The step sizes, and what to remember."""
        ...


def _within(step_size: Tensor, limit: Tensor | float) -> Tensor:
    return torch.minimum(step_size, torch.as_tensor(limit).to(step_size)).clamp(min=0)


@dataclass(frozen=True)
class Harmonic(StepRule):
    """γ = 2/(t + 2), the paper's rule: no line search, error O(1/t)."""

    def __call__(self, line: Line, memory: Tensor) -> tuple[Tensor, Tensor]:
        """The same for every row."""
        return _within(torch.full_like(line.slope, 2 / (line.index + 2)), line.limit), memory


@dataclass(frozen=True)
class ShortStep(StepRule):
    """γ = −slope/curvature: the exact line search, since the objective is quadratic."""

    def __call__(self, line: Line, memory: Tensor) -> tuple[Tensor, Tensor]:
        """A direction without curvature is followed to its end."""
        flat = line.curvature <= 0
        exact = -line.slope / torch.where(flat, 1.0, line.curvature)
        return _within(torch.where(flat, torch.inf, exact), line.limit), memory


@dataclass(frozen=True)
class FixedStep(StepRule):
    """γ the same at every step."""

    step_size: float

    def __post_init__(self) -> None:
        if not 0 < self.step_size <= 1:
            raise ValueError(f"step_size must be in (0, 1], got {self.step_size!r}")

    def __call__(self, line: Line, memory: Tensor) -> tuple[Tensor, Tensor]:
        """The same for every row."""
        return _within(torch.full_like(line.slope, self.step_size), line.limit), memory


@dataclass(frozen=True)
class Backtracking(StepRule):
    """γ = −slope/(M‖d‖²) with the M that the last steps needed.

    M shrinks a little at every step and grows until f(γ) ≤ f(0) + slope·γ + ½M‖d‖²γ² holds.
    """

    shrink: float = 0.9
    grow: float = 2.0

    def __post_init__(self) -> None:
        if not (0 < self.shrink <= 1 < self.grow):
            raise ValueError(
                f"expected 0 < shrink <= 1 < grow, got shrink={self.shrink!r}, grow={self.grow!r}"
            )

    def __call__(self, line: Line, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Memory holds M; 0 means that nothing is known yet."""
        length = line.squared_length.clamp(min=torch.finfo(memory.dtype).tiny)
        first = 1e-3 * line.curvature / length  # low: it grows by itself
        model = torch.where(memory > 0, self.shrink * memory, first)
        model = model.clamp(min=torch.finfo(memory.dtype).tiny)
        while True:
            step_size = _within(-line.slope / (model * length), line.limit)
            promised = line.slope * step_size + 0.5 * model * length * step_size.square()
            rounding = 1e-12 * promised.abs()
            short = line.change(step_size) > promised + rounding
            if not short.any():
                return step_size, model
            model = torch.where(short, self.grow * model, model)
