"""The face of a set near one of its points, for Newton's method."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Face:
    """Where a set is smooth near the projection z of y: entries of z that may move, and how.

    On the face the set is {z : g(z) ≤ const} for a smooth g, and y − z = λ∇g(z) in the free
    entries. Without a bound on g, λ is 0.

    Attributes:
        free: Which entries may move, (rows, m); the others keep their values.
        normal: A multiple of ∇g in the free entries, (rows, m); 0 in rows without a bound.
        curvature: λ∇²g = diag(a) + L Rᵀ as a function of some rows (r,) and the indices (r, k) of
            their entries to a (r, k), L and R (r, k, j); None if g is linear.

    >>> import fwnet, torch
    >>> y = torch.tensor([[1.0, 0.5, -1.0]])
    >>> face = fwnet.Simplex().face(y, fwnet.Simplex().project(y))
    >>> face.free, face.normal
    (tensor([[ True,  True, False]]), tensor([[1., 1., 0.]]))
    """

    free: Tensor
    normal: Tensor
    curvature: Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]] | None = None
