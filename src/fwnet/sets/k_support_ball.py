"""The ball of the k-support norm: the convex hull of short, sparse vectors."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.checks import check_integer
from fwnet.functional import check_radius, check_rows, lp_norm
from fwnet.sets.convex_set import ConvexSet, widened
from fwnet.sets.face import Face

MAX_STEPS = 100  # of Newton's method; usually a few
QUICK_STEPS, ROOT_STEPS, EXACT_STEPS = 20, 4, 1
ROOT_TOL = 1e4  # roundings; one more Newton step follows
SMALLEST = 1e-30  # stands for 0 relative to the largest entry, so that quotients stay finite


@dataclass(frozen=True)
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
        full, part = self._shares(a.detach(), a.new_zeros(()).expand(peak.shape))
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
        wide = widened(y) if y.device.type == "mps" else y.double()
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
        threshold = mu * moment / (left + count * mu).clamp(min=SMALLEST)
        small = torch.where(full, a / (1 + mu), torch.where(part, a - threshold, 0.0))
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

        def curvature(index: Tensor) -> Tensor:
            own = signs.gather(-1, index)
            whole = mu * (~part).to(z).gather(-1, index)
            return whole.diag_embed() + shared.unsqueeze(-1) * own.unsqueeze(-1) * own.unsqueeze(-2)

        outside = (theta > 0) & theta.isfinite()
        normal = torch.where(part, signs * (moment / left.clamp(min=1)), z)
        return Face(free, normal * outside, curvature)

    def _top(self, u: Tensor) -> Tensor:
        return u.abs().topk(min(self.k, u.shape[-1]), -1).indices

    def _multiplier(self, a: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return μ, and which entries have η = 1 and 0 < η < 1.

        For given kinds of entries the equation for μ is one of numbers, and its root decides the
        kinds anew. Rows that do not settle that way are solved by Newton's method in a bracket.
        """
        mu = torch.zeros_like(target)
        full, part = self._shares(a, mu)
        last = a.topk(min(self.k, a.shape[-1]), -1).values[..., -1:].clamp(min=SMALLEST)
        inside = _size(mu, *self._sums(a, full, part))[0] <= target.square()
        for trial in range(QUICK_STEPS):
            sums = self._sums(a, full, part)
            for _ in range(ROOT_STEPS):
                mu = torch.where(inside, 0.0, _root_step(mu, target, *_size(mu, *sums)))
            if trial < EXACT_STEPS:  # far from the ball, the kinds at μ = 0 are no guide
                full, part = self._shares(a, mu)
                continue
            _, moment, count, left = sums
            shared = (moment > 0) & (left >= 0)
            s = torch.where(shared, (left + count * mu) / _positive(moment), (1 + mu) / last)
            rank = s * a
            new_full = rank >= (1 + mu) * (1 - 4 * torch.finfo(a.dtype).eps)
            new_part = (rank > mu) & ~new_full
            value, _ = _size(mu, *sums)
            at_root = (value / target.square() - 1).abs() <= ROOT_TOL * torch.finfo(a.dtype).eps
            same = ((new_full == full) & (new_part == part)).all(-1, keepdim=True)
            spent = shared | (left == 0) | (last == SMALLEST)
            settled = inside | same & at_root & spent
            full, part = (
                torch.where(settled, *pair) for pair in ((full, new_full), (part, new_part))
            )
            if settled.all():
                return mu, full, part
        left_over = (~settled).squeeze(-1)
        mu[left_over], full[left_over], part[left_over] = self._bracketed(
            a[left_over], target[left_over]
        )
        return mu, full, part

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
        squares = (a * a * full).sum(-1, keepdim=True)
        moment = (a * part).sum(-1, keepdim=True)
        count, top = (mask.sum(-1, keepdim=True).to(a) for mask in (part, full))
        return squares, moment, count, min(self.k, a.shape[-1]) - top

    def _shares(self, a: Tensor, mu: Tensor) -> tuple[Tensor, Tensor]:
        """Return which η_i = min(max(s·a_i − μ, 0), 1) with Σ η_i = k are 1, and which are inside.

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
        full = s * a >= (1 + mu) * (1 - 4 * torch.finfo(a.dtype).eps)
        return full, (s * a > mu) & ~full


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
    room = (left + count * mu).clamp(min=SMALLEST)
    first, second = squares / (1 + mu).square(), moment.square() * left / room.square()
    return first + second, -2 * (first / (1 + mu) + second * count / room)


def _root_step(mu: Tensor, target: Tensor, value: Tensor, slope: Tensor) -> Tensor:
    """Newton's step for value(μ) = target², on 1/√value, which is linear in μ for one kind."""
    return (mu + 2 * value * (value.sqrt() / target - 1) / _positive(-slope)).clamp(min=0)


def _positive(value: Tensor) -> Tensor:
    """Replace what is not positive by 1 in a divisor whose quotient is not used or is 0."""
    return torch.where(value > 0, value, 1.0)
