"""ADMM: the squares are minimized exactly, the regularizer by its proximal operator, in turn.

    z = prox(s),   w = argmin ½‖x − Dw‖² + ½ρ‖w − (2z − s)‖²,   s ← s + β(w − z)

This is the alternating direction method of multipliers in the form of Douglas and Rachford: one
vector s per row, where s − z is the multiplier divided by ρ. In whitened coordinates w costs two
products and a division by h + ρ, where h are the eigenvalues of DᵀD, whatever their spread. So it
takes tens of iterations where gradient methods take hundreds. Use it for loose tolerances: near the
solution other methods converge faster.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.checks import check_integer
from fwnet.solvers.loop import BindableMethod
from fwnet.solvers.problem import Constrained, Problem
from fwnet.solvers.rows import RowState
from fwnet.solvers.whitened import Whitened

RELAXATION = 1.7  # β, in (0, 2)


@dataclass(frozen=True)
class SplittingState(RowState):
    """The vector s that is iterated, and the feasible code prox(s)."""

    problem: Problem
    white: Whitened
    x: Tensor  # the part of the signal in the range of D
    outside: Tensor  # the other part, which belongs to the dual vector of a penalized code
    target: Tensor  # x̂, (rows, k)
    s: Tensor  # (rows, m)
    z: Tensor  # prox(s)
    residual: Tensor  # x − Dz


@dataclass(frozen=True)
class ADMM(BindableMethod):
    """The alternating direction method of multipliers.

    Args:
        iterations_per_step: The number of iterations in a step. The gap is computed after each step
            (default 5).
        max_steps: The largest number of steps (default 2,000).

    >>> import fwnet, torch
    >>> x, D = torch.randn(10, 5), torch.randn(5, 8)
    >>> solution = fwnet.solve(x, D, fwnet.LpBall(1.0), method="admm", tol=1e-2)
    >>> bool((solution.gap <= 1e-2 * 0.5 * x.square().sum(-1)).all())
    True
    """

    iterations_per_step: int = 5
    max_steps: int = 2_000

    def __post_init__(self) -> None:
        check_integer("iterations_per_step", self.iterations_per_step)

    def bind(self, problem: Problem, tol: float, norm_tol: float) -> _Splitting:
        """Return the method for this problem."""
        return _Splitting(problem, tol, self.iterations_per_step)


class _Splitting:
    def __init__(self, problem: Problem, tol: float, iterations: int):
        self.problem, self.tol, self.iterations = problem, tol, iterations

    def init(self, x: Tensor) -> SplittingState:
        problem = self.problem
        white = problem.white.to(x.dtype)
        inner = problem.inside(x)
        z, residual = problem.start, inner
        if z is None:
            z = s = x.new_zeros(len(x), problem.dictionary.shape[1])
        else:
            if isinstance(problem, Constrained):
                z = problem.convex_set.project(z)
            # The multiplier of an optimal code is Dᵀ(x − Dz).
            residual = inner - problem.decode(z)
            s = z + problem.correlate(residual) / default_spring(white)
        return SplittingState(
            problem, white, inner, x - inner, white.whiten(inner) / white.scale, s, z, residual
        )

    def step(self, state: SplittingState, index: int) -> SplittingState:
        s = iterated(state.problem, state.white, state.target, state.s, self.iterations)
        z = state.problem.prox(s, 1 / default_spring(state.white))
        residual = state.x - state.problem.decode(z)
        return dataclasses.replace(state, s=s, z=z, residual=residual)

    def finished(self, state: SplittingState) -> Tensor:
        return state.problem.solved(state.x, state.z, state.residual, self.tol)

    def answer(self, state: SplittingState) -> tuple[Tensor, Tensor]:
        return state.z, state.residual + state.outside


def iterated(
    problem: Problem,
    white: Whitened,
    target: Tensor,
    s: Tensor,
    iterations: int,
    spring: Tensor | None = None,
) -> Tensor:
    """Return s after some iterations with ρ = spring for the rows with x̂ = target."""
    spring = default_spring(white) if spring is None else spring
    eigenvalues = _eigenvalues(white)
    share = RELAXATION * eigenvalues / (eigenvalues + spring)
    s = s.clone()
    for _ in range(iterations):
        step = problem.prox(s, 1 / spring) - s
        image = white.synthesize(torch.add(s, step, alpha=2))  # of 2z − s
        s.add_(step, alpha=RELAXATION).add_(white.analyze(torch.sub(target, image).mul_(share)))
    return s


def _eigenvalues(white: Whitened) -> Tensor:
    """Return h, the nonzero eigenvalues of DᵀD, (k,) or (rows, k)."""
    return white.scale**2 / white.metric


def default_spring(white: Whitened) -> Tensor:
    """Return ρ, the geometric mean of the eigenvalues."""
    return _eigenvalues(white).log().mean(-1, keepdim=True).exp()
