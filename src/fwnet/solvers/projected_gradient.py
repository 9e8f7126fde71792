"""Accelerated projected gradient, with Newton steps on the face: certified codes for every set.

    z ← P(y − Dᵀ(Dy − x)/L),     y = z + β(z − z_before),     L = ‖D‖²

A row restarts its momentum when a step goes against it, which makes the method linear where the
problem allows. The first steps find which face z is on. After them, for a set that can say which
(`ConvexSet.face`), y is the minimum of ½‖x − Dz‖² there to second order, instead:

    (DᵀD + L·λ∇²g)_FF d + ν∇g_F = Dᵀ(x − Dz)_F,     ⟨∇g, d⟩ = 0,     y = z + d

Where the step from there does not lower the objective, it is taken back, and the next one is a
step of the gradient. The oracle gives the certificate: the duality gap needs only the support
function.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from fwnet.solvers.loop import BindableMethod
from fwnet.solvers.problem import Constrained, Problem
from fwnet.solvers.rows import RowState
from fwnet.solvers.splitting import iterated
from fwnet.solvers.whitened import dot

CHECK_EVERY = 4  # steps: a check costs as much as a step
ROUNDING = 1e-6  # added to the diagonal of a matrix in float32, so that it can be factored
SPLITTINGS = 20  # iterations before the first step
LARGEST_FACE = 1.2  # times min(n, m): the free entries of a Newton step


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
    jumped: Tensor  # whether y is from a Newton step, (rows, 1)
    wait: Tensor  # steps until the next one, (rows, 1)
    patience: Tensor  # steps to wait when one has failed, (rows, 1)
    solved: Tensor  # (rows,)


@dataclass(frozen=True)
class ProjectedGradient(BindableMethod):
    """Accelerated projected gradient steps with restarts; float64 begins with float32.

    Attributes:
        max_steps: The largest number of steps.
        newton: Whether to take Newton steps on the face, for sets that can say which it is.

    >>> import fwnet, torch
    >>> x, D = torch.randn(10, 20), torch.randn(20, 30)
    >>> method = fwnet.solvers.ProjectedGradient(max_steps=5000)
    >>> fwnet.solve(x, D, fwnet.Simplex(), method=method).summary()
    {'certified': 10}
    """

    max_steps: int = 20_000
    newton: bool = True

    def bind(self, problem: Problem, tol: float, norm_tol: float) -> _Accelerated:
        """Return the method for this problem. It does not look for the least norm."""
        assert isinstance(problem, Constrained)
        return _Accelerated(problem, tol, self.newton and problem.factors is None)


class _Accelerated:
    def __init__(self, problem: Constrained, tol: float, newton: bool):
        self.problem, self.tol, self.newton = problem, tol, newton
        gram = problem.to(torch.float32).gram
        self.gram = pad(gram, (0, 1, 0, 1))  # of an atom that does not exist: 0

    def init(self, x: Tensor) -> GradientState:
        z = self.problem.start
        if z is None:
            z = x.new_zeros(len(x), self.problem.dictionary.shape[1])
        return self._begin(self.problem, x, self.problem.convex_set.project(z))

    def step(self, state: GradientState, index: int) -> GradientState:
        problem, x = state.problem, state.x
        if index == 0 and self.problem.start is None:
            return self._begin(problem, x, _first_codes(problem, x))
        step_size = problem.white.scale.to(x.dtype) ** -2
        ahead = state.start + step_size * problem.correlate(x - state.start_image)
        z = problem.convex_set.project(ahead)
        image = problem.decode(z)
        failed = state.jumped
        if state.jumped.any():
            error, before = (dot(x - i, x - i) for i in (image, state.image))
            failed = state.jumped & ~(error <= before * (1 + 4 * torch.finfo(x.dtype).eps))
            z, image = (torch.where(failed, *pair) for pair in ((state.z, z), (state.image, image)))
        moved = z - state.z
        momentum = (1 + (1 + 4 * state.momentum.square()).sqrt()) / 2
        against = (dot(state.start - z, moved) > 0) | state.jumped
        beta = torch.where(against, 0.0, (state.momentum - 1) / momentum)
        momentum = torch.where(against, 1.0, momentum)
        solved = state.solved
        if index % CHECK_EVERY == 0 or state.jumped.any():
            solved = problem.solved(x, z, x - image, self.tol)
        start = torch.addcmul(z, beta, moved)
        start_image = torch.addcmul(image, beta, image - state.image)
        patience = torch.where(failed, 2 * state.patience, state.patience)
        wait = torch.where(failed, patience, state.wait - 1)
        jumped = (wait <= 0) & ~solved.unsqueeze(-1) & self.newton
        if self.newton:
            direction, jumped = self._newton(problem, ahead, z, x - image, jumped)
            start = torch.where(jumped, z + direction, start)
            start_image = problem.decode(start)
        return GradientState(
            problem, x, z, image, start, start_image, momentum, jumped, wait, patience, solved
        )

    def finished(self, state: GradientState) -> Tensor:
        return state.solved

    def answer(self, state: GradientState) -> tuple[Tensor, Tensor]:
        return state.z, state.x - state.image

    def _begin(self, problem: Constrained, x: Tensor, z: Tensor) -> GradientState:
        image = problem.decode(z)
        solved = problem.solved(x, z, x - image, self.tol)
        one = torch.ones_like(x[:, :1])
        no = torch.zeros_like(one, dtype=torch.bool)
        return GradientState(problem, x, z, image, z, image, one, no, 0 * one, one, solved)

    def _newton(
        self, problem: Constrained, y: Tensor, z: Tensor, residual: Tensor, wanted: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return d, and for which of the wanted rows there is one. Matrices are in float32."""
        face = problem.convex_set.face(y, z) if wanted.any() else None
        if face is None:
            return z, torch.zeros_like(wanted)
        count = face.free.sum(-1, keepdim=True)
        wanted = wanted & (count > 0) & (count <= LARGEST_FACE * min(problem.dictionary.shape))
        places = int(torch.where(wanted, count, 0).max())
        if places == 0:
            return z, wanted
        m, low, tiny = z.shape[-1], torch.float32, torch.finfo(z.dtype).tiny
        rows, entries = (face.free & wanted).nonzero(as_tuple=True)
        index = torch.full((len(z), places), m, device=z.device)
        index[rows, (face.free.cumsum(-1) - 1)[rows, entries]] = entries
        empty = index == m
        matrix = self.gram[index.unsqueeze(-1), index.unsqueeze(-2)]
        if face.curvature is not None:
            own = (~empty).to(low)
            bend = face.curvature(index.clamp(max=m - 1)).to(low)
            matrix += (
                bend * problem.white.scale.to(low) ** 2 * (own.unsqueeze(-1) * own.unsqueeze(-2))
            )
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        diagonal.mul_(1 + ROUNDING).add_(empty)
        factor, info = torch.linalg.cholesky_ex(matrix)
        # Without its part along the normal, which would take the digits of float32.
        slope = torch.where(face.free, problem.correlate(residual), 0.0)
        along = dot(face.normal, slope) / dot(face.normal, face.normal).clamp(min=tiny)
        slope = torch.addcmul(slope, along, face.normal, value=-1)
        size = slope.abs().amax(-1, keepdim=True).clamp(min=tiny)
        right = pad(torch.stack([slope / size, face.normal], -1).to(low), (0, 0, 0, 1))
        right = right.gather(-2, index.unsqueeze(-1).expand(-1, -1, 2))
        d, across = torch.cholesky_solve(right, factor).unbind(-1)
        normal = right[..., 1]
        spread = dot(normal, across)
        d = d - across * (dot(normal, d) / torch.where(spread > 0, spread, 1.0))
        wanted &= d.isfinite().all(-1, keepdim=True) & (info == 0).unsqueeze(-1)
        d = torch.zeros_like(z[:, :1]).expand(-1, m + 1).scatter(-1, index, size * d)
        return torch.where(wanted, d[:, :m], 0.0), wanted


def _first_codes(problem: Constrained, x: Tensor) -> Tensor:
    """Return codes after some iterations of the splitting in float32, whose face is often right."""
    white = problem.white.to(torch.float32)
    target = white.whiten(problem.inside(x).float()) / white.scale
    s = target.new_zeros(len(x), problem.dictionary.shape[1])
    s = iterated(problem.to(torch.float32), white, target, s, SPLITTINGS)
    return problem.convex_set.project(s.to(x.dtype))
