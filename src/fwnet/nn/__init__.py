"""pool_p and the steps of the network as modules, with fixed or learned p and step sizes."""

from fwnet.nn.exponent import Exponent
from fwnet.nn.fw_cell import FWCell
from fwnet.nn.pool import PoolP
from fwnet.nn.step_sizes import StepSizes, harmonic_step_sizes
from fwnet.nn.unrolled import Activation, Unrolled

__all__ = [
    "Activation",
    "Exponent",
    "FWCell",
    "PoolP",
    "StepSizes",
    "Unrolled",
    "harmonic_step_sizes",
]
