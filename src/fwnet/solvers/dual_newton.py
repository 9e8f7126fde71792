"""Newton's method on the dual problem, for 1 < p ≤ 2, where the dual is smooth.

In whitened coordinates (`whitened.py`), with y = Vᵀv, N = ‖y‖_q, and s the unit vector of the
p-norm with ⟨s, y⟩ = N, there are two problems, and it is not known in advance which one applies:

    the constraint binds:     min ½vᵀΛv − xᵀv + c·N,      code c·s,  gap = ½‖∇‖² in the metric Λ⁻¹
    an exact code exists:     min ½N² − xᵀv,              code N·s of least norm, with Vz = x

xᵀv/N is a lower bound on the norm of every exact code, and the second problem maximizes it. So
every row starts there, and moves to the first problem once the bound exceeds c. The Hessians

    Λ + c(q−1)/N·(V diag(w) Vᵀ − V s sᵀ Vᵀ),     (q−1)·V diag(w) Vᵀ + (2−q)·V s sᵀ Vᵀ

with w = (|y|/N)^(q−2) are well conditioned in these coordinates unless p is near 1: a few
conjugate-gradient steps in float32 give the direction, whatever the precision of the rest. The
first Newton steps are in float32 altogether. Near 1 a few entries have far larger weights than all
others. Each of them costs one more step, and every row reaches p through a sequence of decreasing
exponents. With `direct` the systems are factored: that is slower, and solves problems that are
worse conditioned.

With z ≥ 0 as well, `nonnegative`, N is the norm of max(y, 0). Rows whose code is inside that ball
without being exact have N = 0 at the solution, where N is not smooth: they need another method.
"""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.solvers.rows import RowState
from fwnet.solvers.whitened import (
    Target,
    Whitened,
    cholesky_factor,
    cholesky_solve,
    dot,
    norm_gradient,
    row_norm,
    weighted_gram,
)

PATH_START, PATH_RATIO = 0.4, 2.0
PATH_TOL = 0.05  # the tolerance for all exponents of the path but the last
MAX_HALVINGS = 30
CONJUGATE_STEPS = (2, 3, 4, 5, 6, 8, 10, 14, 20, 25, 30, 40)  # per Newton step
LAST_LOW_STEPS = 1  # in float32, beside one per exponent of the path: float64 rows begin with them
LEAST_LOW_EXCESS = 0.01  # for smaller p − 1, float32's powers have too few digits
MOST_STEPS = 40  # with conjugate gradients; what is left then needs direct steps


@dataclass(frozen=True)
class DualState(RowState):
    """The dual iterate and everything computed from it."""

    target: Target
    v: Tensor  # (rows, k), at its best length
    y: Tensor  # Vᵀv, (rows, m)
    norm: Tensor  # N, (rows, 1)
    s: Tensor  # (rows, m)
    w: Tensor  # (rows, m)
    vs: Tensor  # V s, (rows, k)
    gradient: Tensor  # (rows, k)
    bound: Tensor  # xᵀv/N, (rows, 1)
    binds: Tensor  # whether c is below the bound, (rows, 1)
    excess: Tensor  # p − 1 of the exponent that the row has reached, in float64, (rows, 1)
    exact: Target | None  # in float64, while all else is in float32
    steps: int = 0


