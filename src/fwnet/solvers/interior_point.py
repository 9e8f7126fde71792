"""A primal-dual interior-point method for p = 1 and p = ∞: quadratic or linear programs.

In whitened coordinates, with multipliers a, b > 0, the pair of problems of `dual_newton.py` is

    p = 1:   |y| ≤ τ,  y = Vᵀv,  z = a − b,      a·(τ − y) = b·(τ + y) = μ → 0
    p = ∞:   |z| ≤ τ,  y = a − b = Vᵀv,          a·(τ − z) = b·(τ + z) = μ → 0

and Λv + Vz = x where the constraint binds, Vz = x where an exact code exists. The bound τ is free,
with given Σ(a + b), if it is the minimized norm or the dual norm, and fixed otherwise. Both cases
share the code below, for the bounded vector (y or z) and the free one (z or y). Mehrotra's
predictor and corrector share one factorization of V diag(w) Vᵀ (+ Λ) per step.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.functional import dual_exponent, lp_norm
from fwnet.solvers.faces import on_face
from fwnet.solvers.rows import RowState
from fwnet.solvers.whitened import (
    Target,
    Whitened,
    cholesky_factor,
    cholesky_solve,
    dot,
    weighted_gram,
)

TO_THE_BORDER = 0.995  # the share of the way to the border of the positive region that a step takes
NO_STEP = 1e-8


@dataclass(frozen=True)
class InteriorState(RowState):
    """A point inside all bounds. `bounded` is y for p = 1 and z for p = ∞.

    The slacks τ ∓ bounded are stored: computed as differences they would lose digits near 0.
    """

    target: Target
    v: Tensor  # (rows, k)
    bounded: Tensor  # (rows, m), below `level` in magnitude
    level: Tensor  # τ, (rows, 1)
    slack_up: Tensor  # τ − bounded
    slack_low: Tensor  # τ + bounded
    upper: Tensor  # a, the multiplier of bounded ≤ τ, (rows, m)
    lower: Tensor  # b, the multiplier of bounded ≥ −τ, (rows, m)
    binds: Tensor  # (rows, 1)
    stuck: Tensor  # whether the last step had length 0, (rows, 1)


@dataclass(frozen=True)
class Move:
    """The changes of a state in one step."""

    v: Tensor
    bounded: Tensor
    level: Tensor
    upper: Tensor
    lower: Tensor


class InteriorPoint:
    """Codes for p = 1 or p = ∞ with gap ≤ tol·½‖x‖² and norm_gap ≤ norm_tol·‖z‖_p."""

    def __init__(self, white: Whitened, p: float, radius: float, tol: float, norm_tol: float):
        self.white, self.p, self.radius, self.tol, self.norm_tol = white, p, radius, tol, norm_tol

    def init(self, x: Tensor) -> InteriorState:
        """Start from the code of least L2 norm, well inside the bounds."""
        target = Target.of(x, self.radius, self.white.to(x.dtype))
        white = target.white
        z = white.analyze(target.x)
        # The dual vector of z, or of the code 0 if it proves that no exact code is in the ball.
        v = target.x / white.metric
        y = white.analyze(v)
        far = target.binds(dot(target.x, v) / lp_norm(y, dual_exponent(self.p)).unsqueeze(-1))
        v, y = torch.where(far, v, target.x), torch.where(far, y, z)
        bounded, free = (y, z) if self.p == 1 else (z, y)
        offset = free.abs().mean(-1, keepdim=True)
        upper, lower = free.clamp(min=0) + offset, (-free).clamp(min=0) + offset
        level = 2 * bounded.abs().amax(-1, keepdim=True)
        # Scale so that the dual norm of y, or the sum of its multipliers, is 1.
        unit = level if self.p == 1 else (upper + lower).sum(-1, keepdim=True)
        v = v / unit
        if self.p == 1:
            bounded, level = bounded / unit, torch.ones_like(level)
        else:
            upper, lower = upper / unit, lower / unit
        no = torch.zeros_like(far)
        slacks = level - bounded, level + bounded
        return InteriorState(target, v, bounded, level, *slacks, upper, lower, no, no)

    def step(self, state: InteriorState, index: int) -> InteriorState:
        """Predict with μ = 0, choose μ from the result, correct, and move."""
        state = self._with_known_problem(state)
        solve = self._factored(state)
        products = state.upper * state.slack_up, state.lower * state.slack_low
        mean = sum(product.sum(-1, keepdim=True) for product in products)
        guess = solve(-products[0], -products[1])
        primal, dual = (t.clamp(max=1) for t in _longest(state, guess))
        ahead = self._moved(state, guess, primal, dual)
        left = dot(ahead.upper, ahead.slack_up) + dot(ahead.lower, ahead.slack_low)
        mu = (left / mean).clamp(0, 1) ** 3 * mean / (2 * state.bounded.shape[-1])
        # Add the second-order terms of the prediction, as far as it could be followed.
        trust = torch.minimum(primal, dual).square()
        move = solve(
            mu - products[0] - trust * guess.upper * (guess.level - guess.bounded),
            mu - products[1] - trust * guess.lower * (guess.level + guess.bounded),
        )
        primal, dual = (TO_THE_BORDER * t for t in _longest(state, move))
        # Λv + Vz = x couples both sides: a common step length keeps it satisfied.
        together = torch.minimum(primal, dual)
        primal, dual = (torch.where(state.binds, together, t) for t in (primal, dual))
        moved = self._moved(state, move, primal.clamp(max=1), dual.clamp(max=1))
        # A row with NaN or infinite results (a singular system) does not move.
        fine = (moved.v.sum(-1) + moved.upper.sum(-1)).isfinite().unsqueeze(-1)
        stuck = ~fine | (torch.maximum(primal, dual) < NO_STEP)
        if not fine.all():
            rows = (~fine).squeeze(-1).nonzero().squeeze(-1)
            moved = moved.put(rows, state.select(rows))
        return dataclasses.replace(moved, stuck=stuck)

    def finished(self, state: InteriorState) -> Tensor:
        """Return which rows have a small gap or norm_gap, or cannot move."""
        target, metric = state.target, state.target.white.metric
        dual_norm, bound = self._bound(state)
        binds = state.binds | target.binds(bound)
        code = self._code(dataclasses.replace(state, binds=binds))
        residual = target.x - target.white.synthesize(code)
        reached = (dot(target.x, state.v) - target.radius * dual_norm).clamp(min=0).square()
        gap = dot(residual, residual / metric) - reached / dot(state.v, metric * state.v)
        norm = lp_norm(code, self.p).unsqueeze(-1)
        small = norm - bound <= self.norm_tol * norm
        return (torch.where(binds, gap <= self.tol, small) | state.stuck).squeeze(-1)

    def answer(self, state: InteriorState) -> tuple[Tensor, Tensor]:
        """Return the code, moved to the nearby face, and the dual vector."""
        _, bound = self._bound(state)
        state = dataclasses.replace(state, binds=state.binds | state.target.binds(bound))
        # An entry is at its bound if its multiplier exceeds its slack, both in relative units.
        multiplier = torch.maximum(state.upper, state.lower)
        slack = torch.minimum(state.slack_up, state.slack_low)
        at_bound = multiplier / multiplier.amax(-1, keepdim=True) * (state.level / slack)
        freedom = at_bound if self.p == 1 else 1 / at_bound
        sign = state.bounded.sign()
        code = on_face(
            self.p, state.target, self._code(state), freedom, sign, state.binds, self.tol
        )
        return state.target.answer(code, state.v)

    def _bound(self, state: InteriorState) -> tuple[Tensor, Tensor]:
        y = state.bounded if self.p == 1 else state.target.white.analyze(state.v)
        dual_norm = lp_norm(y, torch.inf if self.p == 1 else 1.0).unsqueeze(-1)
        return dual_norm, dot(state.target.x, state.v) / dual_norm

    def _code(self, state: InteriorState) -> Tensor:
        """Scale z into the ball where the constraint binds; elsewhere project it onto Vz = x."""
        z = state.upper - state.lower if self.p == 1 else state.bounded
        white = state.target.white
        exact = z + white.analyze(state.target.x - white.synthesize(z))
        norm = lp_norm(z, self.p).unsqueeze(-1)
        inside = z * torch.where(norm > state.target.radius, state.target.radius / norm, 1.0)
        return torch.where(state.binds, inside, exact)

    def _with_known_problem(self, state: InteriorState) -> InteriorState:
        """Move rows whose lower bound exceeds c to the problem whose constraint binds."""
        target = state.target
        dual_norm, bound = self._bound(state)
        change = ~state.binds & target.binds(bound)
        if not change.any():
            return state
        metric_v = target.white.metric * state.v
        xv = dot(target.x, state.v)
        grow = torch.where(change, (xv - target.radius * dual_norm) / dot(state.v, metric_v), 1.0)
        if self.p == 1:
            by_level = grow
            total = (state.upper + state.lower).sum(-1, keepdim=True)
            by_multiplier = torch.where(change, target.radius / total, 1.0)
        else:
            by_level = torch.where(change, target.radius / state.level, 1.0)
            by_multiplier = grow
        return InteriorState(
            target,
            state.v * grow,
            state.bounded * by_level,
            state.level * by_level,
            state.slack_up * by_level,
            state.slack_low * by_level,
            state.upper * by_multiplier,
            state.lower * by_multiplier,
            state.binds | change,
            state.stuck,
        )

    def _factored(self, state: InteriorState) -> Callable[[Tensor, Tensor], Move]:
        """Factor the Newton system; return its solution as a function of the two right sides.

        The right sides are the desired first-order changes of a·(τ − ·) and b·(τ + ·).
        """
        target, white, binds = state.target, state.target.white, state.binds
        w_up, w_low = state.upper / state.slack_up, state.lower / state.slack_low
        w, tilt = w_up + w_low, w_up - w_low
        free = state.upper - state.lower
        level_is_free = binds if self.p == 1 else ~binds
        wanted_total = target.radius if self.p == 1 else torch.ones_like(target.radius)
        missing_total = wanted_total - (state.upper + state.lower).sum(-1, keepdim=True)
        code = free if self.p == 1 else state.bounded
        missing = target.x - white.synthesize(code)
        missing = missing - torch.where(binds, white.metric * state.v, 0.0)
        weights = w if self.p == 1 else 1 / w
        diagonal = torch.where(binds, white.metric, 0.0)
        matrix = weighted_gram(white, weights)
        matrix.diagonal(dim1=-2, dim2=-1).add_(diagonal)
        factor = cholesky_factor(matrix)

        def system_solve(right: Tensor) -> Tensor:
            """Refine once: the weights differ by orders of magnitude, and small ones are lost."""
            v = cholesky_solve(factor, right)
            image = white.synthesize(weights * white.analyze(v)) + diagonal * v
            return v + cholesky_solve(factor, right - image)

        mismatch = 0.0 if self.p == 1 else free - white.analyze(state.v)
        by_level = white.synthesize(tilt if self.p == 1 else -tilt / w)
        v_by_level = system_solve(by_level)
        bounded_by_level = white.analyze(v_by_level)
        if self.p != 1:
            bounded_by_level = (bounded_by_level + tilt) / w
        curvature = w.sum(-1, keepdim=True) - dot(tilt, bounded_by_level)

        def solve(change_up: Tensor, change_low: Tensor) -> Move:
            e_up, e_low = change_up / state.slack_up, change_low / state.slack_low
            if self.p == 1:
                v = system_solve(missing - white.synthesize(e_up - e_low))
                bounded = white.analyze(v)
            else:
                offset = e_up - e_low + mismatch
                v = system_solve(missing + white.synthesize(offset / w))
                bounded = (white.analyze(v) - offset) / w
            total = (e_up + e_low).sum(-1, keepdim=True) - missing_total + dot(tilt, bounded)
            level = torch.where(level_is_free, total / curvature, 0.0)
            v = v + level * v_by_level
            bounded = bounded + level * bounded_by_level
            upper = e_up - w_up * (level - bounded)
            lower = e_low - w_low * (level + bounded)
            return Move(v, bounded, level, upper, lower)

        return solve

    def _moved(
        self, state: InteriorState, move: Move, primal: Tensor, dual: Tensor
    ) -> InteriorState:
        """Move the bounded vector by one step length and the multipliers by another."""
        return dataclasses.replace(
            state,
            v=state.v + (primal if self.p == 1 else dual) * move.v,
            bounded=state.bounded + primal * move.bounded,
            level=state.level + primal * move.level,
            slack_up=state.slack_up + primal * (move.level - move.bounded),
            slack_low=state.slack_low + primal * (move.level + move.bounded),
            upper=state.upper + dual * move.upper,
            lower=state.lower + dual * move.lower,
        )


def _longest(state: InteriorState, move: Move) -> tuple[Tensor, Tensor]:
    """Return how far the slacks and the multipliers can move and stay positive, up to 1/0.995."""

    def reach(value: Tensor, change: Tensor) -> Tensor:
        return torch.where(change < 0, -value / change, torch.inf).amin(-1, keepdim=True)

    slacks = torch.minimum(
        reach(state.slack_up, move.level - move.bounded),
        reach(state.slack_low, move.level + move.bounded),
    )
    multipliers = torch.minimum(reach(state.upper, move.upper), reach(state.lower, move.lower))
    return slacks.clamp(max=1 / TO_THE_BORDER), multipliers.clamp(max=1 / TO_THE_BORDER)
