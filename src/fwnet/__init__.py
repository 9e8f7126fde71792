"""Lp-norm constrained coding with the Frank-Wolfe Network.

The public names below are imported when first used, so that `import fwnet` costs what
`import torch` costs.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

# Threads that wait for each other spin for some microseconds and then sleep, unless the user set it
# otherwise. Spinning for milliseconds, their default, keeps threads from running beside other work.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")  # read when torch is loaded

import torch as torch  # the one import that everything needs

from fwnet.version import __version__ as __version__

if TYPE_CHECKING:
    from fwnet import (
        coding,
        data,
        export,
        functional,
        imaging,
        metrics,
        models,
        nn,
        resize,
        restoration,
        sets,
        solvers,
        training,
        zoo,
    )
    from fwnet.coding import FWNetClassifier, FWNetCoder, LpCoder, LpDictionaryLearning
    from fwnet.export import export_model
    from fwnet.functional import dual_exponent, pool_p, soft_threshold
    from fwnet.imaging import denoise, upscale
    from fwnet.models import LISTA, MLP, SRCNN, VDSR, ConvFWNet, ConvLISTA, DnCNN, FWNet, LCoD
    from fwnet.sets import (
        Box,
        ConvexSet,
        GroupLpBall,
        KSupportBall,
        LpBall,
        NonnegativeLpBall,
        SchattenBall,
        Simplex,
        SortedL1Ball,
    )
    from fwnet.solvers import Minimum, Solution, minimize, solve
    from fwnet.zoo import list_models, load_model

__all__ = [
    "LISTA",
    "MLP",
    "SRCNN",
    "VDSR",
    "Box",
    "ConvFWNet",
    "ConvLISTA",
    "ConvexSet",
    "DnCNN",
    "FWNet",
    "FWNetClassifier",
    "FWNetCoder",
    "GroupLpBall",
    "KSupportBall",
    "LCoD",
    "LpBall",
    "LpCoder",
    "LpDictionaryLearning",
    "Minimum",
    "NonnegativeLpBall",
    "SchattenBall",
    "Simplex",
    "Solution",
    "SortedL1Ball",
    "coding",
    "data",
    "denoise",
    "dual_exponent",
    "export",
    "export_model",
    "functional",
    "imaging",
    "list_models",
    "load_model",
    "metrics",
    "minimize",
    "models",
    "nn",
    "pool_p",
    "resize",
    "restoration",
    "sets",
    "soft_threshold",
    "solve",
    "solvers",
    "training",
    "upscale",
    "zoo",
]

# The rooms that are public, and the names of each that stand in the package itself.
_NAMES: dict[str, set[str]] = {
    "coding": {"FWNetClassifier", "FWNetCoder", "LpCoder", "LpDictionaryLearning"},
    "data": set(),
    "deepinv": set(),  # not in __all__: it needs an extra
    "export": {"export_model"},
    "functional": {"dual_exponent", "pool_p", "soft_threshold"},
    "imaging": {"denoise", "upscale"},
    "metrics": set(),
    "models": {"LISTA", "MLP", "SRCNN", "VDSR", "ConvFWNet", "ConvLISTA", "DnCNN", "FWNet", "LCoD"},
    "nn": set(),
    "ray": set(),  # not in __all__: it needs an extra
    "resize": set(),
    "restoration": set(),
    "sets": {
        "Box",
        "ConvexSet",
        "GroupLpBall",
        "KSupportBall",
        "LpBall",
        "NonnegativeLpBall",
        "SchattenBall",
        "Simplex",
        "SortedL1Ball",
    },
    "solvers": {"Minimum", "Solution", "minimize", "solve"},
    "training": set(),
    "zoo": {"list_models", "load_model"},
}


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return importlib.import_module(f"fwnet.{name}")
    for room, names in _NAMES.items():
        if name in names:
            return getattr(importlib.import_module(f"fwnet.{room}"), name)
    raise AttributeError(f"module 'fwnet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
