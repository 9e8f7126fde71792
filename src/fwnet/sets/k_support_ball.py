"""The ball of the k-support norm: the convex hull of short, sparse vectors."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.checks import check_integer, check_number
from fwnet.functional import check_radius, check_rows, lp_norm
from fwnet.sets.convex_set import ConvexSet, widened
from fwnet.sets.face import Face

MAX_STEPS = 100  # of Newton's method; usually a few
QUICK_STEPS = 40
ROOT_TOL = 1e4  # roundings; one more Newton step follows
SMALLEST = 1e-30  # stands for 0 relative to the largest entry, so that quotients stay finite


@dataclass(frozen=True, eq=False)
class KSupportBall(ConvexSet):
    """The convex hull of {z : ‖z‖_0 ≤ k, ‖z‖_2 ≤ radius}; k = 1 is the L1, k ≥ m the L2 ball.

    With shares η of a budget k, ‖z‖ = min{(Σ z_i²/η_i)^½ : 0 ≤ η ≤ 1, Σ η_i ≤ k}. Gauge and
    projection are differentiable.

    >>> import fwnet, torch
    >>> fwnet.KSupportBall(k=2).lmo(torch.tensor([-3.0, 1.0, -4.0]))
    tensor([0.6000, -0.0000, 0.8000])
    """

    k: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        check_integer("k", self.k)
        check_number("radius", self.radius)
        check_radius(self.radius)

    def lmo(self, u: Tensor) -> Tensor:
        """−radius·u/‖u‖₂ for the k largest entries of u, 0 elsewhere."""
        check_rows("u", u)
        wide = widened(u)
        kept = torch.zeros_like(wide).scatter(-1, self._top(wide), 1.0)
        top = wide * kept
        norm = lp_norm(top, 2).unsqueeze(-1)
        return (-self.radius * (top / torch.where(norm > 0, norm, 1.0))).to(u.dtype)

    def support(self, y: Tensor) -> Tensor:
        """radius·‖the k largest entries of y‖₂; at least float32."""
        check_rows("y", y)
        wide = widened(y)
        return self.radius * lp_norm(wide.gather(-1, self._top(wide)), 2)

    def gauge(self, z: Tensor) -> Tensor:
        """The k-support norm / radius; at least float32."""
        check_rows("z", z)
        wide = widened(z)
        peak, a = _relative(wide)
        full, part = self._kinds_of_the_norm(a.detach())
        left = (min(self.k, z.shape[-1]) - full.sum(-1)).clamp(min=1)
        squares = (a * a * full).sum(-1) + (a * part).sum(-1).square() / left
        squares = torch.where(peak.squeeze(-1) > 0, squares, 1.0)
        return peak.squeeze(-1) * squares.sqrt() / self.radius

    def project(self, y: Tensor) -> Tensor:
        """z_i = sign(y_i)·min(max(|y_i| − θ, 0), |y_i|/(1 + μ)).

        The largest entries have η = 1 and shrink by 1 + μ; those with 0 < η < 1 by θ. For a given
        μ, η_i = min(max(s·|y_i| − μ, 0), 1) with the s that spends the budget, and θ = μ/s. μ is
        the root of Σ z_i²/η_i = radius², found by Newton's method inside a bracket.
        """
        check_rows("y", y)
        if y.shape[-1] == 0:
            return y.clone()
        wide = widened(y)
        peak, a = _relative(wide)
        unit = torch.where(peak > 0, peak, 1.0)
        target = self.radius / unit
        with torch.no_grad():
            mu, full, part = self._multiplier(a.detach(), target.detach())
        sums = self._sums(a, full, part)
        # One more Newton step, which carries the gradient of the root.
        value, slope = _size(mu, *sums)
        outside = (mu > 0) | ~(value <= target.square())  # a radius of NaN gives NaN
        mu = (mu - (value - target.square()) / -_positive(-slope.detach())).clamp(min=0)
        _, moment, count, left = sums
        threshold = mu * moment / _positive(left + count * mu)
        small = a * (full / (1 + mu) + part) - threshold * part
        return torch.where(outside, wide.sign() * unit * small, wide).to(y.dtype)

    def face(self, y: Tensor, z: Tensor) -> Face:
        """The entries that are not 0; g = ½Σ z_i² over those with η = 1 + ½(Σ|z_i|)²/l of others.

        Outside the ball |y_i| − |z_i| is θ for the others and more where η = 1; μ = θ·l/Σ|z_i|.
        """
        a = z.abs()
        free, fall = a > 0, y.abs() - a
        theta = torch.where(free, fall, torch.inf).amin(-1, keepdim=True)
        part = free & (fall <= theta * (1 + 1e4 * torch.finfo(z.dtype).eps))
        left = min(self.k, z.shape[-1]) - (free & ~part).sum(-1, keepdim=True)
        moment = (a * part).sum(-1, keepdim=True)
        mu = theta * left / _positive(moment)
        signs = z.sign() * part
        shared = mu / left.clamp(min=1)

        def curvature(rows: Tensor, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            own = signs[rows].gather(-1, index)
            return mu[rows] * (own == 0), (shared[rows] * own).unsqueeze(-1), own.unsqueeze(-1)

        outside = (theta > 0) & theta.isfinite()
        normal = torch.where(part, signs * (moment / left.clamp(min=1)), z)
        return Face(free, normal * outside, curvature)

    def _top(self, u: Tensor) -> Tensor:
        return u.abs().topk(min(self.k, u.shape[-1]), -1).indices

    def _multiplier(self, a: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return μ, and which entries have η = 1 and 0 < η < 1, as numbers 1 and 0.

        For given kinds of entries the equation for μ is one of numbers. After each of its Newton
        steps the kinds are decided anew. Rows that do not settle that way are solved by Newton's
        method in a bracket.
        """
        mu = torch.zeros_like(target)
        full, part = self._kinds_of_the_norm(a)
        sums = self._sums(a, full, part)
        inside = _size(mu, *sums)[0] <= target.square()
        for _ in range(QUICK_STEPS):
            mu = _root_step(mu, target, *_size(mu, *sums)).masked_fill(inside, 0.0)
            error = (_size(mu, *sums)[0] / target.square() - 1).abs()
            _, moment, count, left = sums
            s = (left + count * mu) / _positive(moment)
            if not moment.all():  # only entries with η = 1: the k-th largest is the last of them
                last = a.topk(min(self.k, a.shape[-1]), -1).values[..., -1:].clamp(min=SMALLEST)
                s = torch.where(moment > 0, s, (1 + mu) / last)
            full, part = _kinds(s * a, mu)
            sums = self._sums(a, full, part)
            # Each kind is an interval of magnitudes: as many entries are the same entries.
            same = (sums[2] == count) & (sums[3] == left)
            settled = inside | same & (error <= ROOT_TOL * torch.finfo(a.dtype).eps)
            if settled.all():
                return mu, full, part
        rows = (~settled).squeeze(-1)
        mu[rows], full[rows], part[rows] = self._bracketed(a[rows], target[rows])
        return mu, full, part

    def _kinds_of_the_norm(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """Return the kinds for μ = 0, η_i = min(s·a_i, 1): as entries reach 1, s only grows."""
        budget, full = min(self.k, a.shape[-1]), torch.zeros_like(a)
        count = full.sum(-1, keepdim=True)
        while True:
            s = (budget - count) / _positive((a * (1 - full)).sum(-1, keepdim=True))
            full = torch.maximum(full, torch.ge(s * a, 1, out=torch.empty_like(a)))
            before, count = count, full.sum(-1, keepdim=True)
            if torch.equal(count, before):
                return full, torch.gt(a, 0, out=torch.empty_like(a)) - full

    def _bracketed(self, a: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Solve for μ with the exact kinds of entries in every step: slower, and certain."""
        mu = torch.zeros_like(target)
        low, high = mu, torch.full_like(mu, torch.inf)
        for _ in range(MAX_STEPS):
            full, part = self._shares(a, mu)
            value, slope = _size(mu, *self._sums(a, full, part))
            low = torch.where(value > target.square(), mu, low)
            high = torch.where(value < target.square(), mu, high)
            ahead = _root_step(mu, target, value, slope)
            middle = torch.where(high.isfinite(), (low + high) / 2, 2 * mu + 1)
            ahead = torch.where((ahead > low) & (ahead < high), ahead, middle)
            moving = (value / target.square() - 1).abs() > 8 * torch.finfo(a.dtype).eps
            moving &= (value > target.square()) | (mu > 0)
            if not (moving & (ahead != mu)).any():
                break
            mu = torch.where(moving, ahead, mu)
        return mu, full, part

    def _sums(self, a: Tensor, full: Tensor, part: Tensor) -> tuple[Tensor, ...]:
        """Return A, B, n and l of `_size`, each (…, 1)."""
        count, top = (kind.sum(-1, keepdim=True) for kind in (part, full))
        squares, moment = (
            (t * kind).sum(-1, keepdim=True) for t, kind in ((a * a, full), (a, part))
        )
        return squares, moment, count, min(self.k, a.shape[-1]) - top

    def _shares(self, a: Tensor, mu: Tensor) -> tuple[Tensor, Tensor]:
        """Return the kinds of η_i = min(max(s·a_i − μ, 0), 1) with Σ η_i = k.

        The sum is piecewise linear in s, with bends at μ/a_i and (1 + μ)/a_i.
        """
        budget, m = min(self.k, a.shape[-1]), a.shape[-1]
        a = a.clamp(min=SMALLEST)
        bends, order = torch.cat([mu / a, (1 + mu) / a], -1).sort(-1)
        begins = order < m
        change = torch.where(begins, 1.0, -1.0) * a.gather(-1, order % m)
        slope = change.cumsum(-1)
        constant = torch.where(begins, -mu, 1 + mu).cumsum(-1)
        reached = (slope * bends + constant) >= budget
        index = torch.where(
            reached.any(-1, keepdim=True), reached.int().argmax(-1, keepdim=True), 2 * m - 1
        )
        before = (index - 1).clamp(min=0)
        rise, base = slope.gather(-1, before), constant.gather(-1, before)
        s = (budget - base) / torch.where(rise > 0, rise, 1.0)
        s = torch.where(rise > 0, s, bends.gather(-1, index))
        s = s.clamp(bends.gather(-1, before), bends.gather(-1, index))
        return _kinds(s * a, mu)


def _kinds(rank: Tensor, mu: Tensor) -> tuple[Tensor, Tensor]:
    """Return which entries have η = 1 and 0 < η < 1 for rank = s·a, as numbers 1 and 0.

    Masks are numbers because `where` is slow on a CPU.
    """
    full = torch.ge(
        rank, (1 + mu) * (1 - 4 * torch.finfo(rank.dtype).eps), out=torch.empty_like(rank)
    )
    return full, torch.gt(rank, mu, out=torch.empty_like(rank)) - full


def _relative(z: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest magnitude of each row, (…, 1), and the magnitudes relative to it."""
    magnitudes = z.abs()
    if z.shape[-1] == 0:
        return magnitudes.sum(-1, keepdim=True), magnitudes
    peak = magnitudes.amax(-1, keepdim=True).detach()
    return peak, magnitudes / torch.where(peak > 0, peak, 1.0)


def _size(
    mu: Tensor, squares: Tensor, moment: Tensor, count: Tensor, left: Tensor
) -> tuple[Tensor, Tensor]:
    """Σ z_i²/η_i = A/(1 + μ)² + B²·l/(l + nμ)² and its slope in μ.

    A and B are the sum of squares with η = 1 and the sum with 0 < η < 1, which are n entries and
    share the budget l.
    """
    room = _positive(left + count * mu)  # 0 only where l is
    first, second = squares / (1 + mu).square(), moment.square() * left / room.square()
    return first + second, -2 * (first / (1 + mu) + second * count / room)


def _root_step(mu: Tensor, target: Tensor, value: Tensor, slope: Tensor) -> Tensor:
    """Newton's step for value(μ) = target², on 1/√value, which is linear in μ for one kind."""
    return (mu + 2 * value * (value.sqrt() / target - 1) / _positive(-slope)).clamp(min=0)


def _positive(value: Tensor) -> Tensor:
    """Replace what is not positive by 1 in a divisor whose quotient is not used or is 0."""
    return torch.where(value > 0, value, 1.0)
