"""Which points are feasible: convex sets with their oracle, projection and gauge."""

from fwnet.sets.convex_set import ConvexSet
from fwnet.sets.lp_ball import LpBall

__all__ = ["ConvexSet", "LpBall"]
