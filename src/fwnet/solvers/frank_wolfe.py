"""The Frank-Wolfe algorithm, as in the paper and with pairwise steps.

    s = lmo(∇f(z)),     z ← z + γ(s − z),     z⁰ = 0,     f(z) = ½‖x − Dz‖²

The gap ⟨∇f(z), z − s⟩ certifies z. These steps zigzag if the solution is on the border of a
polytope. Pairwise steps, which move weight from the worst vertex in use to the best one, converge
linearly there. A step rule chooses γ from the objective along the direction,
f(γ) = f(0) + slope·γ + ½·curvature·γ², slope ≤ 0.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fwnet.solvers.loop import BindableMethod
from fwnet.solvers.problem import Constrained, Problem
from fwnet.solvers.rows import RowState
from fwnet.solvers.whitened import dot


@dataclass(frozen=True)
class Line:
    """The objective along a direction; all tensors are (rows, 1)."""

    index: int  # the number of the step, from 0
    slope: Tensor  # ⟨∇f, d⟩ ≤ 0
    curvature: Tensor  # ‖Dd‖²
    limit: Tensor | float  # the largest γ that stays in the set


class StepRule(Protocol):
    """A function from a line to step sizes γ in [0, limit], (rows, 1)."""

    def __call__(self, line: Line) -> Tensor:
        """Return the step size of every row."""


@dataclass(frozen=True)
class Harmonic(StepRule):
    """γ = 2/(t + 2), the paper's rule: no line search, error O(1/t).

    >>> import fwnet, torch
    >>> from fwnet.solvers import FrankWolfe, Harmonic
    >>> x = torch.randn(10, 5)
    >>> method = FrankWolfe(Harmonic(), max_steps=20)
    >>> fwnet.solve(x, None, fwnet.LpBall(1.3), method=method, tol=1e-9).summary()
    {'step limit reached': 10}
    """

    def __call__(self, line: Line) -> Tensor:
        """Return the same step size for every row."""
        return _within(torch.full_like(line.slope, 2 / (line.index + 2)), line.limit)


@dataclass(frozen=True)
class ShortStep(StepRule):
    """γ = −slope/curvature: the exact line search, since the objective is quadratic.

    >>> import fwnet, torch
    >>> from fwnet.solvers import FrankWolfe, ShortStep
    >>> x, D = torch.randn(10, 5), torch.randn(5, 8)
    >>> ball = fwnet.LpBall(1.3)
    >>> slow = fwnet.solve(x, D, ball, method=FrankWolfe(), max_steps=20)
    >>> fast = fwnet.solve(x, D, ball, method=FrankWolfe(ShortStep()), max_steps=20)
    >>> bool(fast.gap.sum() < slow.gap.sum())
    True
    """

    def __call__(self, line: Line) -> Tensor:
        """Return the minimizer on the line; without curvature, the largest step."""
        flat = line.curvature <= 0
        exact = -line.slope / torch.where(flat, 1.0, line.curvature)
        return _within(torch.where(flat, torch.inf, exact), line.limit)


def _within(step_size: Tensor, limit: Tensor | float) -> Tensor:
    return torch.minimum(step_size, torch.as_tensor(limit).to(step_size)).clamp(min=0)


@dataclass(frozen=True)
class WolfeState(RowState):
    """An iterate z, and the answer of the oracle to its gradient."""

    problem: Constrained
    x: Tensor
    z: Tensor
    image: Tensor  # Dz
    gradient: Tensor
    oracle: Tensor  # s
    gap: Tensor  # (rows, 1)
    shares: Tensor  # weights of the vertices, for pairwise steps on the L1 ball


@dataclass(frozen=True)
class FrankWolfe(BindableMethod):
    """Frank-Wolfe steps for any convex set, from z = 0.

    >>> import fwnet, torch
    >>> from fwnet.solvers import FrankWolfe, ShortStep
    >>> x = torch.randn(10, 5)
    >>> method = FrankWolfe(ShortStep(), max_steps=100)
    >>> solution = fwnet.solve(x, None, fwnet.LpBall(2.0, radius=0.5), method=method, tol=1e-4)
    >>> solution.summary()
    {'certified': 10}
    """

    step_rule: StepRule = dataclasses.field(default_factory=Harmonic)
    max_steps: int = 10_000

    def bind(self, problem: Problem, tol: float, norm_tol: float) -> _Wolfe:
        """Return the method for this problem. It does not look for the least norm."""
        assert isinstance(problem, Constrained)
        return _Wolfe(problem, self.step_rule, tol)


@dataclass(frozen=True)
class PairwiseFrankWolfe(BindableMethod):
    """Frank-Wolfe with pairwise steps and exact line search, for p = 1 and p = ∞.

    >>> import fwnet, torch
    >>> x, D = torch.randn(10, 5), torch.randn(5, 8)
    >>> solution = fwnet.solve(x, D, fwnet.LpBall(1.0), method="pairwise-frank-wolfe", tol=1e-4)
    >>> bool((solution.gap <= 1e-4 * 0.5 * x.square().sum(-1)).all())
    True
    """

    max_steps: int = 10_000

    def bind(self, problem: Problem, tol: float, norm_tol: float) -> _Wolfe:
        """Return the method for this problem."""
        assert isinstance(problem, Constrained)
        p = problem.exponent
        if p not in (1, math.inf):
            raise ValueError(
                f"pairwise steps need LpBall with p = 1 or p = inf, got {problem.convex_set!r}"
            )
        pairwise = _PairwiseL1 if p == 1 else _PairwiseBox
        return pairwise(problem, ShortStep(), tol)


class _Wolfe:
    def __init__(self, problem: Constrained, step_rule: StepRule, tol: float):
        self.problem, self.step_rule, self.tol = problem, step_rule, tol

    def init(self, x: Tensor) -> WolfeState:
        z = x.new_zeros(len(x), self.problem.dictionary.shape[1])
        return self._evaluate(self.problem, x, z, torch.zeros_like(x), self._first_shares(z))

    def step(self, state: WolfeState, index: int) -> WolfeState:
        direction, limit = self._direction(state)
        image = state.problem.decode(direction)
        line = Line(
            index,
            slope=dot(state.gradient, direction).clamp(max=0),
            curvature=dot(image, image),
            limit=limit,
        )
        step_size = self.step_rule(line)
        return self._evaluate(
            state.problem,
            state.x,
            self._kept_inside(state.z + step_size * direction),
            state.image + step_size * image,
            self._shifted_shares(state, step_size),
        )

    def finished(self, state: WolfeState) -> Tensor:
        return (state.gap <= self.tol * 0.5 * dot(state.x, state.x)).squeeze(-1)

    def answer(self, state: WolfeState) -> tuple[Tensor, Tensor]:
        return state.z, state.x - state.image

    def _evaluate(
        self, problem: Constrained, x: Tensor, z: Tensor, image: Tensor, shares: Tensor
    ) -> WolfeState:
        gradient = problem.correlate(image - x)
        oracle = problem.convex_set.lmo(gradient)
        gap = dot(gradient, z - oracle)
        return WolfeState(problem, x, z, image, gradient, oracle, gap, shares)

    def _direction(self, state: WolfeState) -> tuple[Tensor, Tensor | float]:
        """Return the direction and the largest step size that stays in the set."""
        return state.oracle - state.z, 1.0

    def _first_shares(self, z: Tensor) -> Tensor:
        return z[:, :0]

    def _shifted_shares(self, state: WolfeState, step_size: Tensor) -> Tensor:
        return state.shares

    def _kept_inside(self, z: Tensor) -> Tensor:
        return z


class _PairwiseL1(_Wolfe):
    """z = c·(shares of +e_i − shares of −e_i). A step moves weight from one vertex to another."""

    def _first_shares(self, z: Tensor) -> Tensor:
        m = z.shape[1]
        shares = z.new_zeros(len(z), 2 * m)
        shares[:, 0] = shares[:, m] = 0.5  # the origin, in terms of vertices
        return shares

    def _pair(self, state: WolfeState) -> tuple[Tensor, Tensor]:
        """Return the best vertex, and the worst of those in use."""
        values = torch.cat([state.gradient, -state.gradient], -1)
        best = values.argmin(-1, keepdim=True)
        worst = torch.where(state.shares > 0, values, -torch.inf).argmax(-1, keepdim=True)
        return best, worst

    def _vertex(self, state: WolfeState, index: Tensor) -> Tensor:
        m = state.z.shape[1]
        sign = torch.where(index < m, self.problem.radius, -self.problem.radius).to(state.z)
        return torch.zeros_like(state.z).scatter(-1, index % m, sign)

    def _direction(self, state: WolfeState) -> tuple[Tensor, Tensor | float]:
        best, worst = self._pair(state)
        limit = state.shares.gather(-1, worst)
        return self._vertex(state, best) - self._vertex(state, worst), limit

    def _shifted_shares(self, state: WolfeState, step_size: Tensor) -> Tensor:
        best, worst = self._pair(state)
        used_up = step_size >= state.shares.gather(-1, worst)
        shares = state.shares.scatter_add(-1, best, step_size)
        shares = shares.scatter_add(-1, worst, -step_size).clamp(min=0)
        left = shares.gather(-1, worst)
        return shares.scatter(-1, worst, torch.where(used_up & (best != worst), 0.0, left))


class _PairwiseBox(_Wolfe):
    """Move from the worst vertex of the face on which z lies to the best vertex of the box."""

    def _direction(self, state: WolfeState) -> tuple[Tensor, Tensor | float]:
        c, z = self.problem.radius, state.z
        worst = torch.where(z.abs() >= c, z, c * state.gradient.sign())
        best = torch.where(state.gradient == 0, worst, state.oracle)
        direction = best - worst
        room = torch.where(direction > 0, c - z, c + z) / direction.abs()
        limit = torch.where(direction == 0, torch.inf, room).amin(-1, keepdim=True)
        return direction, torch.where(limit.isfinite(), limit, 0.0)

    def _kept_inside(self, z: Tensor) -> Tensor:
        """Put entries within rounding of a bound on the bound, so that their face is recognized."""
        c = self.problem.radius
        near = z.abs() >= c * (1 - 8 * torch.finfo(z.dtype).eps)
        return torch.where(near, c * z.sign(), z)
