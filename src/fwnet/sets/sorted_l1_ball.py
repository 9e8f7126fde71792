"""The ball of the sorted L1 norm: OSCAR and SLOPE."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from fwnet.checks import check_number
from fwnet.functional import check_radius, check_rows
from fwnet.sets.convex_set import ConvexSet, as_tensor, widened


@dataclass(frozen=True, eq=False)
class SortedL1Ball(ConvexSet):
    """{z : Σ_i weight_i·|z|_(i) ≤ radius}, where |z|_(1) ≥ |z|_(2) ≥ … are the sorted magnitudes.

    Equal weights give the L1 ball, weights 1, 0, 0, … the L∞ ball. In between, correlated entries
    get the same magnitude. Gauge and projection are differentiable.

    Args:
        weights: One per entry, not increasing, ≥ 0, the first > 0.
        radius: The radius (default 1).

    >>> import fwnet, torch
    >>> fwnet.SortedL1Ball([2.0, 1.0]).gauge(torch.tensor([3.0, -5.0]))
    tensor(13.)
    """

    weights: Sequence[float] | Tensor
    radius: float = 1.0

    def __post_init__(self) -> None:
        w = as_tensor(self.weights)
        falls = w.ndim == 1 and len(w) and w[0] > 0 and w[-1] >= 0 and (w.diff() <= 0).all()
        if not falls or not w.isfinite().all():
            raise ValueError(
                "weights must be finite numbers w_1 >= w_2 >= ... >= 0 with w_1 > 0, "
                f"got {self.weights!r}"
            )
        check_number("radius", self.radius)
        check_radius(self.radius)

    def lmo(self, u: Tensor) -> Tensor:
        """−radius·sign(u_i)/Λ_k for the k largest entries, Λ_k = Σ_{i≤k} weight_i, the best k."""
        weights = self._weights(u, "u")
        a, order = widened(u).abs().sort(-1, descending=True)
        totals = weights.cumsum(-1)
        best = (a.cumsum(-1) / totals).argmax(-1, keepdim=True)
        used = torch.arange(u.shape[-1], device=u.device) <= best
        level = self.radius / totals.expand(a.shape).gather(-1, best)
        sorted_s = torch.where(used, level, 0.0)
        s = torch.empty_like(a).scatter(-1, order, sorted_s)
        return torch.where(u.isnan().any(-1, keepdim=True), torch.nan, -u.sign() * s).to(u.dtype)

    def gauge(self, z: Tensor) -> Tensor:
        """Σ_i weight_i·|z|_(i) / radius; at least float32."""
        weights = self._weights(z, "z")
        a = widened(z).abs().sort(-1, descending=True).values
        return (weights * a).sum(-1) / self.radius

    def project(self, y: Tensor) -> Tensor:
        """The decreasing nonnegative sequence nearest to |y|_(i) − τ·weight_i, with the signs of y.

        It is constant on blocks, and there the mean of the block (pool adjacent violators). For
        given blocks the norm is linear in τ, so Newton's method finds τ.
        """
        weights = self._weights(y, "y")
        wide = widened(y)
        a, order = wide.abs().sort(-1, descending=True)
        rows = a.reshape(-1, a.shape[-1])
        with torch.no_grad():
            blocks, positive = self._blocks(rows.detach(), weights)
        width = blocks.shape[-1]  # entries behind are 0 in every row
        rows, used = rows[:, :width], weights[:width].expand_as(blocks)
        share = torch.where(positive, _block_means(used, blocks), 0.0)
        excess = (rows * share).sum(-1, keepdim=True) - self.radius
        tau = excess / _positive((used * share).sum(-1, keepdim=True))
        z = torch.where(positive, _block_means(rows - tau * used, blocks), 0.0)
        z = pad(z.clamp(min=0), (0, a.shape[-1] - width)).reshape(a.shape)
        # Far from the ball, differences of large entries are rounded: end inside it all the same.
        z = z / self._norm(z.detach(), weights.detach()).clamp(min=1)
        z = torch.empty_like(a).scatter(-1, order, z)
        outside = self._norm(a, weights) > 1
        return torch.where(outside, wide.sign() * z, wide).to(y.dtype)

    def _norm(self, a: Tensor, weights: Tensor) -> Tensor:
        """Return the gauge of sorted magnitudes, (…, 1)."""
        return (weights * a).sum(-1, keepdim=True) / self.radius

    def _weights(self, z: Tensor, name: str) -> Tensor:
        check_rows(name, z)
        weights = as_tensor(self.weights).to(widened(z))
        if z.shape[-1] != len(weights):
            raise ValueError(
                f"{name} must have rows of length {len(weights)}, the number of weights, "
                f"got shape {tuple(z.shape)}"
            )
        return weights

    def _blocks(self, a: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the block of every entry at the solution, and whether it is positive there.

        As τ grows, blocks only join and their means only fall. While some have yet to be joined,
        the sum of weight·mean up to the last positive block is at most the norm. So Newton's method
        for it never goes beyond the root, and nothing has to be undone. Entries behind the last
        positive one of all rows are left out.
        """
        size, weight, tau = torch.ones_like(a), weights.expand_as(a), torch.zeros_like(a[:, :1])
        tau, means, used = self._raised(tau, a, weight, size, a > 0)
        width = int(used.any(0).sum())
        blocks = torch.arange(width, device=a.device).expand(len(a), -1)
        a, weight, size, means, used = (t[:, :width] for t in (a, weight, size, means, used))
        while True:
            joined = used[:, 1:] & (means[:, 1:] > means[:, :-1])
            if not joined.any():
                return blocks, used.gather(-1, blocks)
            number = pad((~joined).cumsum(-1), (1, 0))
            blocks = number.gather(-1, blocks)
            a, weight, size, kept = (
                torch.zeros_like(a).scatter_add(-1, number, t)
                for t in (a, weight, size, used.to(a))
            )
            tau, means, used = self._raised(tau, a, weight, size, kept > 0)

    def _raised(
        self, tau: Tensor, a: Tensor, weight: Tensor, size: Tensor, used: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return τ for these blocks, the means of a − τ·weight, and the blocks in use.

        Arguments are sums over blocks, and `size` their numbers of entries, 0 behind the last.
        """
        place = torch.arange(1, a.shape[-1] + 1, device=a.device)
        while True:
            share = torch.where(used, weight / size, 0.0)
            excess = (share * a).sum(-1, keepdim=True) - self.radius
            tau = torch.maximum(tau, excess / _positive((share * weight).sum(-1, keepdim=True)))
            means = (a - tau * weight) / size
            last = (place * (used & (means > 0))).amax(-1, keepdim=True)
            before, used = used, place <= last
            if torch.equal(used, before):
                return tau, means, used


def _positive(value: Tensor) -> Tensor:
    """Replace 0 by 1 in a divisor whose quotient is not used or is 0."""
    return torch.where(value > 0, value, 1.0)


def _block_means(v: Tensor, blocks: Tensor) -> Tensor:
    """Replace every entry by the mean of its block."""
    sums = torch.zeros_like(v).scatter_add(-1, blocks, v)
    counts = torch.zeros_like(v).scatter_add(-1, blocks, torch.ones_like(v))
    return (sums / counts.clamp(min=1)).gather(-1, blocks)
