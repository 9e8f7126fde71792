"""Certified codes for every set: a splitting, Newton steps on the face, projected gradient steps.

The first iterations are those of ADMM (`splitting.py`) in float32. For a set that can say on which
face z is (`ConvexSet.face`), y is then the minimum of ½‖x − Dz‖² there to second order, followed by
a gradient step, which finds out whether the face is the right one,

    (DᵀD + L·λ∇²g)_FF d + ν∇g_F = Dᵀ(x − Dz)_F,     ⟨∇g, d⟩ = 0,     y = z + d
    z ← P(y − Dᵀ(Dy − x)/L),     L = ‖D‖²

Where this does not lower the objective, z is taken back and the splitting goes on. For other sets
it goes on until the end, in the precision of the data. Rows that are left take accelerated gradient
steps, y = z + β(z − z_before), with Newton steps more and more rarely. A row restarts its momentum
when a step goes against it, which makes them linear where the problem allows.

The oracle gives the certificate: the duality gap needs only the support function.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from fwnet.sets import Face
from fwnet.solvers.loop import BindableMethod
from fwnet.solvers.problem import Constrained, Problem
from fwnet.solvers.rows import RowState
from fwnet.solvers.splitting import default_spring, iterated
from fwnet.solvers.whitened import Whitened, dot

CHECK_EVERY = 4  # steps: a check costs as much as a step
ROUNDING = 1e-6  # added to the diagonal of a matrix in float32, so that it can be factored
LARGEST_FACE = 1.2  # times min(n, m): the free entries of a Newton step
CHUNK = 256  # rows whose matrices are factored together
SOFT = 0.5  # ρ of the splitting, in units of that of ADMM
SOFTEST = 0.1  # the least, on a large face
TO_A_FACE, ON_A_FACE, WITHOUT_FACES = 10, 14, 20  # iterations of the first step, in float32
AGAIN = 30  # iterations where a Newton step has failed
MOST_AGAIN = 6  # times; gradient steps follow
PER_STEP = 8  # iterations of a step for a set without faces
MOST_SPLITTINGS = 100  # of these steps; gradient steps follow


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
    failures: Tensor  # of Newton steps, (rows, 1)
    solved: Tensor  # (rows,)
    s: Tensor  # the vector of the splitting, (rows, m)
    spring: Tensor  # its ρ in units of ‖D‖², (rows, 1)


@dataclass(frozen=True)
class ProjectedGradient(BindableMethod):
    """Splitting, Newton steps on faces and accelerated projected gradient steps.

    Attributes:
        max_steps: The largest number of steps.
        newton: Whether to take Newton steps on the face, for sets that can say which it is.
            Without them, these sets are solved like the others.

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
        self.problem, self.tol = problem, tol
        self.unit = float(problem.white.scale.max()) ** 2
        gram = (problem.gram / self.unit).to(torch.float32)  # whatever the scale of D
        self.gram = pad(gram, (0, 1, 0, 1))  # of an atom that is 0
        origin = problem.dictionary.new_zeros(1, problem.dictionary.shape[1])
        face = problem.convex_set.face(origin, origin)
        self.newton = newton and face is not None and problem.factors is None
        self.flat = face is not None and face.curvature is None

    def init(self, x: Tensor) -> GradientState:
        problem, start = self.problem, self.problem.start
        z = x.new_zeros(len(x), problem.dictionary.shape[1]) if start is None else start
        z = problem.convex_set.project(z)
        image = problem.decode(z)
        one = torch.ones_like(x[:, :1])
        no = torch.zeros_like(one, dtype=torch.bool)
        spring = SOFT * default_spring(_of_scale_1(problem.white, x.dtype)) * one
        s, solved = z, no.squeeze(-1)
        if start is not None:
            s = z + problem.correlate(x - image) / (spring * problem.white.scale.to(x.dtype) ** 2)
            solved = problem.solved(x, z, x - image, self.tol)
        return GradientState(
            problem, x, z, image, z, image, one, no, 0 * one, 0 * one, solved, s, spring
        )

    def step(self, state: GradientState, index: int) -> GradientState:
        if index == 0 and self.problem.start is None:
            return self._first_codes(state)
        if not self.newton and index <= MOST_SPLITTINGS:
            return self._split_further(state)
        problem, x = state.problem, state.x
        step_size = problem.white.scale.to(x.dtype) ** -2
        ahead = state.start + step_size * problem.correlate(x - state.start_image)
        z = problem.convex_set.project(ahead)
        image = problem.decode(z)
        s, spring = state.s, state.spring
        lost = state.jumped
        if lost.any():
            error, before = (dot(x - i, x - i) for i in (image, state.image))
            lost = lost & ~(error <= before * (1 + 4 * torch.finfo(x.dtype).eps))
            if lost.any():
                z, image = torch.where(lost, state.z, z), torch.where(lost, state.image, image)
        again = (lost | ~state.jumped) & (state.failures < MOST_AGAIN) & self.newton
        again &= ~state.solved.unsqueeze(-1)
        failures = state.failures + (lost | again)
        rows = again.squeeze(-1).nonzero().squeeze(-1)
        if len(rows):
            part = problem.select(rows)
            some, spring[rows] = self._refitted(part, s[rows], spring[rows])
            s[rows] = _split(part, x[rows], some, spring[rows], AGAIN, x.dtype)
            ahead[rows] = s[rows]
            z[rows] = problem.convex_set.project(s[rows])
            image[rows] = part.decode(z[rows])
        moved = z - state.z
        momentum = (1 + (1 + 4 * state.momentum.square()).sqrt()) / 2
        against = (dot(state.start - z, moved) > 0) | state.jumped
        beta = torch.where(against, 0.0, (state.momentum - 1) / momentum)
        momentum = torch.where(against, 1.0, momentum)
        solved = state.solved
        if index % CHECK_EVERY == 0 or state.jumped.any() or len(rows):
            solved = problem.solved(x, z, x - image, self.tol)
        start = torch.addcmul(z, beta, moved)
        start_image = torch.addcmul(image, beta, image - state.image)
        wait = torch.where(lost & ~again, 2 ** (failures - MOST_AGAIN), state.wait - 1)
        jumped = (wait <= 0) & ~solved.unsqueeze(-1) & self.newton
        if jumped.any():
            end, end_image, jumped = self._jump(problem, ahead, z, x, image, jumped)
            if not jumped.all():
                end = torch.where(jumped, end, start)
                end_image = torch.where(jumped, end_image, start_image)
            start, start_image = end, end_image
        y = (start, start_image, momentum, jumped)
        return GradientState(problem, x, z, image, *y, wait, failures, solved, s, spring)

    def finished(self, state: GradientState) -> Tensor:
        return state.solved

    def answer(self, state: GradientState) -> tuple[Tensor, Tensor]:
        return state.z, state.x - state.image

    def _first_codes(self, state: GradientState) -> GradientState:
        """Return codes after iterations in float32, and Newton steps from there."""
        problem, x, s, spring = state.problem, state.x, torch.zeros_like(state.s), state.spring
        s = _split(problem, x, s, spring, TO_A_FACE)
        s, spring = self._refitted(problem, s, spring)
        s = _split(problem, x, s, spring, ON_A_FACE if self.newton else WITHOUT_FACES)
        z = problem.convex_set.project(s)
        image = problem.decode(z)
        start, start_image, jumped = z, image, state.jumped
        if self.newton:
            start, start_image, jumped = self._jump(problem, s, z, x, image, ~jumped)
        return dataclasses.replace(
            state,
            z=z,
            image=image,
            start=start,
            start_image=start_image,
            jumped=jumped,
            s=s,
            spring=spring,
        )

    def _refitted(self, problem: Constrained, s: Tensor, spring: Tensor) -> tuple[Tensor, Tensor]:
        """Return s for another ρ, which suits the face of the code, and this ρ.

        On a flat face F the best ρ is the root of the product of the smallest and the largest
        eigenvalue of (DᵀD)_FF: for random atoms 1 − |F|/n times that for a few of them.
        """
        if not (self.newton and self.flat):
            return s, spring
        z = problem.convex_set.project(s)
        face = problem.convex_set.face(s, z)
        assert face is not None
        share = face.free.sum(-1, keepdim=True).to(s) / min(problem.dictionary.shape)
        usual = default_spring(_of_scale_1(problem.white, s.dtype))
        fitted = usual * (1 - share).clamp(min=SOFTEST)
        return torch.addcmul(z, s - z, spring / fitted), fitted

    def _split_further(self, state: GradientState) -> GradientState:
        """Return the codes after iterations in the precision of the data."""
        problem, x = state.problem, state.x
        s = _split(problem, x, state.s, state.spring, PER_STEP, x.dtype)
        z = problem.convex_set.project(s)
        image = problem.decode(z)
        solved = problem.solved(x, z, x - image, self.tol)
        return dataclasses.replace(
            state, z=z, image=image, start=z, start_image=image, s=s, solved=solved
        )

    def _jump(
        self,
        problem: Constrained,
        y: Tensor,
        z: Tensor,
        x: Tensor,
        image: Tensor,
        wanted: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return z + d, its image, and for which of the wanted rows there is a d."""
        no = torch.zeros_like(wanted)
        face = problem.convex_set.face(y, z)
        assert face is not None
        count = face.free.sum(-1)
        places = LARGEST_FACE * min(problem.dictionary.shape)
        rows = (wanted.squeeze(-1) & (count > 0) & (count <= places)).nonzero().squeeze(-1)
        if not len(rows):
            return z, image, no
        rows = rows[count[rows].argsort()]  # so that a chunk's faces are of similar size
        # Without its part along the normal, which would take the digits of float32.
        slope = problem.correlate(x - image) * face.free
        tiny = torch.finfo(z.dtype).tiny
        along = dot(face.normal, slope) / dot(face.normal, face.normal).clamp_(min=tiny)
        slope.addcmul_(along, face.normal, value=-1)
        d = torch.zeros_like(z)
        for chunk in rows.split(CHUNK):
            d[chunk] = self._newton(face, chunk, slope)
        start = z + d
        jumped = no.index_fill(0, rows, True) & d.isfinite().all(-1, keepdim=True)
        if not jumped.all():
            start = torch.where(jumped, start, z)
        return start, problem.decode(start), jumped

    def _newton(self, face: Face, rows: Tensor, slope: Tensor) -> Tensor:
        """Return d for these rows. Matrices are in float32."""
        free, low, m = face.free[rows], torch.float32, slope.shape[-1]
        count = free.sum(-1)
        places = int(count.max())
        row, entries = free.nonzero(as_tuple=True)
        index = torch.full((len(rows), places), m, device=rows.device)
        index[row, (free.cumsum(-1) - 1)[row, entries]] = entries
        matrix = self.gram.index_select(0, index.flatten()).unflatten(0, index.shape)
        matrix = matrix.gather(-1, index.unsqueeze(-2).expand(-1, places, -1))
        empty = index == m
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        if face.curvature is not None:
            own = (~empty).to(low)
            a, left, right = face.curvature(rows, index.clamp(max=m - 1))
            matrix.baddbmm_(left.to(low) * own.unsqueeze(-1), right.to(low).mT)
            diagonal.addcmul_(a.to(low), own)
        diagonal.mul_(1 + ROUNDING).add_(empty)
        factor, info = torch.linalg.cholesky_ex(matrix)
        size = slope[rows].abs().amax(-1, keepdim=True).clamp(min=torch.finfo(slope.dtype).tiny)
        right = pad(torch.stack([slope[rows] / size, face.normal[rows]], -1).to(low), (0, 0, 0, 1))
        right = right.gather(-2, index.unsqueeze(-1).expand(-1, -1, 2))
        d, across = torch.cholesky_solve(right, factor).unbind(-1)
        normal = right[..., 1]
        spread = dot(normal, across)
        d = d - across * (dot(normal, d) / torch.where(spread > 0, spread, 1.0))
        d = torch.where(info.unsqueeze(-1) == 0, d, torch.nan)
        out = slope.new_zeros(len(rows), m + 1).scatter_(-1, index, size / self.unit * d)
        return out[:, :m]


def _split(
    problem: Constrained,
    x: Tensor,
    s: Tensor,
    spring: Tensor,
    iterations: int,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Return s after iterations in this precision, in the precision of s."""
    white = _of_scale_1(problem.white, dtype)
    wide = problem.white.to(x.dtype)
    target = (wide.whiten(problem.inside(x)) / wide.scale).to(dtype)
    s_then = iterated(problem.to(dtype), white, target, s.to(dtype), iterations, spring.to(dtype))
    return s_then.to(s.dtype)


def _of_scale_1(white: Whitened, dtype: torch.dtype) -> Whitened:
    """Return the matrices of D/‖D‖, whose squares neither overflow nor vanish."""
    return white.to(dtype)._replace(scale=torch.ones_like(white.scale, dtype=dtype))
