"""The ball of the sorted L1 norm: OSCAR and SLOPE."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.functional import check_radius, check_rows
from fwnet.sets.convex_set import ConvexSet, as_tensor, widened

MAX_STEPS = 100  # of Newton's method; usually a few


@dataclass(frozen=True)
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
        tau = self._level(rows, weights, blocks, positive)
        z = torch.where(positive, _block_means(rows - tau * weights, blocks), 0.0).clamp(min=0)
        z = torch.empty_like(a).scatter(-1, order, z.reshape(a.shape))
        outside = (self.gauge(wide) > 1).unsqueeze(-1)
        # Far from the ball, differences of large entries are rounded: end inside it all the same.
        rounding = self.gauge(z.detach()).clamp(min=1).unsqueeze(-1)
        return torch.where(outside, wide.sign() * z / rounding, wide).to(y.dtype)

    def _weights(self, z: Tensor, name: str) -> Tensor:
        check_rows(name, z)
        weights = as_tensor(self.weights).to(widened(z))
        if z.shape[-1] != len(weights):
            raise ValueError(
                f"{name} must have rows of length {len(weights)}, the number of weights, "
                f"got shape {tuple(z.shape)}"
            )
        return weights

    def _level(self, a: Tensor, weights: Tensor, blocks: Tensor, positive: Tensor) -> Tensor:
        """Return the τ at which the norm is the radius, if the blocks stay as they are."""
        means = torch.where(positive, _block_means(weights.expand(a.shape), blocks), 0.0)
        spread = (weights * means).sum(-1, keepdim=True)
        excess = (a * means).sum(-1, keepdim=True) - self.radius
        return excess / torch.where(spread > 0, spread, 1.0)

    def _blocks(self, a: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the block of every entry at the solution, and whether it is positive there."""
        tau = torch.zeros_like(a[:, :1])
        low, high = tau, torch.full_like(tau, torch.inf)
        for _ in range(MAX_STEPS):
            blocks = _pooled(a - tau * weights)
            means = _block_means(a - tau * weights, blocks)
            positive = means > 0
            norm = (weights * means.clamp(min=0)).sum(-1, keepdim=True)
            low = torch.where(norm > self.radius, tau, low)
            high = torch.where(norm < self.radius, tau, high)
            ahead = self._level(a, weights, blocks, positive)
            middle = torch.where(high.isfinite(), (low + high) / 2, 2 * tau + self.radius)
            inside = (ahead >= low) & (ahead <= high) & positive.any(-1, keepdim=True)
            ahead = torch.where(inside, ahead, middle)
            settled = (ahead - tau).abs() <= 4 * torch.finfo(a.dtype).eps * tau.abs()
            if (settled | (norm <= self.radius) & (tau == 0)).all():
                break
            tau = torch.where((norm <= self.radius) & (tau == 0), tau, ahead)
        return blocks, positive


def _pooled(v: Tensor) -> Tensor:
    """Return the blocks of the decreasing sequence nearest to each row of v, as numbers 0, 1, …

    Neighbors whose means increase are joined, everywhere at once, until none do.
    """
    first = torch.ones_like(v, dtype=torch.bool)
    while True:
        blocks = first.cumsum(-1) - 1
        means = _block_means(v, blocks)
        joined = first[:, 1:] & (means[:, 1:] > means[:, :-1])
        if not joined.any():
            return blocks
        first[:, 1:] &= ~joined


def _block_means(v: Tensor, blocks: Tensor) -> Tensor:
    """Replace every entry by the mean of its block."""
    sums = torch.zeros_like(v).scatter_add(-1, blocks, v)
    counts = torch.zeros_like(v).scatter_add(-1, blocks, torch.ones_like(v))
    return (sums / counts.clamp(min=1)).gather(-1, blocks)
