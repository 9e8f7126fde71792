"""The box: bounds for every entry."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.functional import check_rows
from fwnet.sets.convex_set import ConvexSet, as_tensor, contains_by_distance, widened
from fwnet.sets.face import Face


@dataclass(frozen=True, eq=False)
class Box(ConvexSet):
    """{z : low ≤ z ≤ high}, with numbers or tensors (m,) as bounds.

    Differentiable in z and in tensors low and high.

    >>> import fwnet, torch
    >>> fwnet.Box(-1.0, 2.0).lmo(torch.tensor([3.0, -1.0, 0.0]))
    tensor([-1.,  2.,  0.])
    """

    low: float | Sequence[float] | Tensor = 0.0
    high: float | Sequence[float] | Tensor = 1.0

    def __post_init__(self) -> None:
        low, high = as_tensor(self.low), as_tensor(self.high)
        if max(low.ndim, high.ndim) > 1:
            raise ValueError(
                "low and high must be numbers or have one axis, "
                f"got shapes {tuple(low.shape)} and {tuple(high.shape)}"
            )
        if not (low.isfinite().all() and high.isfinite().all() and (low <= high).all()):
            raise ValueError(f"low and high must be finite, low <= high, got {low} and {high}")

    def lmo(self, u: Tensor) -> Tensor:
        """s_i = low_i where u_i > 0, high_i where u_i < 0; where u_i = 0, the bound nearest 0."""
        low, high = self._bounds(u, "u")
        neutral = torch.zeros_like(u).clamp(low, high)
        return torch.where(u > 0, low, torch.where(u < 0, high, neutral + 0 * u))

    def project(self, y: Tensor) -> Tensor:
        """min(max(y, low), high)."""
        low, high = self._bounds(y, "y")
        return y.clamp(low, high)

    def gauge(self, z: Tensor) -> Tensor:
        """Return the least λ ≥ 0 with λ·low ≤ z ≤ λ·high, or ∞; at least float32."""
        wide = widened(z)
        low, high = self._bounds(wide, "z")
        # Each bound b asks for λ ≥ z/b or λ ≤ z/b by its sign, or for the sign of z if b = 0.
        least, most = torch.zeros_like(wide), torch.full_like(wide, torch.inf)
        for bound, value in ((high, wide), (-low, -wide)):
            ratio = value / torch.where(bound == 0, 1.0, bound)
            least = torch.where(bound > 0, torch.maximum(least, ratio), least)
            most = torch.where(bound < 0, torch.minimum(most, ratio), most)
            most = torch.where((bound == 0) & (value > 0), -torch.inf, most)
        if not wide.shape[-1]:
            return wide.sum(-1)
        gauge = least.amax(-1)
        # A point on a ray through a box without 0 meets both conditions up to rounding.
        slack = 1 + 64 * torch.finfo(wide.dtype).eps
        return torch.where(gauge <= slack * most.amin(-1), gauge, torch.inf)

    def support(self, y: Tensor) -> Tensor:
        """Σ max(low_i·y_i, high_i·y_i); at least float32."""
        wide = widened(y)
        low, high = self._bounds(wide, "y")
        return torch.maximum(low * wide, high * wide).sum(-1)

    def face(self, y: Tensor, z: Tensor) -> Face:
        """Entries strictly between their bounds are free."""
        low, high = self._bounds(z, "z")
        return Face((z > low) & (z < high), torch.zeros_like(z))

    contains = contains_by_distance

    def _bounds(self, z: Tensor, name: str) -> tuple[Tensor, Tensor]:
        check_rows(name, z)
        bounds = tuple(as_tensor(bound).to(z) for bound in (self.low, self.high))
        for bound in bounds:
            if bound.ndim and len(bound) != z.shape[-1]:
                raise ValueError(
                    f"{name} must have rows of length {len(bound)}, that of the bounds, "
                    f"got shape {tuple(z.shape)}"
                )
        return bounds[0], bounds[1]
