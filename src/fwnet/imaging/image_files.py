"""Read and write image files with their metadata: profile, EXIF, resolution."""

import re
import stat
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

from fwnet import files
from fwnet.data import to_gray
from fwnet.imaging.formats import (
    FORMATS,
    RAW_PROBLEM,
    TIFF,
    check_suffix,
    is_raw_suffix,
    is_tiff_suffix,
)
from fwnet.imaging.metadata import Metadata, read_metadata
from fwnet.imaging.pixels import (
    ImageError,
    Pixels,
    jpeg_step,
    white_level,
    with_bits,
    without_inks,
)
from fwnet.imaging.sixteen_bits import (
    is_deep_png,
    is_deep_tiff,
    page_numbers,
    read_png,
    read_tiff,
    write_png,
    write_tiff,
)
from fwnet.stores import StoredFile

HEIF_BRANDS = (b"hei", b"hev", b"mif1", b"msf1")


@dataclass(frozen=True)
class ImageFile:
    """The content of an image file.

    Attributes:
        pixels: The image as it is stored, not turned by its EXIF orientation; Pillow turns 8-bit
            TIFF files.
        about: Its metadata.
        notes: What was ignored, in words.
        pages: The numbers of all pages of a TIFF.
        description: ImageJ's description of all pages.
    """

    pixels: Pixels
    about: Metadata
    notes: tuple[str, ...] = ()
    pages: tuple[int, ...] = (0,)
    description: str | None = None


def read_image(path: Path, page: int = 0) -> ImageFile:
    """Read the first image of a file, or a page of a TIFF.

    Formats are those of Pillow and tifffile, and HEIC with the package pillow-heif.

    All bits of 16-bit images are kept. Palettes become RGB or, with transparent colors, RGBA. CMYK
    becomes RGB, by its profile if it has one.

    Raises `ImageError` with the name of the file if anything is wrong with it.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ImageError(f"{path} is not a file")
        if status.st_size == 0:
            raise ImageError(f"{path} is empty")
        if is_raw_suffix(path):
            raise ImageError(RAW_PROBLEM)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about large images and damaged EXIF
            return _read(path, page)
    except ImageError as error:
        named = str(error).startswith(str(path))
        raise error if named else ImageError(f"{path}: {error}") from error
    except Exception as error:  # a decoder can raise almost anything for a damaged file
        raise ImageError(f"{path} {_what_is_wrong(error)}") from error


def _read(path: Path, page: int) -> ImageFile:
    # Given an open file, Pillow does not map it into memory: Pillow 13 exchanges width and height
    # when it maps a TIFF that is to be turned.
    with path.open("rb") as file:
        is_deep = is_deep_png(file)
        try:
            image = _opened(file)
        except UnidentifiedImageError:
            if not is_tiff_suffix(path):
                raise
            array, about = read_tiff(file, page)
            return ImageFile(Pixels.of_channels(array), about, pages=page_numbers(file))
        with image:
            more = () if page else _more(image, file)
            if page:
                image.seek(page)
            if is_deep_tiff(image):
                about = read_metadata(image)
                array, _ = read_tiff(file, page)
                return ImageFile(Pixels.of_channels(array), about, *more)
            image.load()  # the metadata of a PNG may follow its pixels
            about = read_metadata(image)
            if is_deep:
                file.seek(0)
                return ImageFile(Pixels.of_channels(read_png(file)), about, *more)
            step = jpeg_step(image)
            image, about = without_inks(image, about)
            return ImageFile(replace(Pixels.of_pillow(image), jpeg_step=step), about, *more)


def _opened(file: BinaryIO) -> Image.Image:
    """Open an image with Pillow, or with its plugin for HEIC."""
    try:
        return Image.open(file)
    except UnidentifiedImageError:
        file.seek(4)
        if file.read(4) != b"ftyp" or not file.read(4).startswith(HEIF_BRANDS):
            raise
    try:
        from pillow_heif import register_heif_opener
    except ImportError as error:
        raise ImageError("HEIC needs pillow-heif: pip install '.[heif]' in the clone") from error
    register_heif_opener()
    file.seek(0)
    return Image.open(file)


def _more(
    image: Image.Image, file: BinaryIO
) -> tuple[tuple[str, ...], tuple[int, ...], str | None]:
    """Return notes, the pages of a TIFF, and ImageJ's description if it counts them right."""
    if image.format != "TIFF":
        bits = image.info.get("bit_depth", 8)  # of HEIC
        notes = [] if bits == 8 else [f"8 of {bits} bits per channel are used"]
        frames = getattr(image, "n_frames", 1)
        if frames > 1 and image.format != "MPO":  # the other images of an MPO file are previews
            notes.append(only_first(frames))
        return tuple(notes), (0,), None
    pages = page_numbers(file)  # Pillow does not count pages of kinds that it cannot read
    text = getattr(image, "tag_v2", {}).get(ExifTags.Base.ImageDescription)
    if not isinstance(text, str) or not text.startswith("ImageJ="):
        return (), pages, None
    counted = re.search(r"^images=(\d+)", text, re.MULTILINE)
    count = int(counted[1]) if counted else 1
    one_directory = len(pages) == 1 < count  # the form of more than 4 GB
    notes = [only_first(count)] if one_directory else []
    return tuple(notes), pages, text if count == len(pages) else None


