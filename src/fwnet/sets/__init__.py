"""Convex sets: oracle, projection and gauge of the feasible points."""

from fwnet.sets.convex_set import ConvexSet
from fwnet.sets.lp_ball import LpBall

__all__ = ["ConvexSet", "LpBall"]
