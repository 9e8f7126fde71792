"""Where signals, codes and images come from."""

from fwnet.data.digits import Digits, load_mnist, small_digits
from fwnet.data.folders import DATA_SETS, DATA_VARIABLE, DataError
from fwnet.data.seeds import keyed_generator
from fwnet.data.synthetic import SyntheticCodes, synthetic_codes

__all__ = [
    "DATA_SETS",
    "DATA_VARIABLE",
    "DataError",
    "Digits",
    "SyntheticCodes",
    "keyed_generator",
    "load_mnist",
    "small_digits",
    "synthetic_codes",
]
