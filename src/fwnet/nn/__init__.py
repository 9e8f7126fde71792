"""pool_p and the steps of the network as modules, with fixed or learned p and step sizes."""

from fwnet.nn.fw_cell import FWCell
from fwnet.nn.line_search import LineSearch, StepFactors
from fwnet.nn.pool import PoolP
from fwnet.nn.unrolled import Activation, Exponent, StepSizes, Unrolled, harmonic_step_sizes

__all__ = [
    "Activation",
    "Exponent",
    "FWCell",
    "LineSearch",
    "PoolP",
    "StepFactors",
    "StepSizes",
    "Unrolled",
    "harmonic_step_sizes",
]
