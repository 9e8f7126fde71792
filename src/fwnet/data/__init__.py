"""Data sets and synthetic data: signals with codes, digits, images."""

from fwnet.data.berkeley import (
    BSD68,
    berkeley_files,
    berkeley_training_files,
    berkeley_validation_files,
    without_bsd68,
)
from fwnet.data.digits import Digits, load_mnist, small_digits
from fwnet.data.folders import DATA_SETS, DATA_VARIABLE, DataError
from fwnet.data.image_sets import ImageSet, Squares, noisy
from fwnet.data.images import (
    image_files,
    read_images,
    read_luma,
    read_luma_images,
    read_pixels,
    to_gray,
    to_luma,
)
from fwnet.data.pairs import camera_pairs, estimate_shift, match_pairs, read_pair
from fwnet.data.seeds import keyed_generator
from fwnet.data.super_resolution import set5_files, set14_files, t91_files
from fwnet.data.synthetic import SyntheticCodes, synthetic_codes

__all__ = [
    "BSD68",
    "DATA_SETS",
    "DATA_VARIABLE",
    "DataError",
    "Digits",
    "ImageSet",
    "Squares",
    "SyntheticCodes",
    "berkeley_files",
    "berkeley_training_files",
    "berkeley_validation_files",
    "camera_pairs",
    "estimate_shift",
    "image_files",
    "keyed_generator",
    "load_mnist",
    "match_pairs",
    "noisy",
    "read_images",
    "read_luma",
    "read_luma_images",
    "read_pair",
    "read_pixels",
    "set5_files",
    "set14_files",
    "small_digits",
    "synthetic_codes",
    "t91_files",
    "to_gray",
    "to_luma",
    "without_bsd68",
]
