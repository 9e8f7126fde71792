"""The ball of the k-support norm: the convex hull of short, sparse vectors."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.checks import check_integer
from fwnet.functional import check_radius, check_rows, lp_norm
from fwnet.sets.convex_set import ConvexSet, widened

MAX_STEPS = 100  # of Newton's method; usually a few
SMALLEST = 1e-30  # stands for 0 relative to the largest entry, so that quotients stay finite


@dataclass(frozen=True)
class KSupportBall(ConvexSet):
    """The convex hull of {z : ‖z‖_0 ≤ k, ‖z‖_2 ≤ radius}; k = 1 is the L1, k ≥ m the L2 ball.

    With shares η of a budget k, ‖z‖ = min{(Σ z_i²/η_i)^½ : 0 ≤ η ≤ 1, Σ η_i ≤ k}. Gauge and
    projection are differentiable.
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
        wide = widened(y).double() if y.device.type != "mps" else widened(y)
        peak, a = _relative(wide)
        unit = torch.where(peak > 0, peak, 1.0)
        target = self.radius / unit
        with torch.no_grad():
            mu, full, part = self._multiplier(a.detach(), target.detach())
        budget = min(self.k, y.shape[-1])
        count, left = part.sum(-1, keepdim=True), budget - full.sum(-1, keepdim=True)
        squares = (a * a * full).sum(-1, keepdim=True)
        moment = (a * part).sum(-1, keepdim=True)
        # One more Newton step, which carries the gradient of the root.
        value, slope = _size(mu, squares, moment, count, left)
        mu = (mu - (value - target.square()) / slope.detach()).clamp(min=0)
        threshold = mu * moment / (left + count * mu).clamp(min=SMALLEST)
        small = torch.where(full, a / (1 + mu), torch.where(part, a - threshold, 0.0))
        outside = self.gauge(wide).unsqueeze(-1) > 1
        return torch.where(outside, wide.sign() * unit * small, wide).to(y.dtype)

    def _top(self, u: Tensor) -> Tensor:
        return u.abs().topk(min(self.k, u.shape[-1]), -1).indices

    def _multiplier(self, a: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return μ, and which entries have η = 1 and 0 < η < 1."""
        mu = torch.zeros_like(target)
        low, high = mu, torch.full_like(mu, torch.inf)
        for _ in range(MAX_STEPS):
            full, part = self._shares(a, mu)
            squares = (a * a * full).sum(-1, keepdim=True)
            moment = (a * part).sum(-1, keepdim=True)
            left = min(self.k, a.shape[-1]) - full.sum(-1, keepdim=True)
            value, slope = _size(mu, squares, moment, part.sum(-1, keepdim=True), left)
            low = torch.where(value > target.square(), mu, low)
            high = torch.where(value < target.square(), mu, high)
            # Newton on 1/norm, which is linear in μ if all entries belong to one kind.
            step = 2 * value * (value.sqrt() / target - 1) / -slope.clamp(max=-SMALLEST)
            ahead = (mu + step).clamp(min=0)
            middle = torch.where(high.isfinite(), (low + high) / 2, 2 * mu + 1)
            ahead = torch.where((ahead > low) & (ahead < high), ahead, middle)
            moving = (value / target.square() - 1).abs() > 8 * torch.finfo(a.dtype).eps
            moving &= (value > target.square()) | (mu > 0)
            if not (moving & (ahead != mu)).any():
                break
            mu = torch.where(moving, ahead, mu)
        return mu, full, part

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
