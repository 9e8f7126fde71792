"""From image to image: restorations by networks, and the classical methods beside them."""

from fwnet.imaging.metadata import ImageError
from fwnet.imaging.noise import estimate_noise
from fwnet.imaging.restored_files import (
    FailedFile,
    RestoredFile,
    denoise_files,
    restore_files,
    upscale_files,
)
from fwnet.imaging.restorer import Restored, Restorer, denoise, restore, upscale

__all__ = [
    "FailedFile",
    "ImageError",
    "Restored",
    "RestoredFile",
    "Restorer",
    "denoise",
    "denoise_files",
    "estimate_noise",
    "restore",
    "restore_files",
    "upscale",
    "upscale_files",
]
