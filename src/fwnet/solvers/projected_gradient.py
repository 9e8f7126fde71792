"""Accelerated projected gradient: certified codes for every set with a projection.

    z ← P(y − Dᵀ(Dy − x)/L),     y = z + β(z − z_before),     L = ‖D‖²

A row restarts its momentum when a step goes against it, which makes the method linear where the
problem allows. The oracle gives the certificate: the duality gap needs only the support function.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.solvers.loop import BindableMethod
from fwnet.solvers.problem import Constrained, Problem
from fwnet.solvers.rows import RowState
from fwnet.solvers.whitened import dot

CHECK_EVERY = 4  # steps: a check costs as much as a step
# The search in float32 that precedes one in float64 ends when this share of the rows has this gap.
COARSE_TOL, COARSE_SHARE, COARSE_STEPS = 1e-5, 0.8, 200


@dataclass(frozen=True)
class GradientState(RowState):
    """The iterate and the point at which the next step starts, with their images under D."""

    problem: Constrained
    x: Tensor
    z: Tensor
    image: Tensor  # Dz
    start: Tensor  # y
    start_image: Tensor  # Dy
    momentum: Tensor  # (rows, 1)
    solved: Tensor  # (rows,)
    exact: tuple[Constrained, Tensor] | None  # problem and x in float64, while z is in float32

    def select(self, rows: Tensor | slice) -> GradientState:
        """Return the state of the given rows."""
        part = super().select(rows)
        if self.exact is None:
            return part
        problem, x = self.exact
        return dataclasses.replace(part, exact=(problem.select(rows), x[rows]))


@dataclass(frozen=True)
class ProjectedGradient(BindableMethod):
    """Accelerated projected gradient steps with restarts; float64 begins with float32.

    >>> import fwnet, torch
    >>> x, D = torch.randn(10, 20), torch.randn(20, 30)
    >>> method = fwnet.solvers.ProjectedGradient(max_steps=5000)
    >>> fwnet.solve(x, D, fwnet.Simplex(), method=method).summary()
    {'certified': 10}
    """

    max_steps: int = 20_000

    def bind(self, problem: Problem, tol: float, norm_tol: float) -> _Accelerated:
        """Return the method for this problem. It does not look for the least norm."""
        assert isinstance(problem, Constrained)
        return _Accelerated(problem, tol)


class _Accelerated:
    def __init__(self, problem: Constrained, tol: float):
        self.problem, self.tol = problem, tol
        self.coarse = problem.to(torch.float32)

    def init(self, x: Tensor) -> GradientState:
        z = self.problem.start
        if z is None:
            z = x.new_zeros(len(x), self.problem.dictionary.shape[1])
        z = self.problem.convex_set.project(z)
        exact = (self.problem, x)
        if x.dtype == torch.float64 and self.tol < COARSE_TOL and self.problem.start is None:
            return self._begin(self.coarse, x.float(), z.float(), exact)
        return self._begin(self.problem, x, z, None)

    def step(self, state: GradientState, index: int) -> GradientState:
        if state.exact is not None:
            enough = state.solved.double().mean() >= COARSE_SHARE
            if enough or index >= COARSE_STEPS:
                problem, x = state.exact
                state = self._begin(problem, x, problem.convex_set.project(state.z.double()), None)
        problem, x = state.problem, state.x
        step_size = problem.white.scale.to(x.dtype) ** -2
        ahead = state.start + step_size * problem.correlate(x - state.start_image)
        z = problem.convex_set.project(ahead)
        image = problem.decode(z)
        moved = z - state.z
        momentum = (1 + (1 + 4 * state.momentum.square()).sqrt()) / 2
        against = dot(state.start - z, moved) > 0
        beta = torch.where(against, 0.0, (state.momentum - 1) / momentum)
        momentum = torch.where(against, 1.0, momentum)
        solved = state.solved
        if index % CHECK_EVERY == CHECK_EVERY - 1:
            tol = self.tol if state.exact is None else COARSE_TOL
            solved = problem.solved(x, z, x - image, tol)
        start = torch.addcmul(z, beta, moved)
        start_image = torch.addcmul(image, beta, image - state.image)
        return GradientState(
            problem, x, z, image, start, start_image, momentum, solved, state.exact
        )

    def finished(self, state: GradientState) -> Tensor:
        return state.solved if state.exact is None else torch.zeros_like(state.solved)

    def answer(self, state: GradientState) -> tuple[Tensor, Tensor]:
        dtype = self.problem.dictionary.dtype
        return state.z.to(dtype), (state.x - state.image).to(dtype)

    def _begin(
        self, problem: Constrained, x: Tensor, z: Tensor, exact: tuple[Constrained, Tensor] | None
    ) -> GradientState:
        image = problem.decode(z)
        solved = problem.solved(x, z, x - image, self.tol)
        one = torch.ones_like(x[:, :1])
        return GradientState(problem, x, z, image, z, image, one, solved, exact)
