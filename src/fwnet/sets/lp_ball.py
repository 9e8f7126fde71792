"""The Lp ball, the set of the paper."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.checks import check_tensor
from fwnet.functional import check_exponent, check_radius, dual_exponent, lp_norm, pool_p
from fwnet.sets.convex_set import ConvexSet
from fwnet.sets.projection import project_lp


@dataclass(frozen=True, eq=False)
class LpBall(ConvexSet):
    """{z : ‖z‖_p ≤ radius} for p in [1, ∞], both ends included.

    p and radius are floats, or 0-dim tensors if their gradients are needed. Every method works on
    the rows (last axis) of its argument and is differentiable in it, in radius, and for 1 < p < ∞
    in p.

    >>> import fwnet, torch
    >>> ball = fwnet.LpBall(p=2.0, radius=5.0)
    >>> ball.lmo(torch.tensor([3.0, -4.0]))
    tensor([-3.,  4.])
    >>> z = ball.project(torch.tensor([6.0, 8.0]))
    >>> z, ball.gauge(z), ball.contains(z)
    (tensor([3., 4.]), tensor(1.), tensor(True))
    """

    p: float | Tensor
    radius: float | Tensor = 1.0

    def __post_init__(self) -> None:
        check_exponent(self.p)
        check_radius(self.radius)

    def lmo(self, u: Tensor) -> Tensor:
        """argmin_{‖s‖_p ≤ radius} ⟨s, u⟩ = pool_p(u). At p = 1 tied entries share evenly."""
        return pool_p(u, self.p, self.radius)

    def project(self, y: Tensor) -> Tensor:
        """argmin_{‖z‖_p ≤ radius} ½‖z − y‖², to rounding, for every p."""
        return project_lp(y, self.p, self.radius)

    def gauge(self, z: Tensor) -> Tensor:
        """‖z‖_p / radius, without overflow or underflow; at least float32."""
        check_tensor("z", z)
        radius = self.radius
        if isinstance(radius, Tensor):
            radius = torch.where(radius > 0, radius, torch.nan).to(z.device)
        return lp_norm(z, self.p, radius)

    def support(self, y: Tensor) -> Tensor:
        """radius·‖y‖_q, the scaled dual norm; at least float32."""
        radius = self.radius if isinstance(self.radius, Tensor) else float(self.radius)
        return radius * lp_norm(y, dual_exponent(self.p))
