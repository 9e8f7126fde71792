"""From image to image: denoise, upscale, and the classical methods beside the networks."""

from fwnet.imaging.denoiser import DEFAULT_MODELS, Denoised, Denoiser, denoise
from fwnet.imaging.errors import ImageError
from fwnet.imaging.file_denoiser import (
    DenoisedFile,
    DenoiseProgress,
    FailedFile,
    denoise_files,
)
from fwnet.imaging.noise import estimate_noise

__all__ = [
    "DEFAULT_MODELS",
    "DenoiseProgress",
    "Denoised",
    "DenoisedFile",
    "Denoiser",
    "FailedFile",
    "ImageError",
    "denoise",
    "denoise_files",
    "estimate_noise",
]
