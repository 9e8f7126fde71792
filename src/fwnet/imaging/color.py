"""Convert RGB to YCbCr and back: ITU-R BT.601 with Y from 16 to 235, as MATLAB's rgb2ycbcr.

Values are divided by 255: white has Y = 235/255, and gray has Cb = Cr = 128/255. Nothing is rounded
or clipped.
"""

import torch
from torch import Tensor

RED, BLUE = 0.299, 0.114  # weights of a gray value; that of green is the rest


def rgb_to_ycbcr(rgb: Tensor) -> Tensor:
    """255·(Y, Cb, Cr) = (16 + 219·g, 128 + 112·(B − g)/0.886, 128 + 112·(R − g)/0.701).

    g = 0.299·R + 0.587·G + 0.114·B is the gray value.

    Args:
        rgb: (…, 3, h, w) in [0, 1].
    """
    red, green, blue = rgb.unbind(-3)
    gray = RED * red + (1 - RED - BLUE) * green + BLUE * blue
    parts = [gray_to_luma(gray), _to_chroma(blue - gray, BLUE), _to_chroma(red - gray, RED)]
    return torch.stack(parts, -3)


def ycbcr_to_rgb(ycbcr: Tensor) -> Tensor:
    """Return RGB: the inverse of `rgb_to_ycbcr`."""
    luma, blueness, redness = ycbcr.unbind(-3)
    gray = luma_to_gray(luma)
    blue, red = gray + _of_chroma(blueness, BLUE), gray + _of_chroma(redness, RED)
    green = (gray - RED * red - BLUE * blue) / (1 - RED - BLUE)
    return torch.stack([red, green, blue], -3)


def gray_to_luma(gray: Tensor) -> Tensor:
    """Y = (16 + 219·g)/255, the luma of a gray image and of its RGB copy."""
    return (16 + 219 * gray) / 255


def luma_to_gray(luma: Tensor) -> Tensor:
    """g = (255·Y − 16)/219."""
    return (255 * luma - 16) / 219


def _to_chroma(difference: Tensor, part: float) -> Tensor:
    return (128 + 112 * difference / (1 - part)) / 255


def _of_chroma(chroma: Tensor, part: float) -> Tensor:
    return (255 * chroma - 128) / 112 * (1 - part)
