"""Newton's method on the code itself, for 2 < p < ∞, where the p-norm is smooth.

In whitened coordinates, with N = ‖z‖_p, s = sign(z)(|z|/N)^(p−1) and y = Vᵀv, the two problems of
`dual_newton.py` require

    the constraint binds:     λ·N·s = y  with  Λv = x − Vz,  N = c
    an exact code exists:     N·s = y    with  Vz = x

On the allowed d, the Hessian of ½N² is (p−1)·diag((|z|/N)^(p−2)). Along it, an entry whose y is 0
would lose only 1/(p−1) of itself in a step. So H has chords instead of these tangents, from z to
the code z* with N·s(z*) = y/λ:

    H = diag((N·s − y/λ)/(z − z*))

A step is the d with the least

    ½dᵀBd + ⟨N·s − y/λ, d⟩

    the constraint binds:     B = H + VᵀΛ⁻¹V/λ,  sᵀd = 0;  then z + d is scaled to N = c
    an exact code exists:     B = H,  Vd = 0;  then z + d still has V(z + d) = x

It is accepted if the residual, or N, became smaller. Entries that are near 0 and stay there have no
curvature, so B is singular; but it is well conditioned for the d that are allowed, and a few
conjugate-gradient steps in float32 find d. The first Newton steps are in float32 altogether. Where
these are not enough, d comes from a factorization of V H⁻¹ Vᵀ (+ λΛ): that is slower, and solves
problems that are worse conditioned. It is in float32, or in the precision of the data with
`direct`.
Every row reaches a large p through a sequence of increasing exponents. The start at each of them
is the code with the dual vector of the one before, at the first one with the dual vector x.
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
    has_cheap_gram,
    norm_gradient,
    row_norm,
    weighted_gram,
)

PATH_START, PATH_RATIO = 3.0, 1.6
PATH_TOL = 0.05
# Bounds on the inverse curvature of an entry, relative to that of the largest.
FLATTEST, FLATTEST_LOW = 1e10, 1e8
MAX_HALVINGS = 30
CONJUGATE_TOL = 1e-7  # share of the squared residual that is noise in float32
NEAR = 1e-3  # relative distance at which a chord is a tangent
NOTHING = 1e-10  # relative change of the residual or norm that may be rounding
RIDGE_STEPS = 12
MOST_LOW_STEPS = 5  # in float32: float64 rows begin with them, with fewer below p = 6
FEW_STEPS, MOST_STEPS = 6, 40  # with conjugate gradients, and in all, where systems are factored
# Per Newton step.
CONJUGATE_STEPS = (4, 8, 12, 16, 20, 25, 30, 40, 50, 60, 80, 100, 100, 100, 100, 100)


@dataclass(frozen=True)
class PrimalState(RowState):
    """A feasible code, its dual vector, and what was computed from them."""

    target: Target
    z: Tensor  # (rows, m): Vz = x, or ‖z‖_p = c
    norm: Tensor  # N, (rows, 1)
    s: Tensor  # (rows, m)
    chord: Tensor  # of ∇½N² at z, as long as p − 1 tangents, (rows, m)
    v: Tensor  # Λ⁻¹(x − Vz), or V(N·s), (rows, k)
    y: Tensor  # Vᵀv, (rows, m)
    dual_norm: Tensor  # ‖y‖_q, (rows, 1)
    multiplier: Tensor  # λ, or 1 for exact codes, (rows, 1)
    error: Tensor  # ‖x − Vz‖² in the metric Λ⁻¹: the objective, relative to ½‖x‖², (rows, 1)
    gap: Tensor  # of the objective, or of the norm, relative to it, (rows, 1)
    witness: Tensor  # the v that proved that the constraint binds, (rows, k)
    binds: Tensor  # (rows, 1)
    given_up: Tensor  # whether there were too many steps, (rows, 1)
    p: Tensor  # the exponent that the row has reached, in float64, (rows, 1)
    exact: Target | None  # in float64, while all else is in float32


class PrimalNewton:
    """Codes for 2 < p < ∞ with gap ≤ tol·½‖x‖² and norm_gap ≤ norm_tol·‖z‖_p."""

    def __init__(
        self,
        white: Whitened,
        p: float,
        radius: float,
        tol: float,
        norm_tol: float,
        direct: bool = False,
    ):
        self.white, self.radius, self.tol, self.norm_tol = white, radius, tol, norm_tol
        self.direct = direct
        self.p = self.first_p = p
        self.low_steps = min(MOST_LOW_STEPS, int(1.5 * (p - 2)))
        while self.first_p / PATH_RATIO > PATH_START:
            self.first_p /= PATH_RATIO
        self._low = white.to(torch.float32)
        self._factors = has_cheap_gram(white)

    def init(self, x: Tensor) -> PrimalState:
        """Start from the code whose dual vector is x."""
        target, exact = Target.of(x, self.radius, self.white.to(x.dtype)), None
        if x.dtype == torch.float64 and self.low_steps and not self.direct:
            exact, target = target, target.to(torch.float32)
        p = torch.full_like(target.radius, self.first_p, dtype=torch.float64)
        start = _exact(target, _dual_code(target.white.analyze(target.x), p))
        no = torch.zeros_like(target.radius, dtype=torch.bool)
        return self._placed(self._evaluate(target, start, target.x, no, p, exact))

    def step(self, state: PrimalState, index: int) -> PrimalState:
        """Take a Newton step with a line search, at the next exponent where it is time for it."""
        if index == self.low_steps:
            state = self._widened(state)
        state = self._with_next_exponent(state)
        direct = self.direct or (self._factors and index >= FEW_STEPS)
        if direct:
            d = self._direct_step(state, None if self.direct else torch.float32)
        else:
            d = self._iterative_step(state, index)
        along = (~state.binds).to(d)
        d = d - along * state.target.white.analyze(state.target.white.synthesize(d))
        moved = self._placed(self._search(state, d, direct))
        if self.direct or index + 1 < (MOST_STEPS if direct else len(CONJUGATE_STEPS)):
            return moved
        return dataclasses.replace(moved, given_up=torch.ones_like(moved.given_up))

    def finished(self, state: PrimalState) -> Tensor:
        """Return which rows have a small gap or norm_gap, or are left to direct steps."""
        at_the_end = (state.p >= self.p).squeeze(-1) & (state.exact is None)
        solved = self._solved(state, self.tol, self.norm_tol) & at_the_end
        return solved | state.given_up.squeeze(-1)

    def answer(self, state: PrimalState) -> tuple[Tensor, Tensor]:
        """Return the code, and v or the witness.

        A residual near 0 has no meaningful direction: there the witness is the better dual vector.
        """
        state = self._widened(state)
        vanished = state.binds & (state.error <= self.tol)
        return state.target.answer(state.z, torch.where(vanished, state.witness, state.v))

    def _widened(self, state: PrimalState) -> PrimalState:
        """Return the state in the precision of the rows."""
        target = state.exact
        if target is None:
            return state
        z, witness = state.z.to(target.x.dtype), state.witness.to(target.x.dtype)
        z = torch.where(state.binds, z, _nearest_exact(target, z))
        return self._evaluate(target, z, witness, state.binds, state.p)

    def _with_next_exponent(self, state: PrimalState) -> PrimalState:
        """Raise the exponent of the rows that are nearly solved."""
        if self.first_p == self.p:
            return state
        ready = self._solved(state, PATH_TOL, PATH_TOL) & (state.p < self.p).squeeze(-1)
        rows = ready.nonzero().squeeze(-1)
        if not len(rows):
            return state
        part = state if len(rows) == len(ready) else state.select(rows)
        # The balls grow with p: an exact code may be feasible now.
        target, free = part.target, torch.zeros_like(part.binds)
        p = (part.p * PATH_RATIO).clamp(max=self.p)
        exact = _exact(target, _dual_code(part.s, p))
        ahead = self._placed(self._evaluate(target, exact, part.witness, free, p, part.exact))
        return ahead if part is state else state.put(rows, ahead)

    @staticmethod
    def _evaluate(
        target: Target,
        z: Tensor,
        witness: Tensor,
        binds: Tensor,
        exponent: Tensor,
        exact: Target | None = None,
    ) -> PrimalState:
        """Compute everything at z, after scaling z to the sphere where the constraint binds."""
        white, p = target.white, exponent.to(z.dtype)
        norm, s, tangent = norm_gradient(z, p)
        z = z * torch.where(binds, target.radius / norm, 1.0)
        norm = torch.where(binds, target.radius, norm)
        # As a sum: torch.where takes several times as long.
        image = white.synthesize(torch.addcmul(binds * z, s, torch.where(binds, 0.0, norm)))
        residual = torch.where(binds, target.x - image, 0.0)
        weighted = residual / white.metric
        v = torch.where(binds, weighted, image)
        y = white.analyze(v)
        # ‖y‖_q, with q = p/(p − 1), and |y|^(q−1), which is used again.
        size = y.abs()
        peak = size.amax(-1, keepdim=True).clamp(min=torch.finfo(y.dtype).tiny)
        size /= peak
        root = size.pow(1 / (p - 1))
        dual_norm = peak * dot(size, root).pow(1 - 1 / p)
        multiplier = torch.where(binds, _multiplier(z, y, norm, dual_norm), 1.0)
        scale = peak / multiplier / norm
        goal = torch.copysign(root, y).mul_(scale.pow(1 / (p - 1)))
        chord = _chord(z / norm, goal, s, y / (multiplier * norm), tangent, p)
        error = dot(residual, weighted)
        xv = dot(target.x, v)
        reached = (xv - target.radius * dual_norm).clamp(min=0).square()
        reached = reached / dot(v, white.metric * v)
        gap = torch.where(binds, error - reached, 1 - xv / dual_norm / norm)
        no = torch.zeros_like(binds)
        found = (z, norm, s, chord, v, y, dual_norm, multiplier, error, gap)
        return PrimalState(target, *found, witness, binds, no, exponent, exact)

    def _placed(self, state: PrimalState) -> PrimalState:
        """Move rows whose bound exceeds c to the sphere."""
        bound = dot(state.target.x, state.v) / state.dual_norm
        new = ~state.binds & state.target.binds(bound)
        if not new.any():
            return state
        rows = new.squeeze(-1).nonzero().squeeze(-1)
        part = state.select(rows)
        start = _ridge(part.target, part.p)
        ahead = self._evaluate(part.target, start, part.v, new[rows], part.p, part.exact)
        return state.put(rows, ahead)

    @staticmethod
    def _solved(state: PrimalState, tol: float, norm_tol: float) -> Tensor:
        return (state.gap <= torch.where(state.binds, tol, norm_tol)).squeeze(-1)

    def _iterative_step(self, state: PrimalState, index: int) -> Tensor:
        """Run projected conjugate gradients in float32, more of them at every Newton step.

        They are preconditioned by the B of constant curvature, restricted to the allowed d:
        G = I − Vᵀdiag(1 − g)V, less its part along s. Only b, η and ρ = Vr of a residual
        r = b + Vᵀη are stored: a step then needs just two products with V.
        """
        low = torch.float32
        white = self._low if self.white.shared else state.target.white.to(low)
        p, binds, any_binds = state.p.to(low), state.binds, bool(state.binds.any())
        multiplier = state.multiplier
        h = (p - 1) * state.chord.to(low)
        s = state.s.to(low)
        stiff = torch.where(binds, 1 / (multiplier * state.target.white.metric), 0.0).to(low)
        mean = h.mean(-1, keepdim=True)
        g = torch.where(binds, mean / (mean + stiff), 0.0)
        right = state.y / multiplier - state.norm * state.s
        size = right.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(right.dtype).tiny)
        tiny = torch.finfo(low).tiny
        b = (right / size).to(low)
        rho = white.synthesize(b)
        eta = torch.zeros_like(rho)
        vs = white.synthesize(s)
        normal = s - white.analyze((1 - g) * vs)  # Gs
        scale = torch.where(binds, 1 / dot(s, normal).clamp(min=tiny), 0.0)
        # Large temporaries are allocated once: allocation costs more than the arithmetic.
        coefficients, product = torch.empty_like(b), torch.empty_like(b)
        image, step = torch.empty_like(rho), torch.zeros_like(b)

        def inner(a: Tensor, b: Tensor) -> Tensor:
            return torch.mul(a, b, out=product).sum(-1, keepdim=True)

        def precondition() -> tuple[Tensor, Tensor]:
            """Write Gr to `coefficients`; return VGr and ⟨r, Gr⟩."""
            white.analyze(eta - (1 - g) * rho, out=coefficients).add_(b)
            # The parts of r along s, or in the range of Vᵀ, have no effect but grow by rounding.
            if any_binds:
                along_s = scale * inner(s, coefficients)
                coefficients.addcmul_(normal, along_s, value=-1)
                b.addcmul_(s, along_s, value=-1)
                rho.addcmul_(vs, along_s, value=-1)
            if any_binds:
                torch.where(binds, b, coefficients, out=b)
            else:
                b.copy_(coefficients)
            rho.mul_(binds)
            coefficients_v = g * rho
            return coefficients_v, inner(b, coefficients) + dot(eta, coefficients_v)

        search_v, progress = precondition()
        search = coefficients.clone()
        noise = CONJUGATE_TOL * progress
        count = CONJUGATE_STEPS[min(index, len(CONJUGATE_STEPS) - 1)]
        for left in range(count - 1, -1, -1):
            torch.mul(h, search, out=coefficients)
            by_stiff = stiff * search_v
            curved = inner(search, coefficients) + dot(search_v, by_stiff)
            goes_on = (progress > noise) & (curved > 0)
            length = torch.where(goes_on, progress / curved.clamp(min=tiny), 0.0)
            step.addcmul_(search, length)
            if left:
                white.synthesize(coefficients, out=image).add_(by_stiff)
                b.addcmul_(coefficients, length, value=-1)
                eta.addcmul_(by_stiff, length, value=-1)
                rho.addcmul_(image, length, value=-1)
                previous = progress
                coefficients_v, progress = precondition()
                ratio = torch.where(goes_on, progress / previous.clamp(min=tiny), 0.0)
                search.mul_(ratio).add_(coefficients)
                search_v.mul_(ratio).add_(coefficients_v)
        return step.to(right.dtype).mul_(size)

    def _direct_step(self, state: PrimalState, low: torch.dtype | None = None) -> Tensor:
        """Eliminate d and the change of λ from the Newton system, and factor what is left.

        With `low` the factor is of this dtype, and its solutions are refined once.
        """
        p, white = state.p.to(state.z.dtype), state.target.white
        s, norm, binds, multiplier = state.s, state.norm, state.binds, state.multiplier
        tiny, flattest = torch.finfo(s.dtype).tiny, FLATTEST if low is None else FLATTEST_LOW
        flat = state.chord.clamp(min=tiny).reciprocal().clamp_(max=flattest) / (p - 1)  # H⁻¹
        ridge = torch.where(binds, multiplier * white.metric, 0.0)
        dtype = low or s.dtype
        matrix = weighted_gram(white.to(dtype), flat.to(dtype))
        matrix.diagonal(dim1=-2, dim2=-1).add_(ridge)
        factor = cholesky_factor(matrix)

        def solve(right: Tensor) -> Tensor:
            return cholesky_solve(factor, right.to(dtype)).to(s.dtype)

        excess = norm * s - state.y / multiplier
        normal = flat * s
        vn = white.synthesize(normal)
        right = torch.stack([white.synthesize(flat * excess), vn], -1)
        solved = solve(right)
        if low is not None:
            images = [
                white.synthesize(flat * white.analyze(u)) + ridge * u for u in solved.unbind(-1)
            ]
            solved = solved + solve(right - torch.stack(images, -1))
        plain, by_multiplier = solved.unbind(-1)
        # The change of λ, over λ·N, that makes the step tangent to the sphere.
        change = dot(normal, excess) - dot(vn, plain)
        change = torch.where(binds, change / (dot(vn, by_multiplier) - dot(s, normal)), 0.0)
        dv = plain + change * by_multiplier
        return flat * (white.analyze(dv) - excess) - change * normal

    def _ahead(self, state: PrimalState, d: Tensor) -> PrimalState:
        z = state.z + d
        return self._evaluate(state.target, z, state.witness, state.binds, state.p, state.exact)

    def _search(self, state: PrimalState, d: Tensor, direct: bool) -> PrimalState:
        """Halve the step of each row until the residual on the sphere, or the norm, decreases.

        Near the solution they only change by roundings: there the gap must decrease.
        """

        def fine(ahead: PrimalState, before: PrimalState) -> Tensor:
            old, new = (torch.where(before.binds, t.error, t.norm) for t in (before, ahead))
            smaller = new <= old * (1 + 64 * torch.finfo(d.dtype).eps)
            smaller |= (new <= old * (1 + NOTHING)) & (ahead.gap < 0.5 * before.gap)
            return smaller.squeeze(-1)

        merged = self._ahead(state, d)
        rows = (~fine(merged, state)).nonzero().squeeze(-1)  # with NaN
        size = 1.0
        for _ in range(MAX_HALVINGS):
            if not len(rows):
                return merged
            size /= 2
            part = state.select(rows)
            trial = self._ahead(part, size * d[rows])
            good = fine(trial, part)
            merged = merged.put(rows[good], trial.select(good.nonzero().squeeze(-1)))
            rows = rows[~good]
        # Direct steps from the same point would be the same again.
        given_up = state.given_up | direct
        return merged.put(rows, dataclasses.replace(state, given_up=given_up).select(rows))


def _multiplier(z: Tensor, y: Tensor, norm: Tensor, dual_norm: Tensor) -> Tensor:
    """Return λ where the constraint binds.

    At the solution it is both ⟨z, y⟩/N² and ‖y‖_q/N; elsewhere the first is at most the second.
    """
    multiplier = torch.maximum(dot(z, y) / norm.square(), 0.1 * dual_norm / norm)
    return multiplier.clamp(min=torch.finfo(z.dtype).tiny)


def _chord(
    z: Tensor, goal: Tensor, s: Tensor, goal_s: Tensor, tangent: Tensor, p: Tensor
) -> Tensor:
    """Return the slope from (z, s) to (goal, goal_s) over p − 1, or |z|^(p−2) if they are near."""
    way = z - goal
    near = (NEAR * z).square_()
    slope = (s - goal_s).mul_(way).div_(p - 1).addcmul_(near, tangent)
    return slope / way.square_().add_(near).add_(torch.finfo(z.dtype).tiny)


def _dual_code(y: Tensor, p: Tensor) -> Tensor:
    """Return a code with ∇‖z‖_p ∝ y."""
    relative = y.abs() / y.abs().amax(-1, keepdim=True)
    return torch.copysign(relative.pow((1 / (p - 1)).to(y.dtype)), y)


def _exact(target: Target, z: Tensor) -> Tensor:
    """Return the exact code nearest to a multiple of z."""
    vz = target.white.synthesize(z)
    return _nearest_exact(target, z * (dot(target.x, vz) / dot(vz, vz)))


def _nearest_exact(target: Target, z: Tensor) -> Tensor:
    return z + target.white.analyze(target.x - target.white.synthesize(z))


def _ridge(target: Target, p: Tensor) -> Tensor:
    """Return the p = 2 code z(λ) = Vᵀ(x/(1 + λΛ)) with a p-norm near c."""
    low, high = (torch.full_like(target.radius, value) for value in (-40.0, 40.0))

    def code(log_multiplier: Tensor) -> Tensor:
        return target.white.analyze(target.x / (1 + log_multiplier.exp() * target.white.metric))

    for _ in range(RIDGE_STEPS):
        middle = 0.5 * (low + high)
        long = row_norm(code(middle), p.to(middle.dtype)) > target.radius
        low, high = torch.where(long, middle, low), torch.where(long, high, middle)
    return code(high)
