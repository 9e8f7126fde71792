"""From image to image: restorations by networks, and the classical methods beside them."""

from fwnet.imaging.in_memory import denoise, restore, upscale
from fwnet.imaging.noise import estimate_noise
from fwnet.imaging.one_file import FailedFile, RestoredFile
from fwnet.imaging.photo_noise import noise_level
from fwnet.imaging.pixels import ImageError, Pixels
from fwnet.imaging.restored_files import restore_files
from fwnet.imaging.restorer import Restored, Restorer

__all__ = [
    "FailedFile",
    "ImageError",
    "Pixels",
    "Restored",
    "RestoredFile",
    "Restorer",
    "denoise",
    "estimate_noise",
    "noise_level",
    "restore",
    "restore_files",
    "upscale",
]
