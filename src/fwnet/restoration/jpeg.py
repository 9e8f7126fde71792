"""JPEG compression, as an operation on batches."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate, pad

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

# Those of color: table K.2.
COLOR_STEPS = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *((99,) * 8,) * 4,
)
# Y, Cb and Cr of R, G and B (JFIF): other than those of television, they use all 256 values.
TO_YCC = ((0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312))


def jpeg(x: Tensor, quality: Tensor, corner: tuple[int, int] = (0, 0)) -> Tensor:
    """x̂ = C⁻¹[Q·round(C[x]/Q)] for every block of 8 × 8 pixels, rounded to 8 bits.

    C is the cosine transform and Q the table of a quality, as most programs write it.

    Args:
        x: Gray images in [0, 1], (batch, 1, h, w).
        quality: 1 to 100, one number per image.
        corner: The place within a block at which the images begin: they may be parts of larger
            ones. Blocks at the border are filled up by copies of the last pixels.
    """
    levels = (255 * x).round().clamp(0, 255) - 128
    return _whole(_compressed(levels, quality, STEPS, corner) + 128) / 255


def jpeg_color(
    x: Tensor, quality: Tensor, corner: tuple[int, int] = (0, 0), halve: bool = False
) -> Tensor:
    """Y, Cb and Cr of RGB images, each compressed as by `jpeg`.

    Args:
        x: Images in [0, 1], (batch, 3, h, w).
        quality: As for `jpeg`.
        corner: As for `jpeg`; two even numbers with `halve`.
        halve: Whether Cb and Cr have half the height and width, as in most JPEG files.
    """
    luma, color = _turned(_whole(255 * x), TO_YCC).round().split([1, 2], 1)
    luma = _compressed(luma - 128, quality, STEPS, corner).round() + 128
    if halve:
        half = (corner[0] // 2, corner[1] // 2)
        height, width = color.shape[-2:]
        even = pad(color, (0, width % 2, 0, height % 2), mode="replicate")
        small = _compressed(avg_pool2d(even, 2).round(), quality, COLOR_STEPS, half).round()
        large = interpolate(small, scale_factor=2, mode="bilinear", align_corners=False)
        color = large[..., :height, :width]
    else:
        color = _compressed(color, quality, COLOR_STEPS, corner).round()
    back = torch.linalg.inv(torch.tensor(TO_YCC, dtype=torch.float64)).tolist()
    return _whole(_turned(torch.cat([luma, color], 1), back)) / 255


def _compressed(
    levels: Tensor, quality: Tensor, table: tuple[tuple[int, ...], ...], corner: tuple[int, int]
) -> Tensor:
    """C⁻¹[Q·round(C[x]/Q)] for values around 0."""
    (top, left), (height, width) = (at % SIDE for at in corner), levels.shape[-2:]
    bottom, right = -(top + height) % SIDE, -(left + width) % SIDE
    levels = pad(levels, (left, right, top, bottom), mode="replicate")
    blocks = levels.unflatten(3, (-1, SIDE)).unflatten(2, (-1, SIDE)).transpose(3, 4)
    basis = _cosines(levels)
    steps = _steps(quality.to(levels), table)[:, None, None, None]
    kept = (basis @ blocks @ basis.T / steps).round() * steps
    restored = (basis.T @ kept @ basis).transpose(3, 4).flatten(4, 5).flatten(2, 3)
    part: Tensor = restored[..., top : top + height, left : left + width]
    return part


def _whole(levels: Tensor) -> Tensor:
    return levels.round().clamp(0, 255)


def _turned(x: Tensor, matrix: Sequence[Sequence[float]]) -> Tensor:
    """Return other colors: a matrix times the channels."""
    return torch.einsum("ij,bjhw->bihw", torch.tensor(matrix).to(x), x)


def _cosines(like: Tensor) -> Tensor:
    """C_kn = √(2/8)·cos(π·k·(2n + 1)/16), with 1/√2 for k = 0; orthonormal."""
    n = torch.arange(SIDE, dtype=widest_dtype(like.device), device=like.device)
    basis: Tensor = (math.pi / (2 * SIDE) * n[:, None] * (2 * n + 1)).cos() * (2 / SIDE) ** 0.5
    basis[0] /= 2**0.5
    return basis.to(like.dtype)


def _steps(quality: Tensor, table: tuple[tuple[int, ...], ...] = STEPS) -> Tensor:
    """Return the table of each quality, (batch, 8, 8), as libjpeg computes it."""
    percent = torch.where(quality < 50, (5000 / quality).floor(), 200 - 2 * quality)
    steps = torch.tensor(table, dtype=quality.dtype, device=quality.device)
    return ((percent[:, None, None] * steps + 50) / 100).floor().clamp(1, 255)
