"""Files of images: find them, and read them as gray, RGB or luma."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fwnet.data.folders import DataError
from fwnet.data.image_sets import ImageSet

GRAY_WEIGHTS, GRAY_UNIT = (298_936_021, 587_043_075, 114_020_904), 10**9  # MATLAB's rgb2gray
GRAY_MODES = ("1", "L", "LA")  # of Pillow
LUMA_WEIGHTS, LUMA_UNIT = (65_481, 128_553, 24_966), 255_000  # MATLAB's rgb2ycbcr
SUFFIXES = {".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}


def image_files(folder: Path) -> list[Path]:
    """Return the image files in a folder and its subfolders, sorted; hidden ones are skipped.

    >>> import fwnet
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> Path("photos/summer").mkdir(parents=True)
    >>> Image.new("L", (8, 8)).save("photos/summer/sea.png")
    >>> [path.as_posix() for path in fwnet.data.image_files(Path("photos"))]
    ['photos/summer/sea.png']
    """
    if not folder.is_dir():
        raise DataError(f"expected a folder of images, got {folder}")
    files = [
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    if not files:
        raise DataError(f"expected images ({', '.join(sorted(SUFFIXES))}) in {folder}, got none")
    return sorted(files)


def read_images(files: Sequence[Path], color: bool = False) -> ImageSet:
    """Read image files as gray (default) or as RGB.

    >>> import fwnet
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> Image.new("RGB", (30, 20)).save("sea.png")
    >>> images = fwnet.data.read_images([Path("sea.png")], color=True)
    >>> len(images), images[0].shape
    (1, torch.Size([1, 3, 20, 30]))
    """
    return ImageSet.of([read_pixels(path, color) for path in files], list(map(str, files)))


def read_luma_images(files: Sequence[Path]) -> ImageSet:
    """Read image files with `read_luma`, as super-resolution sees them.

    >>> import fwnet
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> Image.new("RGB", (30, 20), "white").save("sea.png")
    >>> fwnet.data.read_luma_images([Path("sea.png")]).channels
    1
    """
    return ImageSet.of([read_luma(path) for path in files], list(map(str, files)))


def read_pixels(path: Path, color: bool | None) -> np.ndarray:
    """Read one image as uint8 of shape (height, width, channel), without alpha.

    Args:
        path: The file; more than 8 bits per channel are refused.
        color: True for RGB, False for gray, None for the channels of the file: 1 or 3.

    >>> import fwnet
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> Image.new("RGB", (30, 20)).save("sea.png")
    >>> fwnet.data.read_pixels(Path("sea.png"), color=False).shape
    (20, 30, 1)
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files that can be read nevertheless
            with Image.open(path) as image:
                mode = image.mode
                pixels = np.array(image.convert("L" if mode in GRAY_MODES else "RGB"))
    except Exception as error:  # Pillow raises exceptions of many types for damaged files
        raise DataError(f"{path} cannot be read as an image: {error}") from error
    if mode.startswith(("I", "F")):  # the conversion has clipped them at 255
        raise DataError(f"{path} has more than 8 bits per channel")
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    if color is None or color == (pixels.shape[2] == 3):
        return pixels
    return pixels.repeat(3, axis=2) if color else to_gray(pixels)


def read_luma(path: Path) -> np.ndarray:
    """Read the luma of one image as uint8 of shape (height, width, 1); of a gray file, its pixels.

    Published figures are computed this way, although gray files have values from 0 to 255 and luma
    has values from 16 to 235.

    >>> import fwnet
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> Image.new("RGB", (30, 20), "white").save("sea.png")
    >>> int(fwnet.data.read_luma(Path("sea.png")).max())
    235
    """
    pixels = read_pixels(path, None)
    return pixels if pixels.shape[2] == 1 else to_luma(pixels)


def to_gray(pixels: np.ndarray) -> np.ndarray:
    """Return the gray values of RGB as MATLAB's rgb2gray, of the same dtype: (h, w, 1).

    Integers are summed exactly, and halves are rounded up, so that every CPU gives the same values.

    >>> import fwnet, numpy as np
    >>> fwnet.data.to_gray(np.array([[[255, 0, 0]]], np.uint8)).item()
    76
    """
    return _weighted(pixels, GRAY_WEIGHTS, GRAY_UNIT)


def to_luma(pixels: np.ndarray) -> np.ndarray:
    """16 + (65.481·R + 128.553·G + 24.966·B)/255, rounded to 8 bits: (height, width, 1).

    This is Y of ITU-R BT.601, from 16 to 235, as MATLAB's rgb2ycbcr. Rounded as in `to_gray`.

    >>> import fwnet, numpy as np
    >>> fwnet.data.to_luma(np.array([[[0, 0, 0], [255, 255, 255]]], np.uint8)).ravel()
    array([ 16, 235], dtype=uint8)
    """
    return 16 + _weighted(pixels, LUMA_WEIGHTS, LUMA_UNIT)


def _weighted(pixels: np.ndarray, weights: Sequence[int], unit: int) -> np.ndarray:
    """Return Σ_c weights(c)·pixels(c) / unit, of the dtype of the pixels: (h, w, 1)."""
    if not isinstance(pixels, np.ndarray) or pixels.dtype.kind not in "uif":
        got = getattr(pixels, "dtype", type(pixels).__name__)
        raise TypeError(f"pixels must be an array of real numbers, got {got}")
    if pixels.ndim < 1 or pixels.shape[-1] != 3:
        raise ValueError(f"pixels must have shape (..., 3), got {pixels.shape}")
    is_float = pixels.dtype.kind == "f"
    wide = np.float64 if is_float else np.int64
    total: Any = np.zeros(pixels.shape[:-1], wide)  # in place: images may be large
    for channel, weight in enumerate(weights):
        total += np.multiply(pixels[..., channel], weight, dtype=wide)
    if is_float:
        total /= unit
    else:
        total += unit // 2
        total //= unit
    found: np.ndarray = total.astype(pixels.dtype)[..., None]
    return found
