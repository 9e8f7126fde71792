"""JPEG compression of gray images, as an operation on batches."""

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from fwnet.hardware import widest_dtype

SIDE = 8  # of a block
# Steps of brightness at quality 50: ISO/IEC 10918-1, table K.1.
STEPS = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)


def jpeg(x: Tensor, quality: Tensor, corner: tuple[int, int] = (0, 0)) -> Tensor:
    """x̂ = C⁻¹[Q·round(C[x]/Q)] for every block of 8 × 8 pixels, rounded to 8 bits.

    C is the cosine transform and Q the table of a quality, as most programs write it.

    Args:
        x: Gray images in [0, 1], (batch, 1, h, w).
        quality: 1 to 100, one number per image.
        corner: The place within a block at which the images begin: they may be parts of larger
            ones. Blocks at the border are filled up by copies of the last pixels.
    """
    (top, left), (height, width) = corner, x.shape[-2:]
    bottom, right = -(top + height) % SIDE, -(left + width) % SIDE
    levels = (255 * x).round().clamp(0, 255)
    levels = pad(levels, (left, right, top, bottom), mode="replicate") - 128
    blocks = levels.unflatten(3, (-1, SIDE)).unflatten(2, (-1, SIDE)).transpose(3, 4)
    basis = _cosines(x)
    steps = _steps(quality.to(x))[:, None, None, None]
    kept = (basis @ blocks @ basis.T / steps).round() * steps
    restored = (basis.T @ kept @ basis).transpose(3, 4).flatten(4, 5).flatten(2, 3)
    levels = (restored + 128).round().clamp(0, 255) / 255
    part: Tensor = levels[..., top : top + height, left : left + width]
    return part


def _cosines(like: Tensor) -> Tensor:
    """C_kn = √(2/8)·cos(π·k·(2n + 1)/16), with 1/√2 for k = 0; orthonormal."""
    n = torch.arange(SIDE, dtype=widest_dtype(like.device), device=like.device)
    basis: Tensor = (math.pi / (2 * SIDE) * n[:, None] * (2 * n + 1)).cos() * (2 / SIDE) ** 0.5
    basis[0] /= 2**0.5
    return basis.to(like.dtype)


def _steps(quality: Tensor) -> Tensor:
    """Return the table of each quality, (batch, 8, 8), as libjpeg computes it."""
    percent = torch.where(quality < 50, (5000 / quality).floor(), 200 - 2 * quality)
    table = torch.tensor(STEPS, dtype=quality.dtype, device=quality.device)
    return ((percent[:, None, None] * table + 50) / 100).floor().clamp(1, 255)
