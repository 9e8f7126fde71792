"""Greedy coordinate descent for L1 codes: update the coordinate that changes most.

    z̄_j = soft_threshold(d_jᵀ(x − Dz) + ‖d_j‖² z_j, λ)/‖d_j‖²,  z_j ← z̄_j, j = argmax |z̄_j − z_j|

This is Gregor and LeCun's CoD. With the correlations Dᵀ(x − Dz) kept up to date, an update costs
one column of DᵀD. For the constraint ‖z‖₁ ≤ c the penalty λ is unknown and is found at the same
time, by bisection on the norm of the code.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.functional import soft_threshold
from fwnet.solvers.loop import BindableMethod
from fwnet.solvers.problem import Constrained, Penalized, Problem
from fwnet.solvers.rows import RowState
from fwnet.solvers.whitened import dot


@dataclass(frozen=True)
class CoordinateState(RowState):
    """The code with its correlations, (rows, m), and the penalty with its bounds, (rows, 1)."""

    problem: Problem
    x: Tensor
    z: Tensor
    correlation: Tensor  # Dᵀ(x − Dz)
    penalty: Tensor
    low: Tensor
    high: Tensor


@dataclass(frozen=True)
class CoordinateDescent(BindableMethod):
    """Greedy coordinate descent. A step makes as many updates as there are atoms.

    >>> import fwnet, torch
    >>> x, D = torch.randn(10, 5), torch.nn.functional.normalize(torch.randn(5, 8), dim=0)
    >>> solution = fwnet.solvers.solve_penalized(x, D, penalty=0.5, method="coordinate-descent")
    >>> solution.certified.all()
    tensor(True)
    """

    max_steps: int = 5_000

    def bind(self, problem: Problem, tol: float, norm_tol: float) -> _Coordinates:
        """Return the method for this problem, which must have p = 1."""
        assert isinstance(problem, Constrained | Penalized)
        p = problem.exponent
        if p != 1:
            got = getattr(problem, "convex_set", f"p = {p}")
            raise ValueError(f"coordinate descent needs p = 1 (an L1 norm), got {got}")
        if problem.factors is not None:
            raise ValueError("weights must have shape (n,) for coordinate descent, got (…, n)")
        return _Coordinates(problem, tol)


class _Coordinates:
    def __init__(self, problem: Problem, tol: float):
        self.problem, self.tol = problem, tol
        self.gram = problem.dictionary.T @ problem.dictionary
        diagonal = self.gram.diagonal()
        self.curvature = torch.where(diagonal > 0, diagonal, torch.inf)  # a zero atom never moves

    def init(self, x: Tensor) -> CoordinateState:
        correlation = self.problem.correlate(x)
        largest = correlation.abs().amax(-1, keepdim=True)
        if isinstance(self.problem, Penalized):
            penalty = torch.full_like(largest, self.problem.penalty)
            low = high = penalty
        else:
            penalty, low, high = 0.5 * largest, torch.zeros_like(largest), largest
        z = torch.zeros_like(correlation)
        return CoordinateState(self.problem, x, z, correlation, penalty, low, high)

    def step(self, state: CoordinateState, index: int) -> CoordinateState:
        z, correlation = state.z.clone(), state.correlation.clone()
        rows = torch.arange(len(z), device=z.device)
        for _ in range(z.shape[1]):
            wanted = soft_threshold(correlation + self.curvature * z, state.penalty)
            change = torch.nan_to_num(wanted / self.curvature) - z
            j = change.abs().argmax(-1)
            moved = change[rows, j].unsqueeze(-1)
            z[rows, j] += moved.squeeze(-1)
            correlation.addcmul_(moved, self.gram[j], value=-1)
        # Recompute the correlations, in which rounding errors accumulate.
        correlation = state.problem.correlate(state.x - state.problem.decode(z))
        state = dataclasses.replace(state, z=z, correlation=correlation)
        return state if isinstance(state.problem, Penalized) else self._closer(state)

    def finished(self, state: CoordinateState) -> Tensor:
        return state.problem.solved(state.x, *self.answer(state), self.tol)

    def answer(self, state: CoordinateState) -> tuple[Tensor, Tensor]:
        z = state.z
        if isinstance(state.problem, Constrained):
            z = z / state.problem.convex_set.gauge(z).clamp(min=1).unsqueeze(-1)
        return z, state.x - state.problem.decode(z)

    def _closer(self, state: CoordinateState) -> CoordinateState:
        """Halve the bracket of λ for the rows whose code has converged for the current λ."""
        radius = state.problem.radius if isinstance(state.problem, Constrained) else 0.0
        norm = state.z.abs().sum(-1, keepdim=True)
        support = state.correlation.abs().amax(-1, keepdim=True)
        # Compare the suboptimality for this λ with the effect of changing λ.
        slack = (support - state.penalty).clamp(min=0) * norm + (
            state.penalty * norm - dot(state.correlation, state.z)
        ).clamp(min=0)
        settled = slack <= 0.1 * state.penalty * (norm - radius).abs() + 1e-300
        low = torch.where(settled & (norm > radius), state.penalty, state.low)
        high = torch.where(settled & (norm < radius), state.penalty, state.high)
        penalty = torch.where(settled, 0.5 * (low + high), state.penalty)
        return dataclasses.replace(state, penalty=penalty, low=low, high=high)
