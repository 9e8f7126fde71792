"""The formats of image files, by their suffix: what can be read, written, and held by each."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from fwnet.imaging.pixels import ImageError


@dataclass(frozen=True)
class Format:
    """A format that images are written in.

    Attributes:
        name: Pillow's name of the format.
        alpha: Whether it holds alpha.
        color: Whether it holds color.
        exif: Whether it holds EXIF, and so the orientation.
        exif_bytes: The largest EXIF block, including its name.
        side: The largest width and height in pixels.
        gray_bits: The most bits per channel of a gray image; 32 stands for floating point.
        color_bits: The same for color and alpha.
        options: Other options of Pillow.
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


JPEG_OPTIONS = {"quality": 95, "subsampling": 0}  # 0: 4:4:4
JPEG = Format("JPEG", exif=True, exif_bytes=65533, side=65500, options=JPEG_OPTIONS)
TIFF = Format("TIFF", alpha=True, exif=True, gray_bits=32, color_bits=32)
PPM = Format("PPM", gray_bits=16)
FORMATS = {
    ".png": Format("PNG", alpha=True, exif=True, gray_bits=16, color_bits=16),
    ".jpg": JPEG,
    ".jpeg": JPEG,
    ".tif": TIFF,
    ".tiff": TIFF,
    ".webp": Format("WEBP", alpha=True, exif=True, side=16383, options={"quality": 95}),
    ".bmp": Format("BMP"),
    ".pgm": Format("PPM", color=False, gray_bits=16),
    ".ppm": PPM,
    ".pnm": PPM,
}

# Formats that Pillow recognizes, but reads only with other programs or not at all.
NOT_IMAGES = ("BUFR", "EPS", "GRIB", "HDF5", "MPEG", "WMF")

# Pillow would find the preview in some of these.
RAW_SUFFIXES = (
    ".3fr", ".arw", ".cr2", ".cr3", ".crw", ".dng", ".erf", ".iiq", ".kdc", ".mef", ".mos", ".mrw",
    ".nef", ".nrw", ".orf", ".pef", ".raf", ".raw", ".rw2", ".rwl", ".sr2", ".srf", ".srw", ".x3f",
)  # fmt: skip
RAW_PROBLEM = "camera raw files are not supported: export as TIFF or JPEG first"

HEIF_SUFFIXES = (".heic", ".heics", ".heif", ".heifs", ".hif")


def is_readable_suffix(path: Path) -> bool:
    """Return whether a suffix belongs to a format that images are read from."""
    kind = Image.registered_extensions().get(path.suffix.lower())
    is_known = kind in Image.OPEN and kind not in NOT_IMAGES
    return is_known or path.suffix.lower() in HEIF_SUFFIXES  # which may lack their plugin


def is_raw_suffix(path: Path) -> bool:
    """Return whether a suffix belongs to the raw files of a camera."""
    return path.suffix.lower() in RAW_SUFFIXES


def is_tiff_suffix(path: Path) -> bool:
    """Return whether a suffix is that of TIFF, which has pages."""
    return FORMATS.get(path.suffix.lower()) is TIFF


def is_writable_suffix(path: Path) -> bool:
    """Return whether a suffix belongs to a format that images are written in."""
    return path.suffix.lower() in FORMATS


def check_suffix(path: Path) -> None:
    """Raise unless the suffix belongs to a format that images are written in."""
    if not is_writable_suffix(path):
        raise ImageError(
            f"expected a name that ends in {', '.join(FORMATS)}, got {path}; "
            f"a folder of that name is {path}/"
        )


def check_size(path: Path, width: int, height: int) -> None:
    """Raise if the format cannot hold an image of this size."""
    kind = FORMATS[path.suffix.lower()]
    if kind.side and max(width, height) > kind.side:
        raise ImageError(
            f"cannot write {path}: {kind.name} holds up to {kind.side:,} pixels per side, and the "
            f"image would have {width:,} × {height:,}"
        )
