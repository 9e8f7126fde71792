"""Color images of more than 8 bits a channel, of which Pillow keeps 8 and writes none."""

from __future__ import annotations

import re
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np
from PIL import ExifTags, Image

from fwnet.imaging.errors import ImageError
from fwnet.imaging.metadata import EXIF_NAME, Metadata

__all__ = [
    "has_planes_beyond_pillow",
    "has_sixteen_bits",
    "is_deep_negative",
    "read_sixteen_bits",
    "read_tiff",
    "write_png",
    "write_tiff",
]

SIXTEEN_BITS = re.compile("(RGB|RGBA|LA);16[BLN]")  # Pillow's names of how bytes are unpacked

PNG_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # by the number of channels
PNG_UP = 2  # the filter that stores the difference from the row above
ROWS_AT_A_TIME = 64
TIFF_DTYPES = ("u1", "u2", "f2", "f4", "f8")
BITS, PHOTOMETRIC, PLANAR = 258, 262, 284  # tags of TIFF
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB = 0, 1, 2  # values of the second
TIFF_KINDS = "1 to 4 channels of 8 or 16 bits or floating point"
SEPARATE = 2  # of the third: one channel after the other


def has_sixteen_bits(image: Image.Image) -> bool:
    """Whether an opened file, before it is loaded, has color of which Pillow would drop bits."""
    return any(SIXTEEN_BITS.fullmatch(_raw_mode(tile.args)) for tile in _tiles(image))


def has_planes_beyond_pillow(image: Image.Image) -> bool:
    """Whether an opened file is a TIFF with one channel after the other that Pillow misreads.

    It takes the bytes of 16 bits for those of 8, and does not know gray and alpha.
    """
    tags = _tiff_tags(image)
    bits = tags.get(BITS, (1,))
    is_known = len(bits) != 2 and max(bits) <= 8
    return len(bits) > 1 and not is_known and bool(tags.get(PLANAR) == SEPARATE)


def is_deep_negative(image: Image.Image) -> bool:
    """Whether an opened file is a TIFF in which 0 is white and Pillow does not turn that round."""
    tags = _tiff_tags(image)
    return max(tags.get(BITS, (1,))) > 8 and bool(tags.get(PHOTOMETRIC) == WHITE_IS_ZERO)


def _tiff_tags(image: Image.Image) -> Any:
    return getattr(image, "tag_v2", {}) if image.format == "TIFF" else {}


def read_sixteen_bits(file: BinaryIO) -> np.ndarray:
    """All bits of a color image, (h, w, channels) in uint16.

    Pillow's decoders unpack the high byte of each value. Told that the bytes are in the other
    order they unpack the low one.
    """
    with Image.open(file) as image:
        if any(_raw_mode(tile.args) == "LA;16B" for tile in _tiles(image)):
            # The bytes of gray and alpha are as many as those of RGBA.
            _change_raw_mode(image, lambda _: "RGBA")
            pairs: np.ndarray = _loaded(image).view(">u2")
            return pairs.astype(np.uint16)
        high = _loaded(image)
    file.seek(0)
    with Image.open(file) as image:
        _change_raw_mode(image, _other_order)
        values: np.ndarray = 256 * high.astype(np.uint16) + _loaded(image)
        return values


def _loaded(image: Image.Image) -> np.ndarray:
    image.load()
    return np.array(image)


def _tiles(image: Image.Image) -> list[Any]:
    return getattr(image, "tile", [])


def _raw_mode(arguments: Any) -> str:
    first = arguments[0] if isinstance(arguments, tuple) and arguments else arguments
    return first if isinstance(first, str) else ""


def _change_raw_mode(image: Any, change: Callable[[str], str]) -> None:
    """Have a decoder unpack its bytes in another way."""
    tiles = []
    for tile in image.tile:
        mode = change(_raw_mode(tile.args))
        arguments = (mode, *tile.args[1:]) if isinstance(tile.args, tuple) else mode
        tiles.append(tile._replace(args=arguments))
    image.tile = tiles


def _other_order(raw_mode: str) -> str:
    native = "L" if sys.byteorder == "little" else "B"
    order = native if raw_mode[-1] == "N" else raw_mode[-1]
    return raw_mode[:-1] + ("B" if order == "L" else "L")


