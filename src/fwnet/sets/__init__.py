"""Convex sets: oracle, projection and gauge of the feasible points."""

from fwnet.sets.box import Box
from fwnet.sets.configuration import set_from_config, set_to_config
from fwnet.sets.convex_set import ConvexSet
from fwnet.sets.face import Face
from fwnet.sets.group_lp_ball import GroupLpBall
from fwnet.sets.k_support_ball import KSupportBall
from fwnet.sets.lp_ball import LpBall
from fwnet.sets.nonnegative_lp_ball import NonnegativeLpBall
from fwnet.sets.schatten_ball import SchattenBall
from fwnet.sets.simplex import Simplex
from fwnet.sets.sorted_l1_ball import SortedL1Ball

__all__ = [
    "Box",
    "ConvexSet",
    "Face",
    "GroupLpBall",
    "KSupportBall",
    "LpBall",
    "NonnegativeLpBall",
    "SchattenBall",
    "Simplex",
    "SortedL1Ball",
    "set_from_config",
    "set_to_config",
]
