"""Newton's method on the code itself, for 2 < p < ∞, where the p-norm is smooth.

In whitened coordinates, with N = ‖z‖_p, s = sign(z)(|z|/N)^(p−1) and y = Vᵀv, the two problems of
`dual_newton.py` require

    the constraint binds:     λ·N·s = y  with  Λv = x − Vz,  N = c
    an exact code exists:     N·s = y    with  Vz = x

The Hessian of ½N² is H = (p−1)·diag((|z|/N)^(p−2)) + (2−p)·s sᵀ, whose inverse is known, so either
Newton system reduces to one with the matrix V H⁻¹ Vᵀ (+ λΛ). The curvature of an entry near 0
vanishes, so its inverse is bounded. The second problem moves along Vz = x and decreases N; the
first moves along the sphere N = c and decreases the residual. Large p are reached through a
sequence of increasing exponents.
"""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.functional import dual_exponent, lp_norm
from fwnet.solvers.rows import RowState
from fwnet.solvers.whitened import (
    Target,
    Whitened,
    cholesky_factor,
    cholesky_solve,
    dot,
    weighted_gram,
)

PATH_START, PATH_RATIO = 3.0, 2.5
PATH_TOL = 1e-2
FLATTEST = 1e10  # bound on the inverse curvature of an entry, relative to that of the largest
MAX_HALVINGS = 30
RIDGE_STEPS = 48


@dataclass(frozen=True)
class PrimalState(RowState):
    """A feasible code and its dual vector."""

    target: Target
    z: Tensor  # (rows, m): Vz = x, or ‖z‖_p = c
    v: Tensor  # (rows, k)
    witness: Tensor  # the v that proved that the constraint binds, (rows, k)
    binds: Tensor  # (rows, 1)
    rung: int


