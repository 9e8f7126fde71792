"""The protocol of a convex set, which solvers use."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from fwnet.checks import check_tensor
from fwnet.functional import lp_norm
from fwnet.sets.face import Face


@runtime_checkable
class ConvexSet(Protocol):
    """A compact convex set C ⊂ ℝᵐ. Every method works on the rows of (…, m).

    A set implements `lmo`, `project` and `gauge`; `support` and `contains` follow from them. A set
    that does not contain 0, or has 0 on its border, has `contains = contains_by_distance`.

    A set of your own: the solver needs nothing but these three methods.

    >>> import fwnet, torch
    >>> class Box(fwnet.ConvexSet):
    ...     def lmo(self, u):
    ...         return torch.where(u > 0, -1.0, 2.0).to(u)
    ...     def project(self, y):
    ...         return y.clamp(-1, 2)
    ...     def gauge(self, z):
    ...         return torch.maximum(-z, z / 2).amax(-1)
    >>> x = torch.tensor([[0.5, 3.0]], dtype=torch.float64)
    >>> solution = fwnet.solve(x, None, Box(), tol=1e-2)
    >>> solution.code.round(decimals=1), bool(solution.gap < 0.1)
    (tensor([[0.5000, 2.0000]], dtype=torch.float64), True)
    """

    def __eq__(self, other: object) -> bool:
        """Return whether both are of one type and have the same arguments, tensors or not."""
        this: Any = self
        if this is other or type(this) is not type(other) or not is_dataclass(this):
            return this is other
        names = [one.name for one in fields(this)]
        return all(plain(getattr(this, name)) == plain(getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        """Return the same for all sets of a type: tensors have no hash by value."""
        return hash(type(self)) if is_dataclass(self) else id(self)

    def lmo(self, u: Tensor) -> Tensor:
        """argmin_{s ∈ C} ⟨s, u⟩, the linear minimization oracle."""

    def project(self, y: Tensor) -> Tensor:
        """argmin_{z ∈ C} ½‖z − y‖², the Euclidean projection."""

    def gauge(self, z: Tensor) -> Tensor:
        """min{λ ≥ 0 : z ∈ λC}: exactly 1 on the far border; ∞ where no λ serves.

        The result is at least float32.
        """

    def support(self, y: Tensor) -> Tensor:
        """max_{s ∈ C} ⟨s, y⟩, the support function; at least float32."""
        wide = widened(y)
        support: Tensor = torch.linalg.vecdot(self.lmo(-wide), wide)
        return support

    def face(self, y: Tensor, z: Tensor) -> Face | None:
        """Return the face on which z, the projection of y, lies; None if the set does not say.

        It makes `solve` faster. It may be wrong by rounding: steps that do not help are taken back.
        """
        return None

    def contains(self, z: Tensor, tol: float | None = None) -> Tensor:
        """Return for each row whether gauge(z) ≤ 1 + tol.

        The default tol is 64 roundings of the gauge's dtype or two of the dtype of z, whichever is
        larger.
        """
        gauge = self.gauge(z)
        return gauge <= 1 + _roundings(gauge, z, tol)


def contains_by_distance(self: ConvexSet, z: Tensor, tol: float | None = None) -> Tensor:
    """Return for each row whether ‖z − project(z)‖ ≤ tol·‖project(z)‖.

    The default tol is that of `ConvexSet.contains`.
    """
    wide = widened(z)
    nearest = self.project(wide)
    distance, size = (lp_norm(t, 2) for t in (wide - nearest, nearest))
    return distance <= _roundings(wide, z, tol) * size


def widened(y: Tensor) -> Tensor:
    """Return y in at least float32."""
    check_tensor("y", y)
    return y.to(torch.promote_types(y.dtype, torch.float32))


def plain(value: Any) -> Any:
    """Return a tensor, an array or a sequence as a list, also inside of others."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return [plain(part) for part in value] if isinstance(value, list | tuple | range) else value


def as_tensor(values: float | Sequence[float] | Tensor) -> Tensor:
    """Return numbers as a tensor that keeps their digits."""
    if not isinstance(values, Tensor):
        try:
            return torch.tensor(values, dtype=torch.float64)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise TypeError(f"expected numbers, got {values!r}") from error
    if values.is_complex():
        raise TypeError(f"expected real numbers, got {values.dtype}")
    return values


def _roundings(wide: Tensor, z: Tensor, tol: float | None) -> float:
    if tol is not None:
        return tol
    return max(64 * torch.finfo(wide.dtype).eps, 2 * torch.finfo(z.dtype).eps)