class DualNewton:
    """Codes for 1 < p ≤ 2 with gap ≤ tol·½‖x‖² and norm_gap ≤ norm_tol·‖z‖_p."""

    def __init__(
        self,
        white: Whitened,
        p: float,
        radius: float,
        tol: float,
        norm_tol: float,
        direct: bool = False,
        nonnegative: bool = False,
    ):
        self.white, self.radius, self.tol, self.norm_tol = white, radius, tol, norm_tol
        self.direct, self.nonnegative = direct, nonnegative
        self.excess = self.first_excess = p - 1
        self.low_steps = 1 + LAST_LOW_STEPS
        while self.first_excess * PATH_RATIO < PATH_START:
            self.first_excess *= PATH_RATIO
            self.low_steps += 1
        self._low = white.to(torch.float32)

    def init(self, x: Tensor) -> DualState:
        """Start from the code z of least L2 norm: project its y = sign(z)|z|^(p−1) onto V."""
        target = Target.of(x, self.radius, self.white.to(x.dtype))
        excess = torch.full_like(target.radius, self.first_excess, dtype=torch.float64)
        exact = None
        if x.dtype == torch.float64 and not self.direct and self.excess >= LEAST_LOW_EXCESS:
            exact, target = target, target.to(torch.float32)
        z = target.white.analyze(target.x)
        v = target.white.synthesize(z.sign() * z.abs().pow(self.first_excess))
        return self._evaluate(target, v, target.white.analyze(v), excess, exact)

    def step(self, state: DualState, index: int) -> DualState:
        """Take a Newton step with a line search, at the next exponent where it is time for it."""
        if index == self.low_steps:
            # Before the step: one in float64 removes what the roundings of float32 left, which
            # depend on the batch.
            state = self._widened(state)
        ahead = self._stepped(self._with_next_exponent(state), index)
        return dataclasses.replace(ahead, steps=index + 1)

    def _widened(self, state: DualState) -> DualState:
        """Return the state in the precision of the rows."""
        target = state.exact
        if target is None:
            return state
        v = state.v.to(target.x.dtype)
        return self._evaluate(target, v, target.white.analyze(v), state.excess)

    def _stepped(self, state: DualState, index: int) -> DualState:
        if not self.direct:
            return self._moved(state, self._iterative_direction(state, index))
        ahead = self._moved(state, self._direct_direction(state))
        # Where weights underflow, the matrix is singular: conjugate gradients do not notice.
        rows = (ahead.v == state.v).all(-1).nonzero().squeeze(-1)
        if len(rows):
            part = state.select(rows)
            ahead = ahead.put(rows, self._moved(part, self._iterative_direction(part, index)))
        return ahead

    def _with_next_exponent(self, state: DualState) -> DualState:
        """Lower the exponent of the rows that are nearly solved."""
        if self.first_excess == self.excess:
            return state
        ready = self._solved(state, PATH_TOL, PATH_TOL) & ~self._at_the_end(state)
        rows = ready.nonzero().squeeze(-1)
        if not len(rows):
            return state
        part = state if len(rows) == len(ready) else state.select(rows)
        excess = (part.excess / PATH_RATIO).clamp(min=self.excess)
        ahead = self._evaluate(part.target, part.v, part.y, excess, part.exact)
        return ahead if part is state else state.put(rows, ahead)

    def _at_the_end(self, state: DualState) -> Tensor:
        return (state.excess <= self.excess).squeeze(-1)

    def _moved(self, state: DualState, direction: Tensor) -> DualState:
        return self._search(state, direction, state.target.white.analyze(direction))

    def finished(self, state: DualState) -> Tensor:
        """Return which rows have a small gap or norm_gap, or are left to direct steps."""
        if not self.direct and state.steps >= MOST_STEPS:
            return torch.ones_like(state.binds.squeeze(-1))
        if state.exact is not None:  # its gap is not known to 1e-10
            return torch.zeros_like(state.binds.squeeze(-1))
        return self._solved(state, self.tol, self.norm_tol) & self._at_the_end(state)

    def answer(self, state: DualState) -> tuple[Tensor, Tensor]:
        """Return c·s where the constraint binds, else the exact code."""
        state = self._widened(state)
        code = state.target.radius * state.s
        exact = (~state.binds).squeeze(-1).nonzero().squeeze(-1)
        code[exact] = self._exact_code(state, exact)
        return state.target.answer(code, state.v)

    def _evaluate(
        self, target: Target, v: Tensor, y: Tensor, excess: Tensor, exact: Target | None = None
    ) -> DualState:
        """Compute everything at v, after scaling v to the best length for its problem."""
        seen = y.clamp(min=0) if self.nonnegative else y
        norm, s, w = norm_gradient(seen, (1 + 1 / excess).to(y.dtype))
        xv = dot(target.x, v)
        bound = xv / norm
        binds = target.binds(bound)
        metric_v = target.white.metric * v
        length = torch.where(binds, (xv - target.radius * norm) / dot(v, metric_v), bound / norm)
        vs = target.white.synthesize(s)
        pull = torch.where(binds, target.radius, length * norm)
        gradient = torch.addcmul(-target.x, vs, pull).addcmul_(metric_v, length * binds)
        scaled = v * length, y * length, norm * length
        return DualState(target, *scaled, s, w, vs, gradient, bound, binds, excess, exact)

    def _solved(self, state: DualState, tol: float, norm_tol: float) -> Tensor:
        squared = state.gradient.square()
        gap = (squared / state.target.white.metric).sum(-1)
        binds = state.binds.squeeze(-1)
        solved = binds & (gap <= tol)
        # An error e of the code costs about e² of the norm: check only the rows where e is small.
        length = dot(state.target.x, state.target.x).squeeze(-1)
        near = (~binds & (squared.sum(-1) <= 1e4 * norm_tol * length)).nonzero().squeeze(-1)
        if len(near):
            norm = row_norm(
                self._exact_code(state, near), (1 + state.excess[near]).to(squared.dtype)
            )
            solved[near] = (norm - state.bound[near] <= norm_tol * norm).squeeze(-1)
        return solved

    @staticmethod
    def _exact_code(state: DualState, rows: Tensor) -> Tensor:
        """Return N·s, projected onto Vz = x."""
        norm, s, vs, x = (t[rows] for t in (state.norm, state.s, state.vs, state.target.x))
        missing = state.target.white.select(rows).analyze(torch.addcmul(x, norm, vs, value=-1))
        return missing.addcmul_(s, norm)

    def _hessian(self, state: DualState) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Write the Hessian as (diag(d) + b·V diag(w) Vᵀ + e·(Vs)(Vs)ᵀ)/f: return d, b, e and f.

        With this factor no term is much larger than Λ, whatever c is.
        """
        # The first term over the second, where the constraint binds; q − 1 is 1/(p − 1).
        excess = state.excess.to(state.norm.dtype)
        share = (state.norm / state.target.radius * excess).clamp(max=1e30)
        blend = torch.where(state.binds, 1 / (1 + share), 1.0)
        factor = torch.where(state.binds, share * blend, excess)
        diagonal = torch.where(state.binds, factor * state.target.white.metric, 0.0)
        return diagonal, blend, torch.where(state.binds, -blend, excess - 1), factor

    def _direct_direction(self, state: DualState) -> Tensor:
        diagonal, blend, rank_one, factor = self._hessian(state)
        matrix = weighted_gram(state.target.white, blend * state.w)
        matrix.baddbmm_((rank_one * state.vs).unsqueeze(-1), state.vs.unsqueeze(-2))
        matrix.diagonal(dim1=-2, dim2=-1).add_(diagonal)
        return cholesky_solve(cholesky_factor(matrix), -factor * state.gradient)

    def _iterative_direction(self, state: DualState, index: int) -> Tensor:
        """Run preconditioned conjugate gradients in float32, more of them at every Newton step.

        Their number does not depend on the data, so that a row does not depend on other rows.
        """
        low = torch.float32
        white = self._low if self.white.shared else state.target.white.to(low)
        size = state.gradient.abs().amax(-1, keepdim=True)
        *terms, factor = self._hessian(state)
        diagonal, blend, rank_one = (t.to(low) for t in terms)
        w, vs = state.w.to(low) * blend, state.vs.to(low)
        inverse = (diagonal + w.mean(-1, keepdim=True)).reciprocal_()
        tiny = torch.finfo(low).tiny
        residual = (-state.gradient / size.clamp(min=torch.finfo(size.dtype).tiny)).to(low)
        step = torch.zeros_like(residual)
        search = inverse * residual
        progress = dot(residual, search)
        count = CONJUGATE_STEPS[min(index, len(CONJUGATE_STEPS) - 1)]
        count = min(count, 2 * white.basis.shape[-2])
        # Large temporaries are allocated once: allocation costs more than the arithmetic.
        coefficients, image = torch.empty_like(w), torch.empty_like(residual)
        scaled, product = torch.empty_like(residual), torch.empty_like(residual)

        def inner(a: Tensor, b: Tensor) -> Tensor:
            return torch.mul(a, b, out=product).sum(-1, keepdim=True)

        for left in range(count - 1, -1, -1):
            white.analyze(search, out=coefficients).mul_(w)
            white.synthesize(coefficients, out=image)
            image.addcmul_(diagonal, search).addcmul_(vs, rank_one * inner(vs, search))
            along = progress / inner(search, image).clamp_(min=tiny)
            step.addcmul_(search, along)
            if left:
                residual.addcmul_(image, along, value=-1)
                torch.mul(inverse, residual, out=scaled)
                previous, progress = progress, inner(residual, scaled)
                search.mul_(progress / previous.clamp_(min=tiny)).add_(scaled)
        return step.to(size.dtype).mul_(size * factor)

    def _search(self, state: DualState, d: Tensor, dy: Tensor) -> DualState:
        """Halve the step of each row until the objective decreases enough."""
        slope = dot(state.gradient, d)
        before = self._objective(state)
        rounding = 8 * torch.finfo(d.dtype).eps * before.abs()
        ahead = self._evaluate(state.target, state.v + d, state.y + dy, state.excess, state.exact)
        # A row whose lower bound exceeds c changes its problem: accept the step.
        fine = self._objective(ahead, state.binds) <= before + 1e-4 * slope + rounding
        fine |= ahead.binds & ~state.binds
        if fine.all():
            return ahead
        rows = (~fine).squeeze(-1).nonzero().squeeze(-1)
        size = 1.0
        merged = ahead
        for _ in range(MAX_HALVINGS):
            size /= 2
            part = state.select(rows)
            v, y = part.v + size * d[rows], part.y + size * dy[rows]
            trial = self._evaluate(part.target, v, y, part.excess, part.exact)
            good = self._objective(trial, part.binds) <= (
                before[rows] + 1e-4 * size * slope[rows] + rounding[rows]
            )
            good |= trial.binds & ~part.binds
            accepted = good.squeeze(-1)
            merged = merged.put(rows[accepted], trial.select(accepted.nonzero().squeeze(-1)))
            rows = rows[~accepted]
            if not len(rows):
                return merged
        return merged.put(rows, state.select(rows))

    @staticmethod
    def _objective(state: DualState, binds: Tensor | None = None) -> Tensor:
        """Return the minimum of the objective over the length of v.

        −(xᵀv − c·N)²/(2·vᵀΛv) where the constraint binds, else −(xᵀv/N)²/2.
        """
        if binds is None:
            binds = state.binds
        size = dot(state.v, state.target.white.metric * state.v)
        return -0.5 * torch.where(binds, torch.where(state.binds, size, 0.0), state.bound.square())
