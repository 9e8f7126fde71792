"""Image files, read and written with what belongs to the image: profile, EXIF, resolution."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from PIL import Image, UnidentifiedImageError

from fwnet.imaging.errors import ImageError
from fwnet.imaging.metadata import Metadata, read_metadata, without_inks
from fwnet.imaging.pixels import Pixels, as_unit_range, with_bits
from fwnet.imaging.sixteen_bits import (
    has_planes_beyond_pillow,
    has_sixteen_bits,
    is_deep_negative,
    read_sixteen_bits,
    read_tiff,
    write_png,
    write_tiff,
)

__all__ = [
    "ImageFile",
    "check_size",
    "check_suffix",
    "is_readable_suffix",
    "is_writable_suffix",
    "read_image",
    "write_image",
    "write_whole",
]


@dataclass(frozen=True)
class Format:
    """A format that images are written in.

    Attributes:
        name: What Pillow calls it.
        alpha: Whether it can hold alpha.
        color: Whether it can hold color.
        exif: Whether it can hold EXIF, and so the orientation.
        exif_bytes: How much of it, with its name.
        side: How many pixels the longer side can have.
        gray_bits: How many bits a channel of a gray image can have; 32 for floating point.
        color_bits: The same for color.
        options: What else Pillow is told.
    """

    name: str
    alpha: bool = False
    color: bool = True
    exif: bool = False
    exif_bytes: int | None = None
    side: int | None = None
    gray_bits: int = 8
    color_bits: int = 8
    options: dict[str, Any] = field(default_factory=dict)


JPEG = Format(
    "JPEG",
    exif=True,
    exif_bytes=65533,
    side=65500,
    options={"quality": 95, "subsampling": 0},  # 0: 4:4:4
)
TIFF = Format("TIFF", alpha=True, exif=True, gray_bits=32, color_bits=32)
PPM = Format("PPM", gray_bits=16)
PGM = Format("PPM", color=False, gray_bits=16)
FORMATS = {
    ".png": Format("PNG", alpha=True, exif=True, gray_bits=16, color_bits=16),
    ".jpg": JPEG,
    ".jpeg": JPEG,
    ".tif": TIFF,
    ".tiff": TIFF,
    ".webp": Format("WEBP", alpha=True, exif=True, side=16383, options={"quality": 95}),
    ".bmp": Format("BMP"),
    ".pgm": PGM,
    ".ppm": PPM,
    ".pnm": PPM,
}


LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)  # of red, green and blue

# What Pillow recognizes and needs other programs for, or cannot read at all.
NOT_IMAGES = ("BUFR", "EPS", "GRIB", "HDF5", "MPEG", "WMF")


@dataclass(frozen=True)
class ImageFile:
    """What was read.

    Attributes:
        pixels: The image, as it is stored: EXIF may ask to turn it.
        about: What the file says of it.
        notes: What of the file is not in here, in words.
    """

    pixels: Pixels
    about: Metadata
    notes: tuple[str, ...] = ()


def is_readable_suffix(path: Path) -> bool:
    """Whether a file of a folder is to be taken for an image."""
    kind = Image.registered_extensions().get(path.suffix.lower())
    return kind in Image.OPEN and kind not in NOT_IMAGES


def is_writable_suffix(path: Path) -> bool:
    """Whether the end of a name stands for a format that images are written in."""
    return path.suffix.lower() in FORMATS


def check_suffix(path: Path) -> None:
    """Raise unless the end of a name says how to write it."""
    if not is_writable_suffix(path):
        raise ImageError(f"expected a name that ends in {', '.join(FORMATS)}, got {path}")


def check_size(path: Path, width: int, height: int) -> None:
    """Raise if the format cannot hold an image of this size: better before the work than after."""
    kind = FORMATS[path.suffix.lower()]
    if max(width, height) > (kind.side or max(width, height)):
        raise ImageError(
            f"cannot write {path}: {kind.name} holds up to {kind.side:,} pixels a side, and the "
            f"image would have {width:,} × {height:,}"
        )


def read_image(path: Path) -> ImageFile:
    """Read the first image of a file, of any kind that Pillow reads.

    Color that Pillow would read with 8 of 16 bits is read with all of them. Palettes become RGB or,
    with transparent colors, RGBA; CMYK becomes RGB, by its profile where it has one.

    Raises `ImageError` that names the file, for whatever is wrong with it.
    """
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ImageError(f"{path} does not exist") from error
    except OSError as error:
        raise ImageError(f"{path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise ImageError(f"{path} is not a file")
    if status.st_size == 0:
        raise ImageError(f"{path} is empty")
    try:
        with warnings.catch_warnings():
            # Of sizes above half of the limit, and of damaged EXIF, which is not for us to mend.
            warnings.simplefilter("ignore")
            return _read(path)
    except ImageError as error:
        named = str(error).startswith(str(path))
        raise error if named else ImageError(f"{path}: {error}") from error
    except Image.DecompressionBombError as error:
        raise ImageError(f"{path} {_too_large(error)}") from error
    except UnidentifiedImageError as error:
        raise ImageError(f"{path} is not an image that can be read") from error
    except PermissionError as error:
        raise ImageError(f"{path} cannot be read: {error.strerror}") from error
    except MemoryError as error:
        raise ImageError(f"{path} is too large for the memory of this machine") from error
    except Exception as error:  # a damaged file can raise almost anything in a decoder
        raise ImageError(f"{path} is damaged: {_one_line(error)}") from error


def _read(path: Path) -> ImageFile:
    # A file that is opened here is not mapped into memory: Pillow 13 maps a TIFF that is to be
    # turned with width and height exchanged.
    with path.open("rb") as file:
        try:
            image: Image.Image = Image.open(file)
        except UnidentifiedImageError:
            if path.suffix.lower() not in (".tif", ".tiff"):
                raise
            file.seek(0)
            array, about = read_tiff(file)
            return ImageFile(Pixels.of_channels(array), about)
        with image:
            notes = _notes(image)
            if has_planes_beyond_pillow(image):
                dpi = read_metadata(image).dpi
                file.seek(0)
                array, about = read_tiff(file)
                return ImageFile(Pixels.of_channels(array), replace(about, dpi=dpi), notes)
            deep, negative = has_sixteen_bits(image), is_deep_negative(image)
            image.load()
            about = read_metadata(image)
            key = image.info.get("transparency")
            if deep:
                file.seek(0)
                pixels = Pixels.of_channels(read_sixteen_bits(file))
            else:
                image, about = without_inks(image, about)
                pixels = Pixels.of_pillow(image)
        if negative:
            white = 1 if pixels.colors.dtype.kind == "f" else _white(pixels.colors)
            pixels = Pixels(white - pixels.colors, pixels.alpha)
        if pixels.colors.dtype == np.uint16 and pixels.alpha is None and key is not None:
            pixels = _with_color_key(pixels, key)
        return ImageFile(pixels, about, notes)


def _notes(image: Image.Image) -> tuple[str, ...]:
    frames = getattr(image, "n_frames", 1)
    if frames == 1 or image.format == "MPO":  # whose other images are previews
        return ()
    return (f"only the first of {frames} images is used",)


def _with_color_key(pixels: Pixels, key: int | tuple[int, ...]) -> Pixels:
    """Make the one color that a PNG of 16 bits calls transparent so, which Pillow does not do."""
    opaque = (pixels.colors != np.array(key, np.uint16)).any(2)
    return Pixels(pixels.colors, np.where(opaque, 65535, 0).astype(np.uint16))


def write_image(path: Path, pixels: Pixels, about: Metadata) -> list[str]:
    """Write an image, whole or not at all; return what the format could not hold, in words.

    JPEG and WebP have quality 95, JPEG without subsampling of colors. Where a format knows no EXIF,
    the image is turned as its orientation says.
    """
    check_suffix(path)
    kind = FORMATS[path.suffix.lower()]
    notes = []
    if pixels.alpha is not None and not kind.alpha:
        if pixels.alpha.min() < (1 if pixels.alpha.dtype.kind == "f" else _white(pixels.alpha)):
            notes.append(f"{kind.name} holds no transparency, which is left out")
        pixels = Pixels(pixels.colors)
    if pixels.colors.shape[2] > 1 and not kind.color:
        notes.append(f"{path.suffix} holds no color, which is left out")
        pixels = _in_gray(pixels)
    if about.exif is not None and len(about.exif) > (kind.exif_bytes or len(about.exif)):
        notes.append(
            f"{kind.name} holds {kind.exif_bytes:,} bytes of EXIF, and this image has "
            f"{len(about.exif):,}, which are left out"
        )
        about = about.with_little_exif()
    bits = 32 if pixels.colors.dtype.kind == "f" else 8 * pixels.colors.dtype.itemsize
    one_channel = pixels.colors.shape[2] == 1 and pixels.alpha is None
    most = kind.gray_bits if one_channel else kind.color_bits
    if bits > most:
        notes.append(f"{kind.name} holds {most} bits a channel, and this image has {bits}")
        pixels = _with_bits(pixels, most)
    channels = pixels.channels()
    beyond_pillow = channels.shape[2] > 1 and channels.dtype != np.uint8

    def save(file: BinaryIO) -> None:
        if beyond_pillow:
            (write_png if kind.name == "PNG" else write_tiff)(file, channels, about)
            return
        image = pixels.pillow()
        options: dict[str, Any] = {"icc_profile": about.profile, "dpi": about.dpi, **kind.options}
        if kind.exif:
            options["exif"] = about.exif
        else:
            image = about.turned(image)
        given = {name: value for name, value in options.items() if value is not None}
        image.save(file, format=kind.name, **given)

    write_whole(path, save)
    return notes


def _white(values: np.ndarray) -> int:
    return int(np.iinfo(values.dtype).max)


def _in_gray(pixels: Pixels) -> Pixels:
    dtype = pixels.colors.dtype
    gray = as_unit_range(pixels.colors) @ LUMINANCE[:, None]
    if dtype.kind == "u":
        gray = np.rint(gray * np.iinfo(dtype).max).clip(0, np.iinfo(dtype).max)
    return Pixels(gray.astype(dtype), pixels.alpha)


def _with_bits(pixels: Pixels, bits: int) -> Pixels:
    alpha = None if pixels.alpha is None else with_bits(pixels.alpha, bits)
    return Pixels(with_bits(pixels.colors, bits), alpha)


def write_whole(path: Path, save: Callable[[BinaryIO], None]) -> None:
    """Write a file through a temporary one, so that a kill leaves the old file or the new one."""
    # Not longer than the name itself may be.
    temporary = path.with_name(f".{path.name[:40]}-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb+") as file:
            save(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except Exception as error:  # of a disk, or of an encoder: too wide for WebP, say
        words = getattr(error, "strerror", None) or _one_line(error)
        raise ImageError(f"cannot write {path}: {words}") from error
    finally:
        with contextlib.suppress(OSError):  # of a folder that is gone, say
            temporary.unlink(missing_ok=True)


def _too_large(error: Exception) -> str:
    counts = [int(digits) for digits in re.findall(r"\d+", str(error))]
    pixels = f"{counts[0] / 1e6:,.0f} megapixels" if counts else "too many pixels"
    limit = 2 * (Image.MAX_IMAGE_PIXELS or 0)
    return f"claims to have {pixels}: no more than {limit / 1e6:,.0f} are read"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
