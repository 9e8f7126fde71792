"""Split images of every kind into colors and alpha, and put them together again."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from PIL import Image, ImageCms
from torch import Tensor

from fwnet.checks import check_tensor
from fwnet.errors import FwnetError
from fwnet.imaging.metadata import Metadata

AnyImage = TypeVar("AnyImage", np.ndarray, Tensor, Image.Image)

BEYOND = 4.0  # values further outside [0, 1] mean a wrong scale …
BLOCK = 16  # … and so do more than a quarter of all blocks, in which noise averages out, …
BRIGHTEST = 1.2  # … with a mean above this


class ImageError(FwnetError):
    """An image, a file or an option that cannot be used; the message says what was expected.

    >>> import fwnet, numpy as np
    >>> try:
    ...     fwnet.denoise(np.zeros((8, 8, 7)))
    ... except fwnet.imaging.ImageError as error:
    ...     print(error)
    an array must have shape ... with 1 to 4 channels, got (8, 8, 7)
    """


@dataclass(frozen=True)
class Pixels:
    """One image.

    Attributes:
        colors: (h, w, 1) or (h, w, 3): uint8, uint16, or floating point in [0, 1].
        alpha: Opacity, (h, w), of the same dtype as the colors; None if all is opaque.
        jpeg_step: The mean step of brightness of the JPEG file it comes from; 0 for other files.

    >>> import numpy as np
    >>> from fwnet.imaging import Pixels
    >>> pixels = Pixels.of_channels(np.zeros((20, 30, 4), np.uint8))
    >>> pixels.colors.shape, pixels.alpha.shape
    ((20, 30, 3), (20, 30))
    """

    colors: np.ndarray
    alpha: np.ndarray | None = None
    jpeg_step: float = 0.0

    @classmethod
    def of_channels(cls, array: np.ndarray) -> Pixels:
        """Split (h, w, channels) into colors and alpha; raise if values are out of range."""
        height, width, channels = array.shape
        _check_not_empty(height, width)
        _check_values(array)
        has_alpha = channels in (2, 4)
        colors = array[..., : channels - has_alpha]
        return cls(colors, array[..., -1] if has_alpha else None)

    @classmethod
    def of_pillow(cls, image: Image.Image) -> Pixels:
        """Split a PIL image of any mode into colors and alpha."""
        array = np.asarray(plain_image(image))
        if array.dtype == np.int32:  # mode I, which Pillow also uses for 16 bits
            if array.size and not (array.min() >= 0 and array.max() <= 65535):
                raise ImageError(
                    "an image of integers must have values in [0, 65535], "
                    f"got {array.min()} to {array.max()}"
                )
            array = array.astype(np.uint16)
        return cls.of_channels(array if array.ndim == 3 else array[..., None])

    @property
    def lossy(self) -> bool:
        """Whether the image was compressed as JPEG."""
        return self.jpeg_step > 0

    def middle(self, side: int) -> Pixels:
        """Return the middle, at most side × side pixels, without alpha."""
        starts = [max(0, (length - side) // 2) for length in self.colors.shape[:2]]
        part = tuple(slice(start, start + side) for start in starts)
        return replace(self, colors=np.ascontiguousarray(self.colors[part]), alpha=None)

    def channels(self) -> np.ndarray:
        """Return colors and alpha as one array, (h, w, channels)."""
        if self.alpha is None:
            return self.colors
        return np.concatenate([self.colors, self.alpha[..., None]], axis=2)

    def pillow(self) -> Image.Image:
        """Return a PIL image of mode L, LA, RGB, RGBA, I;16 or F."""
        array = self.channels()
        return Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)


def white_level(dtype: np.dtype) -> int:
    """Return the value of white: 1, or the largest integer."""
    return int(np.iinfo(dtype).max) if dtype.kind == "u" else 1


def as_unit_range(values: np.ndarray) -> np.ndarray:
    """Return values as float32, where 1 is white."""
    unit: np.ndarray = np.divide(values, white_level(values.dtype), dtype=np.float32)
    return unit


def with_bits(values: np.ndarray, bits: int) -> np.ndarray:
    """Return values as integers of 8 or 16 bits; the largest integer is white."""
    dtype = np.dtype(f"u{bits // 8}")
    if values.dtype == dtype:
        return values
    new, white = np.empty(values.shape, dtype), white_level(dtype)
    for row, old in zip(new, values, strict=True):  # row by row, to save memory
        row[...] = np.rint(as_unit_range(old).clip(0, 1) * white)
    return new


def plain_image(image: Image.Image) -> Image.Image:
    """Convert an image to mode L, LA, RGB, RGBA, I, I;16 or F without changing what it shows."""
    mode = image.mode
    see_through = image.has_transparency_data
    if mode in ("1", "L", "LA", "La"):
        wanted = "LA" if see_through else "L"
    elif mode.startswith("I;16"):
        wanted = "I;16" if mode == "I;16" else "I"
    elif mode in ("I", "F"):
        wanted = mode
    else:  # no other mode can be transparent
        wanted = "RGBA" if see_through and mode in ("P", "PA", "RGB", "RGBA", "RGBa") else "RGB"
    return image if mode == wanted else image.convert(wanted)


def without_inks(image: Image.Image, about: Metadata) -> tuple[Image.Image, Metadata]:
    """Convert CMYK and Lab to RGB, by the profile if there is one; return other images as given.

    The profile of the inks is dropped.
    """
    if image.mode not in ("CMYK", "LAB"):
        return image, about
    plain = replace(about, profile=None)
    if about.profile:
        try:
            source = ImageCms.ImageCmsProfile(io.BytesIO(about.profile))
            screen = ImageCms.createProfile("sRGB")
            converted = ImageCms.profileToProfile(image, source, screen, outputMode="RGB")
            if converted is not None:
                return converted, plain
        except (ImageCms.PyCMSError, OSError):
            pass  # convert as if there was no profile
    return image.convert("RGB"), plain


def jpeg_step(image: Image.Image) -> float:
    """Return the mean step that a JPEG file rounded brightness to; 0 for other images.

    It is 6 gray levels at quality 95, 29 at quality 75, as most programs write them.
    """
    tables = getattr(image, "quantization", None)  # also of an MPO, a JPEG with previews
    return sum(tables[min(tables)]) / len(tables[min(tables)]) if tables else 0.0


def map_images(image: AnyImage, function: Callable[[Pixels], Pixels]) -> AnyImage:
    """Apply a function to each image; return the same type, dtype and channels as given.

    Args:
        image: A NumPy array, a tensor (one image or a batch) or a PIL image; see `fwnet.denoise`.
        function: Returns an image with the channels and dtype of its argument.
    """
    if isinstance(image, Image.Image):
        return _map_pillow(image, function)
    if isinstance(image, Tensor):
        return _map_tensor(image, function)
    if isinstance(image, np.ndarray):
        return _map_array(image, function)
    hint = ": open the file with PIL.Image.open" if isinstance(image, str | Path) else ""
    raise TypeError(
        f"image must be a NumPy array, a tensor or a PIL image, got {type(image).__name__}{hint}"
    )


def _map_pillow(image: Image.Image, function: Callable[[Pixels], Pixels]) -> Image.Image:
    shown, about = without_inks(image, Metadata(profile=image.info.get("icc_profile")))
    new = function(replace(Pixels.of_pillow(shown), jpeg_step=jpeg_step(image))).pillow()
    if image.mode == "I":
        new = new.convert("I")
    # A transparent color has become alpha, and the profile of inks is not that of RGB.
    gone = {"transparency"} if about.profile else {"transparency", "icc_profile"}
    new.info = {key: value for key, value in image.info.items() if key not in gone}
    return new


def _map_array(image: np.ndarray, function: Callable[[Pixels], Pixels]) -> np.ndarray:
    if not (image.ndim == 2 or (image.ndim == 3 and image.shape[2] in (1, 2, 3, 4))):
        hint = ""
        if image.ndim == 3 and image.shape[0] in (1, 2, 3, 4):
            hint = ": move the channels to the end, np.moveaxis(image, 0, -1)"
        elif image.ndim == 4:
            hint = ": give one image at a time, or a tensor (batch, channels, height, width)"
        raise ImageError(
            "an array must have shape (height, width) or (height, width, channels) with 1 to 4 "
            f"channels, got {image.shape}{hint}"
        )
    native = image.astype(image.dtype.newbyteorder("="), copy=False)
    new = function(Pixels.of_channels(np.atleast_3d(native))).channels()
    return new.reshape(*new.shape[:2], *image.shape[2:]).astype(image.dtype, copy=False)


def _map_tensor(image: Tensor, function: Callable[[Pixels], Pixels]) -> Tensor:
    if not (image.ndim == 2 or (image.ndim >= 3 and image.shape[-3] in (1, 2, 3, 4))):
        last = image.ndim == 3 and image.shape[-1] in (1, 2, 3, 4)
        hint = ": move the channels to the front, image.permute(2, 0, 1)" if last else ""
        raise ImageError(
            "a tensor must have shape (height, width) or (..., channels, height, width) with 1 to "
            f"4 channels, got {tuple(image.shape)}{hint}"
        )
    check_tensor("image", image, floating_point=False)
    stored = image.detach().cpu()
    if stored.is_floating_point() and stored.dtype != torch.float64:
        stored = stored.float()  # NumPy has no bfloat16
    height, width = image.shape[-2:]
    _check_not_empty(height, width)
    channels = image.shape[-3] if image.ndim > 2 else 1
    batch = stored.reshape(math.prod(image.shape[:-3]), channels, height, width)
    made = []
    for one in batch if len(batch) else batch.new_zeros(1, *batch.shape[1:]):  # for its size
        pixels = Pixels.of_channels(one.permute(1, 2, 0).numpy())
        made.append(torch.from_numpy(function(pixels).channels()).permute(2, 0, 1))
    new = torch.stack(made)[: len(batch)]
    return new.reshape(*image.shape[:-2], *new.shape[2:]).to(image.device, image.dtype)


def _check_not_empty(height: int, width: int) -> None:
    if min(height, width) < 1:
        raise ImageError(
            f"an image must have at least 1 × 1 pixels, got {width} × {height} (width × height)"
        )


def check_pixels(pixels: np.ndarray) -> None:
    """Raise unless pixels are an array (h, w, channels) with something in it."""
    if not isinstance(pixels, np.ndarray) or pixels.dtype.kind not in "uf":
        got = getattr(pixels, "dtype", type(pixels).__name__)
        raise TypeError(f"pixels must be an array of unsigned integers or floats, got {got}")
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3):
        raise ImageError(f"pixels must have shape (h, w, 1) or (h, w, 3), got {pixels.shape}")
    _check_not_empty(*pixels.shape[:2])


def _check_values(array: np.ndarray) -> None:
    """Raise unless values are integers or can be those of a noisy image in [0, 1]."""
    if array.dtype in (np.uint8, np.uint16):
        return
    if array.dtype.kind != "f":
        fits = array.dtype.kind in "iu" and array.min() >= 0 and array.max() <= 255
        hint = ": convert it to uint8" if fits else ""
        raise ImageError(
            f"an image must have uint8, uint16 or floating-point values, got {array.dtype}{hint}"
        )
    low, high = float(array.min()), float(array.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ImageError("an image must be finite, got NaN or infinity")
    dark = low < 1 - BRIGHTEST and _is_too_bright(1 - array)
    if low < -BEYOND or high > 1 + BEYOND or dark or (high > BRIGHTEST and _is_too_bright(array)):
        white = "255" if 1 + BEYOND < high <= 255 else "the value of white"
        hint = f": divide by {white}" if low >= -BEYOND else ""
        hint = ": if -1 is black, pass (image + 1) / 2" if dark and high <= BRIGHTEST else hint
        raise ImageError(
            "an image of floating-point values must have them in [0, 1], a little more where there "
            f"is noise, got {low:.4g} to {high:.4g}{hint}"
        )


def _is_too_bright(array: np.ndarray) -> bool:
    """Return whether many blocks are brighter than white, which noise alone does not make."""
    rows, columns = (side // BLOCK for side in array.shape[:2])
    if min(rows, columns) == 0:
        return False
    whole = array[: rows * BLOCK, : columns * BLOCK]
    means = whole.reshape(rows, BLOCK, columns, BLOCK, -1).mean((1, 3))
    return bool((means > BRIGHTEST).mean() > 0.25)
