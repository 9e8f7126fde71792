"""The part of the Lp ball without negative entries."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.checks import check_tensor
from fwnet.functional import dual_exponent, lp_norm, value_of
from fwnet.sets.convex_set import ConvexSet, contains_by_distance
from fwnet.sets.face import Face
from fwnet.sets.lp_ball import LpBall


@dataclass(frozen=True, eq=False)
class NonnegativeLpBall(ConvexSet):
    """{z ≥ 0 : ‖z‖_p ≤ radius} for p in [1, ∞], both ends included.

    p and radius are those of `LpBall`; so are the gradients. Negative entries only ever move a
    point away from the set, so both oracles are those of the ball after a ReLU.

    >>> import fwnet, torch
    >>> fwnet.NonnegativeLpBall(p=2.0).project(torch.tensor([3.0, 4.0, -5.0]))
    tensor([0.6000, 0.8000, 0.0000])
    """

    p: float | Tensor
    radius: float | Tensor = 1.0

    def __post_init__(self) -> None:
        LpBall(self.p, self.radius)  # checks both

    def lmo(self, u: Tensor) -> Tensor:
        """argmin ⟨s, u⟩ = pool_p(min(u, 0))."""
        check_tensor("u", u)
        return self._ball.lmo(u.clamp(max=0))

    def project(self, y: Tensor) -> Tensor:
        """argmin ½‖z − y‖² = the projection of max(y, 0) on the ball."""
        check_tensor("y", y)
        return self._ball.project(y.clamp(min=0))

    def gauge(self, z: Tensor) -> Tensor:
        """‖z‖_p / radius, or ∞ with a negative entry; at least float32."""
        check_tensor("z", z)
        return torch.where((z < 0).any(-1), torch.inf, self._ball.gauge(z))

    def support(self, y: Tensor) -> Tensor:
        """radius·‖max(y, 0)‖_q; at least float32."""
        check_tensor("y", y)
        return self.radius * lp_norm(y.clamp(min=0), dual_exponent(self.p))

    def face(self, y: Tensor, z: Tensor) -> Face | None:
        """For p = 1: positive entries are free, with a sum that stays on the border."""
        if value_of(self.p) != 1:
            return None
        free = z > 0
        outside = ((y - z) * free).amax(-1, keepdim=True) > 0
        return Face(free, (free & outside).to(z))

    contains = contains_by_distance

    @property
    def _ball(self) -> LpBall:
        return LpBall(self.p, self.radius)