def only_first(count: int) -> str:
    """Return the sentence about a file of which one image is used."""
    return f"only the first of {count} images is used"


def _what_is_wrong(error: Exception) -> str:
    """Return the end of a sentence that starts with the name of the file."""
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return "does not exist"
        case UnidentifiedImageError():
            return "is not an image that can be read"
        case Image.DecompressionBombError():
            pixels = int(re.findall(r"\d+", str(error))[0])
            limit = 2 * (Image.MAX_IMAGE_PIXELS or 0)
            return (
                f"claims to have {pixels / 1e6:,.0f} megapixels: no more than {limit / 1e6:,.0f} "
                "are read"
            )
        case MemoryError():
            return "is too large for the memory of this machine"
        case OSError() if error.strerror:
            return f"cannot be read: {error.strerror}"
        case _:
            return f"is damaged: {one_line(error)}"


def write_image(path: Path, pixels: Pixels, about: Metadata, *, replace: bool = True) -> list[str]:
    """Write an image whole or not at all; return sentences about what the format cannot hold.

    JPEG and WebP have quality 95, JPEG without chroma subsampling. If a format has no EXIF, the
    image is turned as its orientation says.
    """
    check_suffix(path)
    kind = FORMATS[path.suffix.lower()]
    notes = []
    if pixels.alpha is not None and not kind.alpha:
        if pixels.alpha.min() < white_level(pixels.alpha.dtype):
            notes.append(f"{kind.name} holds no transparency, which is left out")
        pixels = Pixels(pixels.colors)
    if pixels.colors.shape[2] > 1 and not kind.color:
        notes.append(f"{path.suffix} holds no color, which is left out")
        pixels = Pixels(to_gray(pixels.colors), pixels.alpha)
    if about.exif is not None and kind.exif_bytes and len(about.exif) > kind.exif_bytes:
        notes.append(
            f"{kind.name} holds {kind.exif_bytes:,} bytes of EXIF, and this image has "
            f"{len(about.exif):,}, which are left out"
        )
        about = about.with_orientation_only()
    bits = 32 if pixels.colors.dtype.kind == "f" else 8 * pixels.colors.dtype.itemsize
    one_channel = pixels.colors.shape[2] == 1 and pixels.alpha is None
    most = kind.gray_bits if one_channel else kind.color_bits
    if bits > most:
        notes.append(f"{kind.name} holds {most} bits per channel, and this image has {bits}")
        alpha = None if pixels.alpha is None else with_bits(pixels.alpha, most)
        pixels = Pixels(with_bits(pixels.colors, most), alpha)

    def save(file: BinaryIO) -> None:
        channels = pixels.channels()
        if channels.shape[2] > 1 and channels.dtype != np.uint8:
            if kind.name == "PNG":
                write_png(file, channels, about)
            else:
                write_tiff(file, [(channels, about)], channels.nbytes)
            return
        options = {"icc_profile": about.profile, "dpi": about.dpi, **kind.options}
        if kind.exif:
            options["exif"] = (about.without_storage() if kind is TIFF else about).exif
        image = pixels.pillow() if kind.exif else about.turned(pixels.pillow())
        given = {name: value for name, value in options.items() if value is not None}
        image.save(file, format=kind.name, **given)

    write_whole(path, save, replace=replace)
    return notes


def write_pages(
    path: Path,
    pages: Iterable[tuple[Pixels, Metadata]],
    num_bytes: int,
    description: str | None,
    *,
    replace: bool = True,
) -> None:
    """Write a TIFF with these pages, one at a time, whole or not at all; see `write_tiff`."""
    channels = ((pixels.channels(), about) for pixels, about in pages)
    write_whole(
        path, lambda file: write_tiff(file, channels, num_bytes, description), replace=replace
    )


def existing(path: Path | StoredFile) -> ImageError:
    """Return the error of a file that would be overwritten."""
    return ImageError(f"{path} exists; overwrite it with --force")


def write_whole(path: Path, save: Callable[[BinaryIO], object], *, replace: bool) -> None:
    """Write a file whole or not at all; raise `ImageError` if it cannot be written."""
    try:
        files.write_whole(path, save, replace=replace)
    except ImageError:  # of a page that is made while the file is written
        raise
    except FileExistsError as error:  # since the check before the work
        raise existing(path) from error
    except Exception as error:  # from the disk or from an encoder
        words = getattr(error, "strerror", None) or one_line(error)
        raise ImageError(f"cannot write {path}: {words}") from error


def one_line(error: Exception) -> str:
    """Return the message of an error without line breaks."""
    return " ".join(str(error).split()) or type(error).__name__
