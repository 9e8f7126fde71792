"""What a convex set can do: the protocol that solvers and networks are written against."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

__all__ = ["ConvexSet"]


@runtime_checkable
class ConvexSet(Protocol):
    """A compact convex set C ⊂ ℝᵐ with 0 inside; every method works on the rows of (…, m).

    A set supplies `lmo`, `project` and `gauge`; membership follows from the gauge.
    """

    def lmo(self, u: Tensor) -> Tensor:
        """argmin_{s ∈ C} ⟨s, u⟩, the linear minimization oracle."""
        ...

    def project(self, y: Tensor) -> Tensor:
        """argmin_{z ∈ C} ½‖z − y‖², the Euclidean projection."""
        ...

    def gauge(self, z: Tensor) -> Tensor:
        """min{λ ≥ 0 : z ∈ λC}: at most 1 inside the set, exactly 1 on its border."""
        ...

    def contains(self, z: Tensor, tol: float | None = None) -> Tensor:
        """Tell for each row whether gauge(z) ≤ 1 + tol; the default tol is 64 roundings."""
        if tol is None:
            tol = 64 * torch.finfo(z.dtype).eps
        return self.gauge(z) <= 1 + tol
