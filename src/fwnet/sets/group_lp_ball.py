"""The ball of a norm of norms: group sparsity."""

import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import pad

from fwnet.checks import check_number
from fwnet.functional import (
    check_exponent,
    check_radius,
    check_rows,
    dual_exponent,
    lp_norm,
    pool_p,
)
from fwnet.sets.convex_set import ConvexSet, widened
from fwnet.sets.projection import project_lp


@dataclass(frozen=True, eq=False)
class GroupLpBall(ConvexSet):
    """{z : ‖(‖z_g‖_inner)_g‖_p ≤ radius}, with the groups g of entries.

    p = 1 and inner = 2 give the group lasso's ball. The oracle is two nested pool_p. The projection
    is known for inner = 2, for p = ∞ and for p = inner.

    Args:
        groups: The indices of the entries of every group; each entry is in exactly one.
        p: Exponent of the outer norm, in [1, ∞] (default 1).
        inner: Exponent of the norm of a group, in [1, ∞] (default 2).
        radius: The radius (default 1).

    >>> import fwnet, torch
    >>> ball = fwnet.GroupLpBall([[0, 1], [2, 3]], radius=1.0)
    >>> ball.lmo(torch.tensor([-3.0, -4.0, 1.0, 1.0])).abs()
    tensor([0.6000, 0.8000, 0.0000, 0.0000])
    """

    groups: Sequence[Sequence[int]]
    p: float = 1.0
    inner: float = 2.0
    radius: float = 1.0

    def __post_init__(self) -> None:
        check_exponent(self.p)
        check_exponent(self.inner)
        check_number("radius", self.radius)
        check_radius(self.radius)
        try:
            entries = [operator.index(entry) for group in self.groups for entry in group]
        except TypeError as error:
            raise TypeError(f"groups must be lists of indices, got {self.groups!r}") from error
        doubled = sorted(entry for entry, count in Counter(entries).items() if count > 1)
        if doubled:
            raise ValueError(f"groups must not overlap, got entry {doubled[0]} in several")
        if not entries or sorted(entries) != list(range(len(entries))):
            raise ValueError(
                f"groups must hold every index from 0 to m - 1 once, got {self.groups!r}"
            )

    def lmo(self, u: Tensor) -> Tensor:
        """s_g = −w_g·pool_inner(u_g), with w = pool_p of the dual norms −⟨u_g, pool_inner(u_g)⟩."""
        parts = self._split(widened(u), "u")
        inner = pool_p(parts, self.inner)
        dual_norms = -torch.linalg.vecdot(inner, parts)
        outer = pool_p(dual_norms, self.p, self.radius)
        return self._join(-outer.unsqueeze(-1) * inner).to(u.dtype)

    def support(self, y: Tensor) -> Tensor:
        """radius·‖(‖y_g‖_q')_g‖_q with the conjugate exponents of inner and p; at least float32."""
        norms = _norms(self._split(widened(y), "y"), dual_exponent(self.inner))
        return self.radius * lp_norm(norms, dual_exponent(self.p))

    def project(self, y: Tensor) -> Tensor:
        """Scale the groups (inner = 2), or project each alone (p = ∞) or all as one (p = inner)."""
        if self.p == self.inner:
            self._split(y, "y")  # checks the length
            return project_lp(y, self.p, self.radius)
        parts = self._split(widened(y), "y")
        if self.p == torch.inf:
            return self._join(project_lp(parts, self.inner, self.radius)).to(y.dtype)
        if self.inner != 2:
            raise NotImplementedError(
                "the projection on a GroupLpBall needs inner = 2, p = inf or p = inner, "
                f'got p = {self.p} and inner = {self.inner}; solve with method="frank-wolfe"'
            )
        norms = _norms(parts, 2)
        allowed = project_lp(norms, self.p, self.radius)
        share = allowed / torch.where(norms > 0, norms, 1.0)
        return self._join(share.unsqueeze(-1) * parts).to(y.dtype)

    def gauge(self, z: Tensor) -> Tensor:
        """‖(‖z_g‖_inner)_g‖_p / radius; at least float32."""
        norms = _norms(self._split(widened(z), "z"), self.inner)
        return lp_norm(norms, self.p, self.radius)

    @cached_property
    def _places(self) -> tuple[Tensor, Tensor]:
        """The entries of every group, filled up with the index m of a zero; and their inverse."""
        width, m = max(map(len, self.groups)), sum(map(len, self.groups))
        table = torch.full((len(self.groups), width), m)
        for row, group in zip(table, self.groups, strict=True):
            row[: len(group)] = torch.as_tensor([int(entry) for entry in group])
        flat = table.flatten()
        return table, flat.argsort(stable=True)[:m]

    def _split(self, z: Tensor, name: str) -> Tensor:
        """(…, m) ↦ (…, groups, width), with zeros where a group is shorter."""
        check_rows(name, z)
        table, inverse = self._places
        if z.shape[-1] != len(inverse):
            raise ValueError(
                f"{name} must have rows of length {len(inverse)}, that of the groups, "
                f"got shape {tuple(z.shape)}"
            )
        if not self._in_order:
            filled = pad(z, (0, 1)) if table.numel() > len(inverse) else z
            z = filled.index_select(-1, table.flatten().to(z.device))
        parts: Tensor = z.unflatten(-1, table.shape)
        return parts

    def _join(self, parts: Tensor) -> Tensor:
        flat = parts.flatten(-2)
        return flat if self._in_order else flat.index_select(-1, self._places[1].to(flat.device))

    @cached_property
    def _in_order(self) -> bool:
        """Whether the groups are the entries in their order, all of the same size."""
        return torch.equal(self._places[0].flatten(), torch.arange(len(self._places[1])))


def _norms(parts: Tensor, p: float) -> Tensor:
    """Return the norms of the last axis, for p = 2 faster than `lp_norm`."""
    if p != 2 or 0 in parts.shape:
        return lp_norm(parts, p)
    peak = parts.detach().abs().amax((-2, -1), keepdim=True)
    peak = torch.where((peak > 0) & peak.isfinite(), peak, 1.0)
    norms: Tensor = peak.squeeze(-1) * torch.linalg.vector_norm(parts / peak, dim=-1)
    return norms