class PrimalNewton:
    """Codes for 2 < p < ∞ with gap ≤ tol·½‖x‖² and norm_gap ≤ norm_tol·‖z‖_p."""

    def __init__(self, white: Whitened, p: float, radius: float, tol: float, norm_tol: float):
        self.white, self.radius, self.tol, self.norm_tol = white, radius, tol, norm_tol
        self.path = [p]
        while self.path[0] / PATH_RATIO > PATH_START:
            self.path.insert(0, self.path[0] / PATH_RATIO)

    def init(self, x: Tensor) -> PrimalState:
        """Start from the code of least L2 norm."""
        target = Target.of(x, self.radius, self.white.to(x.dtype))
        z = target.white.analyze(target.x)
        binds = torch.zeros_like(target.radius, dtype=torch.bool)
        return PrimalState(target, z, target.x, target.x, binds, rung=0)

    def step(self, state: PrimalState, index: int) -> PrimalState:
        """Take a Newton step with a line search, or go to the next exponent of the path."""
        if state.rung < len(self.path) - 1 and self._solved(state, PATH_TOL, PATH_TOL).all():
            # The balls grow with p: an exact code may be feasible now.
            exact = _made_exact(state.target, state.z)
            free = torch.zeros_like(state.binds)
            return dataclasses.replace(state, z=exact, binds=free, rung=state.rung + 1)
        dz, dv = self._direction(state)
        z = self._search(state, dz)
        v = torch.where(state.binds, state.v, state.v + dv)
        return self._placed(dataclasses.replace(state, z=z, v=v))

    def finished(self, state: PrimalState) -> Tensor:
        """Return which rows have a small gap or norm_gap."""
        if state.rung < len(self.path) - 1:
            return torch.zeros_like(state.binds.squeeze(-1))
        return self._solved(state, self.tol, self.norm_tol)

    def answer(self, state: PrimalState) -> tuple[Tensor, Tensor]:
        """Return the code, and v or the witness.

        A residual near 0 has no meaningful direction: there the witness is the better dual vector.
        """
        vanished = state.binds & (self._error(state) <= self.tol)
        return state.target.answer(state.z, torch.where(vanished, state.witness, state.v))

    def _placed(self, state: PrimalState) -> PrimalState:
        """Project z onto the sphere or Vz = x; move rows whose bound exceeds c to the sphere."""
        p = self.path[state.rung]
        target, white = state.target, state.target.white
        bound = dot(target.x, state.v) / self._dual_norm(state)
        new = ~state.binds & target.binds(bound)
        binds = state.binds | new
        witness = torch.where(state.binds, state.witness, state.v)
        exact = _made_exact(target, state.z)
        sphere = state.z * (target.radius / lp_norm(state.z, p).unsqueeze(-1))
        z = torch.where(binds, sphere, exact)
        if new.any():
            rows = new.squeeze(-1).nonzero().squeeze(-1)
            z[rows] = _ridge(target.select(rows), p)
        residual = (target.x - white.synthesize(z)) / white.metric
        v = torch.where(binds, residual, state.v)
        return dataclasses.replace(state, z=z, v=v, witness=witness, binds=binds)

    @staticmethod
    def _error(state: PrimalState) -> Tensor:
        """‖x − Vz‖² in the metric Λ⁻¹: the objective, relative to ½‖x‖²."""
        residual = state.target.x - state.target.white.synthesize(state.z)
        return dot(residual, residual / state.target.white.metric)

    def _dual_norm(self, state: PrimalState) -> Tensor:
        y = state.target.white.analyze(state.v)
        return lp_norm(y, dual_exponent(self.path[state.rung])).unsqueeze(-1)

    def _solved(self, state: PrimalState, tol: float, norm_tol: float) -> Tensor:
        target, metric = state.target, state.target.white.metric
        dual_norm = self._dual_norm(state)
        xv = dot(target.x, state.v)
        reached = (xv - target.radius * dual_norm).clamp(min=0).square() / dot(
            state.v, metric * state.v
        )
        gap = self._error(state) - reached
        norm = lp_norm(state.z, self.path[state.rung]).unsqueeze(-1)
        norm_gap = norm - xv / dual_norm
        return torch.where(state.binds, gap <= tol, norm_gap <= norm_tol * norm).squeeze(-1)

    def _direction(self, state: PrimalState) -> tuple[Tensor, Tensor]:
        """Solve the Newton system for the changes of z and v, with λ eliminated."""
        p = self.path[state.rung]
        z, binds, white = state.z, state.binds, state.target.white
        norm = lp_norm(z, p).unsqueeze(-1)
        a = z.abs() / norm
        s = torch.copysign(a.pow(p - 1), z)
        flat = a.clamp(min=torch.finfo(a.dtype).tiny).pow(2 - p).clamp_(max=FLATTEST) / (p - 1)
        vz = white.synthesize(z)
        y = white.analyze(state.v)
        # Use units in which λ = 1, so that y = N·s at the solution of either problem. There λ is
        # both ⟨z, y⟩/N² and ‖y‖_q/N; elsewhere the first is at most the second.
        largest = self._dual_norm(state) / norm
        multiplier = torch.maximum(dot(z, y) / norm.square(), 0.1 * largest)
        multiplier = torch.where(binds, multiplier, 1.0).clamp(min=torch.finfo(z.dtype).tiny)
        excess = norm * s - y / multiplier
        stiff = (p - 2) / (p - 1) / norm.square()

        def inverse_hessian(u: Tensor) -> Tensor:
            return flat * u + stiff * z * dot(z, u)

        matrix = weighted_gram(white, flat)
        matrix.baddbmm_((stiff * vz).unsqueeze(-1), vz.unsqueeze(-2))
        matrix.diagonal(dim1=-2, dim2=-1).add_(torch.where(binds, multiplier * white.metric, 0.0))
        right = torch.stack([white.synthesize(inverse_hessian(excess)), vz], -1)
        plain, by_multiplier = cholesky_solve(cholesky_factor(matrix), right).unbind(-1)
        # The relative change of λ that makes the step tangent to the sphere.
        change = (dot(z, excess) - dot(vz, plain)) / (dot(vz, by_multiplier) - norm.square())
        change = torch.where(binds, change, 0.0)
        dv = plain + change * by_multiplier
        dz = inverse_hessian(white.analyze(dv) - excess) - change * z
        return dz, dv

    def _search(self, state: PrimalState, dz: Tensor) -> Tensor:
        """Halve the step of each row until the residual on the sphere, or the norm, decreases."""
        p, target, metric = self.path[state.rung], state.target, state.target.white.metric

        def merit(z: Tensor) -> Tensor:
            norm = lp_norm(z, p).unsqueeze(-1)
            residual = target.x - target.white.synthesize(z * (target.radius / norm))
            return torch.where(state.binds, dot(residual, residual / metric), norm)

        limit = merit(state.z) * (1 + 64 * torch.finfo(dz.dtype).eps)
        size = torch.ones_like(limit)
        for _ in range(MAX_HALVINGS):
            worse = ~(merit(state.z + size * dz) <= limit)  # true for NaN
            if not worse.any():
                break
            size = torch.where(worse, size / 2, size)
        else:
            return torch.where(worse, state.z, state.z + size * dz)
        return state.z + size * dz


def _made_exact(target: Target, z: Tensor) -> Tensor:
    """Return the projection of z onto Vz = x."""
    return z + target.white.analyze(target.x - target.white.synthesize(z))


def _ridge(target: Target, p: float) -> Tensor:
    """Return the p = 2 code z(λ) = Vᵀ(x/(1 + λΛ)) with p-norm c: a start on the sphere."""
    low, high = (torch.full_like(target.radius, value) for value in (-40.0, 40.0))

    def code(log_multiplier: Tensor) -> Tensor:
        return target.white.analyze(target.x / (1 + log_multiplier.exp() * target.white.metric))

    for _ in range(RIDGE_STEPS):
        middle = 0.5 * (low + high)
        long = lp_norm(code(middle), p).unsqueeze(-1) > target.radius
        low, high = torch.where(long, middle, low), torch.where(long, high, middle)
    z = code(high)
    return z * (target.radius / lp_norm(z, p).unsqueeze(-1))
