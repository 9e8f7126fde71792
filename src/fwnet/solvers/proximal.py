"""ISTA and FISTA: gradient steps, each followed by a proximal operator.

    z ← prox(y + Dᵀ(x − Dy)/L),      L = ‖D‖²

For a constraint the proximal operator is the projection onto the set; for the penalty λ‖z‖₁ it is
soft thresholding. ISTA has y = z. FISTA extrapolates, y = z + β(z − z_before), and resets the
momentum of a row when the objective would increase.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fwnet.solvers.loop import BindableMethod
from fwnet.solvers.problem import Constrained, Problem
from fwnet.solvers.rows import RowState
from fwnet.solvers.whitened import dot


@dataclass(frozen=True)
class ProximalState(RowState):
    """The iterate, and the point at which the next step starts."""

    problem: Problem
    x: Tensor
    z: Tensor
    start: Tensor  # y
    momentum: Tensor  # FISTA's t, (rows, 1)
    residual: Tensor  # x − Dz


@dataclass(frozen=True)
class ISTA(BindableMethod):
    """The iterative shrinkage-thresholding algorithm: error O(1/t).

    >>> import fwnet, torch
    >>> x, D = torch.randn(10, 5), torch.randn(5, 8)
    >>> solution = fwnet.solve(x, D, fwnet.LpBall(1.0), method="ista", tol=1e-4)
    >>> bool((solution.gap <= 1e-4 * 0.5 * x.square().sum(-1)).all())
    True
    """

    max_steps: int = 20_000
    accelerated: ClassVar[bool] = False

    def bind(self, problem: Problem, tol: float, norm_tol: float) -> _Proximal:
        """Return the method for this problem."""
        return _Proximal(problem, tol, self.accelerated)


@dataclass(frozen=True)
class FISTA(ISTA):
    """ISTA with momentum and restarts: error O(1/t²), linear where the problem allows.

    >>> import fwnet, torch
    >>> x, D = torch.randn(10, 5), torch.randn(5, 8)
    >>> first = fwnet.solve(x, D, fwnet.LpBall(1.0), method="fista", tol=1e-4)
    >>> again = fwnet.solve(x, D, fwnet.LpBall(1.0), method="fista", tol=1e-4, start=first.code)
    >>> bool(again.num_steps.sum() < first.num_steps.sum())
    True
    """

    accelerated: ClassVar[bool] = True


class _Proximal:
    def __init__(self, problem: Problem, tol: float, accelerated: bool):
        self.problem, self.tol, self.accelerated = problem, tol, accelerated

    def init(self, x: Tensor) -> ProximalState:
        problem = self.problem
        z = problem.start
        if z is None:
            z = x.new_zeros(len(x), problem.dictionary.shape[1])
        elif isinstance(problem, Constrained):
            z = problem.convex_set.project(z)
        one = torch.ones_like(x[:, :1])
        return ProximalState(problem, x, z, z, one, x - problem.decode(z))

    def step(self, state: ProximalState, index: int) -> ProximalState:
        problem = state.problem
        step_size = problem.white.scale.to(state.x.dtype) ** -2
        gradient = problem.correlate(problem.decode(state.start) - state.x)
        z = problem.prox(state.start - step_size * gradient, step_size)
        start, momentum = z, state.momentum
        if self.accelerated:
            momentum = (1 + (1 + 4 * state.momentum.square()).sqrt()) / 2
            start = z + (state.momentum - 1) / momentum * (z - state.z)
            uphill = dot(state.start - z, z - state.z) > 0
            start, momentum = torch.where(uphill, z, start), torch.where(uphill, 1.0, momentum)
        return ProximalState(problem, state.x, z, start, momentum, state.x - problem.decode(z))

    def finished(self, state: ProximalState) -> Tensor:
        return state.problem.solved(state.x, state.z, state.residual, self.tol)

    def answer(self, state: ProximalState) -> tuple[Tensor, Tensor]:
        return state.z, state.residual
