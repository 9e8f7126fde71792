"""From image to image: denoise, upscale, and the classical methods beside the networks."""

from fwnet.imaging.denoiser import DEFAULT_MODELS, Denoised, Denoiser, denoise
from fwnet.imaging.errors import ImageError
from fwnet.imaging.file_denoiser import DenoisedFile, denoise_files
from fwnet.imaging.file_runs import FailedFile, FileProgress, FinishedFile
from fwnet.imaging.file_upscaler import UpscaledFile, upscale_files
from fwnet.imaging.noise import estimate_noise
from fwnet.imaging.upscaler import DEFAULT_UPSCALERS, Upscaler, upscale

__all__ = [
    "DEFAULT_MODELS",
    "DEFAULT_UPSCALERS",
    "Denoised",
    "DenoisedFile",
    "Denoiser",
    "FailedFile",
    "FileProgress",
    "FinishedFile",
    "ImageError",
    "UpscaledFile",
    "Upscaler",
    "denoise",
    "denoise_files",
    "estimate_noise",
    "upscale",
    "upscale_files",
]
