"""Where signals, codes and images come from."""

from fwnet.data.seeds import keyed_generator
from fwnet.data.synthetic import SyntheticCodes, synthetic_codes

__all__ = ["SyntheticCodes", "keyed_generator", "synthetic_codes"]
