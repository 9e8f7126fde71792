"""BM3D through the package `bm3d` (extra `bm3d`), which is licensed for non-commercial use only."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from fwnet.imaging.patch_coding import check_noisy_gray

__all__ = ["denoise_bm3d"]

MISSING = (
    "BM3D needs the package bm3d: pip install 'fwnet[bm3d]' "
    "(its license allows non-commercial use only)"
)


def denoise_bm3d(image: Tensor, sigma: float, *, num_threads: int = 1) -> Tensor:
    """Block matching and 3D filtering: patches that look alike are stacked and shrunk together.

    Dabov, Foi, Katkovnik and Egiazarian (2007), in the implementation and with the settings of
    the authors.

    Args:
        image: Noisy gray images in [0, 1], not clipped: (batch, 1, height, width).
        sigma: The standard deviation of the noise, on that scale: 25/255, not 25.
        num_threads: How many threads work on an image; 0 for all there are. With one thread the
            same image gives the same result, bit for bit.
    """
    check_noisy_gray(image, sigma)
    if not num_threads >= 0:
        raise ValueError(f"num_threads must be >= 0, got {num_threads!r}")
    package = _package()
    profile = package.BM3DProfile()
    profile.num_threads = num_threads
    denoised = torch.empty_like(image, device="cpu", requires_grad=False)
    for x, y in zip(image.detach().cpu()[:, 0], denoised[:, 0], strict=True):
        found = package.bm3d(x.double().numpy(), float(sigma), profile)
        y.copy_(torch.from_numpy(np.asarray(found).reshape(y.shape)))
    return denoised.to(image.device)


def _package() -> ModuleType:
    try:
        import bm3d
    except ImportError as error:
        raise ImportError(MISSING) from error
    package: ModuleType = bm3d
    return package
