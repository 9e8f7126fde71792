"""BM3D through the package `bm3d` (extra `bm3d`), which is licensed for non-commercial use only."""

import numpy as np
import torch
from torch import Tensor

MISSING = (
    "BM3D needs the package bm3d: pip install '.[bm3d]' in the clone "
    "(its license allows non-commercial use only)"
)


def denoise_bm3d(image: Tensor, sigma: float, *, num_threads: int = 1) -> Tensor:
    """Denoise by block matching and 3D filtering: similar patches are stacked and shrunk together.

    Dabov, Foi, Katkovnik and Egiazarian (2007), in the implementation and with the settings of
    the authors.

    Args:
        image: Noisy gray images in [0, 1], not clipped: (batch, 1, height, width).
        sigma: The standard deviation of the noise, on that scale: 25/255, not 25.
        num_threads: Number of threads; 0 for all. With one thread the result is reproducible bit
            for bit.
    """
    if image.ndim != 4 or image.shape[1] != 1:
        raise ValueError(
            f"image must have shape (batch, 1, height, width), got {tuple(image.shape)}"
        )
    if not 0 < sigma <= 1:
        raise ValueError(
            "sigma must be in (0, 1], the scale of the image (a level of 25 is sigma=25/255), "
            f"got {sigma!r}"
        )
    if not num_threads >= 0:
        raise ValueError(f"num_threads must be >= 0, got {num_threads!r}")
    try:
        import bm3d
    except ImportError as error:
        raise ImportError(MISSING) from error
    profile = bm3d.BM3DProfile()
    profile.num_threads = num_threads
    denoised = torch.empty_like(image, device="cpu", requires_grad=False)
    for x, y in zip(image.detach().cpu()[:, 0], denoised[:, 0], strict=True):
        found = bm3d.bm3d(x.double().numpy(), float(sigma), profile)
        y.copy_(torch.from_numpy(np.asarray(found).reshape(y.shape)))
    return denoised.to(image.device)
