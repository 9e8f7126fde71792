"""Images of every kind that functions from image to image take."""

import numpy as np
import torch
from PIL import Image

ARRAY_SHAPES = [(9, 7), (9, 7, 1), (9, 7, 2), (9, 7, 3), (9, 7, 4)]
ARRAY_DTYPES = [np.uint8, np.uint16, np.float16, np.float32, np.float64, ">u2", ">f4"]
TENSOR_SHAPES = [(9, 7), (1, 9, 7), (3, 9, 7), (4, 9, 7), (2, 5, 2, 9, 7)]
TENSOR_DTYPES = [torch.uint8, torch.uint16, torch.bfloat16, torch.float16, torch.float32]
TENSOR_DTYPES += [torch.float64]

# What an image of each mode of Pillow comes back as.
PILLOW_MODES = [
    ("1", "L"), ("L", "L"), ("LA", "LA"), ("La", "LA"), ("P", "RGB"), ("PA", "RGBA"),
    ("RGB", "RGB"), ("RGBA", "RGBA"), ("RGBX", "RGB"), ("RGBa", "RGBA"), ("CMYK", "RGB"),
    ("YCbCr", "RGB"), ("HSV", "RGB"), ("LAB", "RGB"), ("I", "I"), ("I;16", "I;16"),
    ("I;16B", "I;16"), ("F", "F"),
]  # fmt: skip


def values(shape, dtype, seed=0):
    """Noise from black to white."""
    numbers = np.random.default_rng(seed).random(shape)
    kind = np.dtype(dtype)
    return (numbers * np.iinfo(kind).max if kind.kind == "u" else numbers).astype(kind)


def pillow_image(mode):
    """Noise, 9 pixels high and 7 wide."""
    rgb = Image.fromarray(values((9, 7, 3), np.uint8))
    if mode == "F":
        return Image.fromarray(values((9, 7), np.float32))
    if mode.startswith("I"):
        image = Image.fromarray(values((9, 7), np.uint16))
        return image if mode == "I;16" else image.convert(mode)
    if mode in ("La", "RGBa", "PA"):
        return rgb.convert({"La": "LA", "RGBa": "RGBA", "PA": "P"}[mode]).convert(mode)
    if mode == "LAB":
        return Image.merge("LAB", rgb.split())
    return rgb.convert(mode)