def write_png(file: BinaryIO, channels: np.ndarray, about: Metadata) -> None:
    """Write (h, w, channels) of uint16 as a PNG."""
    height, width, count = channels.shape
    header = struct.pack(">IIBBBBB", width, height, 16, PNG_COLOR_TYPES[count], 0, 0, 0)
    file.write(b"\x89PNG\r\n\x1a\n")
    _write_chunk(file, b"IHDR", header)
    if about.profile:
        _write_chunk(file, b"iCCP", b"ICC profile\0\0" + zlib.compress(about.profile))
    if about.dpi:
        across, down = (round(value / 0.0254) for value in about.dpi)
        _write_chunk(file, b"pHYs", struct.pack(">IIB", across, down, 1))
    if about.exif:
        _write_chunk(file, b"eXIf", about.exif.removeprefix(EXIF_NAME))
    packer = zlib.compressobj()
    for lines in _png_lines(channels):
        packed = packer.compress(lines)
        if packed:
            _write_chunk(file, b"IDAT", packed)
    _write_chunk(file, b"IDAT", packer.flush())
    _write_chunk(file, b"IEND", b"")


def _png_lines(channels: np.ndarray) -> Iterator[bytes]:
    """The rows as PNG has them: big-endian, each its difference from the one above."""
    above = np.zeros((1, 2 * channels[0].size), np.uint8)
    for start in range(0, len(channels), ROWS_AT_A_TIME):
        block = channels[start : start + ROWS_AT_A_TIME].astype(">u2")
        rows = block.reshape(len(block), -1).view(np.uint8)
        differences = rows - np.concatenate([above, rows[:-1]])  # of bytes, modulo 256
        above = rows[-1:]
        yield np.insert(differences, 0, PNG_UP, axis=1).tobytes()


def _write_chunk(file: BinaryIO, name: bytes, content: bytes) -> None:
    file.write(struct.pack(">I", len(content)) + name + content)
    file.write(struct.pack(">I", zlib.crc32(name + content)))


def read_tiff(file: BinaryIO) -> tuple[np.ndarray, Metadata]:
    """Read a TIFF that Pillow cannot, such as one of floating-point color: (h, w, channels)."""
    import tifffile

    with tifffile.TiffFile(file) as opened:
        page = opened.pages.first
        _check_page(page)
        try:
            array = page.asarray()
        except ValueError as error:
            if "imagecodecs" not in str(error):
                raise
            name = getattr(page.compression, "name", page.compression)
            raise ImageError(f"its compression, {name}, needs imagecodecs: install it") from error
        profile, orientation = (
            page.tags[number].value if number in page.tags else None for number in (34675, 274)
        )
        is_planar = array.ndim == 3 and page.planarconfig == SEPARATE
        is_negative = page.photometric == WHITE_IS_ZERO
    if array.ndim == 2:
        array = array[..., None]
    if is_planar:
        array = np.ascontiguousarray(np.moveaxis(array, 0, -1))
    if array.ndim != 3 or array.shape[2] > 4 or array.dtype.str[1:] not in TIFF_DTYPES:
        raise ImageError(f"expected {TIFF_KINDS}, got {array.dtype} of shape {array.shape}")
    if is_negative:
        white = np.iinfo(array.dtype).max if array.dtype.kind == "u" else 1
        array[..., 0] = white - array[..., 0]
    if array.dtype.kind == "f":
        array = array.astype(np.float32, copy=False)
    tags = Image.Exif()
    if orientation:
        tags[ExifTags.Base.Orientation] = int(orientation)
    return array, Metadata(tags.tobytes() if orientation else None, profile or None)


def _check_page(page: Any) -> None:
    """Raise before memory is taken for what would not be of use."""
    pixels = page.imagewidth * page.imagelength * page.imagedepth
    limit = 2 * (Image.MAX_IMAGE_PIXELS or pixels)
    if pixels > limit:
        raise Image.DecompressionBombError(f"{pixels} pixels, more than {limit}")
    if page.samplesperpixel > 4:
        raise ImageError(f"expected {TIFF_KINDS}, got {page.samplesperpixel} channels")
    if page.photometric not in (WHITE_IS_ZERO, BLACK_IS_ZERO, RGB):
        name = getattr(page.photometric, "name", page.photometric)
        raise ImageError(f"expected gray or RGB where there are more than 8 bits, got {name}")


def write_tiff(file: BinaryIO, channels: np.ndarray, about: Metadata) -> None:
    """Write (h, w, channels) of uint16 or float32 as a TIFF."""
    import tifffile

    count = channels.shape[2]
    tifffile.imwrite(
        file,
        channels,
        photometric="rgb" if count > 2 else "minisblack",
        planarconfig="contig",
        extrasamples=["unassalpha"] if count in (2, 4) else None,
        resolution=about.dpi,
        resolutionunit="inch" if about.dpi else None,
        iccprofile=about.profile,
        extratags=[(274, "H", 1, about.orientation, True)],
        metadata=None,
        software=False,
    )
