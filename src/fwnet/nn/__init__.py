"""pool_p and the steps of the network as modules, with fixed or learned p and step sizes."""

from fwnet.nn.exponent import Exponent
from fwnet.nn.fw_cell import FWCell
from fwnet.nn.line_search import LineSearch
from fwnet.nn.pool import PoolP
from fwnet.nn.step_sizes import StepFactors, StepSizes, harmonic_step_sizes
from fwnet.nn.unrolled import Activation, Unrolled

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
