"""Convex sets as plain values, so that files can hold them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from fwnet.sets.box import Box
from fwnet.sets.convex_set import ConvexSet, plain
from fwnet.sets.group_lp_ball import GroupLpBall
from fwnet.sets.k_support_ball import KSupportBall
from fwnet.sets.lp_ball import LpBall
from fwnet.sets.nonnegative_lp_ball import NonnegativeLpBall
from fwnet.sets.schatten_ball import SchattenBall
from fwnet.sets.simplex import Simplex
from fwnet.sets.sorted_l1_ball import SortedL1Ball

SETS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Box,
        GroupLpBall,
        KSupportBall,
        LpBall,
        NonnegativeLpBall,
        SchattenBall,
        Simplex,
        SortedL1Ball,
    )
}


def set_to_config(convex_set: ConvexSet) -> dict[str, Any]:
    """Return {"set": name, …} with the arguments as numbers and lists.

    >>> import fwnet
    >>> fwnet.sets.set_to_config(fwnet.Simplex(2.0))
    {'set': 'Simplex', 'total': 2.0, 'cap': None}
    """
    name = type(convex_set).__name__
    if name not in SETS:
        raise TypeError(f"a set in a file must be one of {', '.join(SETS)}, got {convex_set!r}")
    fields = dataclasses.fields(convex_set)  # type: ignore[arg-type]
    return {
        "set": name,
        **{field.name: plain(getattr(convex_set, field.name)) for field in fields},
    }


def set_from_config(config: Mapping[str, Any]) -> ConvexSet:
    """Return the set that `set_to_config` described.

    >>> import fwnet
    >>> fwnet.sets.set_from_config({"set": "KSupportBall", "k": 3, "radius": 1.0})
    KSupportBall(k=3, radius=1.0)
    """
    if not isinstance(config, Mapping):
        raise TypeError(f"a set must be described by a dictionary, got {config!r}")
    arguments = dict(config)
    name = arguments.pop("set", None)
    if not isinstance(name, str) or name not in SETS:
        raise ValueError(f"set must be one of {', '.join(SETS)}, got {name!r}")
    convex_set: ConvexSet = SETS[name](**arguments)
    return convex_set
