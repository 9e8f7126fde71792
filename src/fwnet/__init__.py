"""Lp-norm constrained coding with the Frank-Wolfe Network.

The public names below are imported when first used, so that `import fwnet` costs what
`import torch` costs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import torch as torch  # the one import that everything needs

from fwnet.version import __version__ as __version__

if TYPE_CHECKING:
    from fwnet import coding, functional, nn, sets, solvers
    from fwnet.coding import LpCoder
    from fwnet.functional import dual_exponent, pool_p, soft_threshold
    from fwnet.sets import ConvexSet, LpBall
    from fwnet.solvers import Solution, solve

__all__ = [
    "ConvexSet",
    "LpBall",
    "LpCoder",
    "Solution",
    "coding",
    "dual_exponent",
    "functional",
    "nn",
    "pool_p",
    "sets",
    "soft_threshold",
    "solve",
    "solvers",
]

_HOMES = {
    "ConvexSet": "fwnet.sets",
    "LpBall": "fwnet.sets",
    "LpCoder": "fwnet.coding",
    "Solution": "fwnet.solvers",
    "dual_exponent": "fwnet.functional",
    "pool_p": "fwnet.functional",
    "soft_threshold": "fwnet.functional",
    "solve": "fwnet.solvers",
}
_ROOMS = {"coding", "functional", "nn", "sets", "solvers"}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"fwnet.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'fwnet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
