"""The simplex: shares of a total, with an optional limit for each."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor

from fwnet.checks import check_number
from fwnet.functional import check_radius, check_rows
from fwnet.sets.convex_set import ConvexSet, contains_by_distance, widened
from fwnet.sets.face import Face
from fwnet.sets.projection import support_l1

MAX_STEPS = 100  # of Newton's method; usually a few
MOST_FULL = 0.999  # of the entries, for the first guess
QUICK_STEPS = 12  # of these; for the others the bracket is made short


@dataclass(frozen=True, eq=False)
class Simplex(ConvexSet):
    """{z ≥ 0 : Σ z_i = total, z_i ≤ cap}; without a cap, the set of shares of a total.

    The projection is differentiable; the oracle is piecewise constant.

    >>> import fwnet, torch
    >>> fwnet.Simplex().project(torch.tensor([1.0, 0.5, -1.0]))
    tensor([0.7500, 0.2500, 0.0000])
    >>> fwnet.Simplex(cap=0.5).lmo(torch.tensor([3.0, 1.0, 2.0]))
    tensor([0.0000, 0.5000, 0.5000])
    """

    total: float = 1.0
    cap: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("total", self.total), ("cap", self.cap)):
            if value is None:
                continue
            check_number(name, value)
            if not 0 < value < math.inf:
                raise ValueError(f"{name} must be > 0 and finite, got {value!r}")
        check_radius(self.total)

    def lmo(self, u: Tensor) -> Tensor:
        """Give cap to the entries with the smallest u until the total is spent."""
        cap = self._cap(u, "u")
        if cap == self.total:
            s = torch.zeros_like(u).scatter(-1, u.argmin(-1, keepdim=True), self.total)
        else:
            shares = self._shares(cap, u).to(u.dtype)
            first = u.topk(len(shares), -1, largest=False).indices
            s = torch.zeros_like(u).scatter(-1, first, shares.expand(first.shape))
        return torch.where(u.isnan().any(-1, keepdim=True), torch.nan, s)

    def project(self, y: Tensor) -> Tensor:
        """z_i = min(max(y_i − τ, 0), cap) with the τ that makes the sum equal to total."""
        cap = self._cap(y, "y")
        wide = widened(y)
        z = self._nearest(wide, cap)
        rounding = torch.finfo(z.dtype).eps ** 0.5 * self.total
        lost = ~((z.detach().sum(-1, keepdim=True) - self.total).abs() <= rounding)
        if lost.any():
            # Far above the last entry that gets a share all are full, and far below all are empty.
            last = wide.topk(len(self._shares(cap, y)), -1).values[..., -1:]
            near = (wide - last).clamp(-cap, cap)
            z = torch.where(lost, self._nearest(near, cap), z)
        return z.to(y.dtype)

    def _nearest(self, wide: Tensor, cap: float) -> Tensor:
        """Return the projection of entries whose differences are not much larger than total."""
        below = wide.amax(-1, keepdim=True) - wide  # keeps the digits of a small total
        with torch.no_grad():
            if cap < self.total:
                depth = fill_depth(below.detach(), cap, self.total)
                full = torch.ge(depth - below, cap, out=torch.empty_like(below))
                free = torch.lt(below, depth, out=torch.empty_like(below)).sub_(full)
                count = free.sum(-1, keepdim=True)
                spent = cap * full.sum(-1, keepdim=True)
            else:
                full, spent = None, torch.zeros_like(below[..., :1])
                free, count = support_l1(below.detach(), wide.new_tensor(self.total))
        depth = (self.total - spent + (below * free).sum(-1, keepdim=True)) / count.clamp(min=1)
        z = (depth - below).clamp(0, cap)
        if full is not None:
            z = z * free + cap * full
        return z

    def support(self, y: Tensor) -> Tensor:
        """Give cap to the largest entries of y until the total is spent; at least float32."""
        cap = self._cap(y, "y")
        shares = self._shares(cap, y)
        return (widened(y).topk(len(shares), -1).values * shares).sum(-1)

    def gauge(self, z: Tensor) -> Tensor:
        """Σ z_i / total, or ∞ with a negative entry or one above its limit; at least float32."""
        cap = self._cap(z, "z")
        wide = widened(z)
        gauge = wide.sum(-1) / self.total
        slack = 1 + 64 * torch.finfo(wide.dtype).eps
        above = (wide > slack * cap * gauge.unsqueeze(-1)).any(-1)
        return torch.where((wide < 0).any(-1) | above, torch.inf, gauge)

    def face(self, y: Tensor, z: Tensor) -> Face:
        """Entries strictly between 0 and cap are free, with a sum that stays."""
        cap = self._cap(z, "z")
        rounding = 8 * torch.finfo(z.dtype).eps * cap
        free = (z > rounding) & ((z < cap - rounding) | (cap == self.total))
        return Face(free, free.to(z))

    contains = contains_by_distance

    def _shares(self, cap: float, u: Tensor) -> Tensor:
        """Return what the first entries get if each takes as much as it can, (count,)."""
        count = min(math.ceil(self.total / cap), u.shape[-1])
        rank = torch.arange(count, device=u.device, dtype=widened(u).dtype)
        return (self.total - cap * rank).clamp(0, cap)

    def _cap(self, z: Tensor, name: str) -> float:
        check_rows(name, z)
        cap = self.total if self.cap is None else min(self.cap, self.total)
        if cap * z.shape[-1] < self.total * (1 - 1e-12):
            raise ValueError(
                f"cap must be at least total / m = {self.total} / {z.shape[-1]}, got {self.cap!r}"
            )
        return cap


def fill_depth(below: Tensor, cap: float, total: float) -> Tensor:
    """Return the depth d with Σ min(max(d − below_i, 0), cap) = total, (…, 1), up to rounding.

    The sum is piecewise linear in d. Newton's method finds its root, in a bracket that shrinks.
    """
    low = torch.zeros_like(below[..., :1])
    high = below.amax(-1, keepdim=True) + cap
    m, some, rest = below.shape[-1], torch.empty_like(below), torch.empty_like(below)
    # The first guess is the place where as many entries of a normal distribution would be full.
    mean = below.mean(-1, keepdim=True)
    spread = (torch.square(below, out=some).mean(-1, keepdim=True) - mean.square()).sqrt()
    guess = mean + NormalDist().inv_cdf(min(total / (cap * m), MOST_FULL)) * spread + cap / 2
    depth = torch.minimum(torch.where(guess > total / m, guess, cap), high)
    rounding = 32 * torch.finfo(below.dtype).eps
    for step in range(MAX_STEPS):
        if step == QUICK_STEPS:  # entries are far apart: the depth is near that of the last full
            last = below.sort(-1).values
            first, count = math.floor(total / cap), min(math.ceil(total / cap), m)
            low = torch.maximum(low, last[..., first : first + 1]) if first < m else low
            high = torch.minimum(high, last[..., count - 1 : count] + cap)
            depth = torch.minimum(torch.maximum(depth, low), high)
        filled = (depth - below).clamp_(0, cap)
        excess = filled.sum(-1, keepdim=True) - total
        settled = excess.abs() <= rounding * depth.clamp(min=total)
        if settled.all():
            break
        slope = torch.gt(filled, 0, out=some).mul_(torch.lt(filled, cap, out=rest))
        slope = slope.sum(-1, keepdim=True)
        low, high = torch.where(excess < 0, depth, low), torch.where(excess > 0, depth, high)
        ahead = depth - excess / slope
        ahead = torch.where((ahead > low) & (ahead < high), ahead, (low + high) / 2)
        depth = torch.where(settled, depth, ahead)
    return depth
