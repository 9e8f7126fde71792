"""PNG and TIFF files with more than 8 bits per channel, which Pillow would reduce to 8."""

import struct
import zlib
from typing import Any, BinaryIO

import numpy as np
from PIL import ExifTags, Image

from fwnet.imaging.metadata import EXIF_NAME, Metadata
from fwnet.imaging.pixels import ImageError, white_level

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
PNG_DEPTH = 24  # position of the byte that holds the bits per channel
PNG_HEADER_END = 33  # the chunks of metadata follow here

BITS, PHOTOMETRIC, PLANAR, EXTRA, FORMAT = 258, 262, 284, 338, 339  # tags of TIFF
WHITE_IS_ZERO = 0  # value of PHOTOMETRIC
PLAIN_COLORS = (WHITE_IS_ZERO, 1, 2)  # … with black is zero and RGB
SEPARATE = 2  # value of PLANAR: each channel is stored on its own
UNASSOCIATED = 2  # value of EXTRA: colors are not multiplied by alpha
UNSIGNED, FLOAT = 1, 3  # values of FORMAT
TIFF_DTYPES = ("u1", "u2", "f2", "f4", "f8")
TIFF_KINDS = "1 to 4 channels, gray or RGB, of 8 or 16 bits or floating point"


def is_deep_png(file: BinaryIO) -> bool:
    """Return whether a file is a PNG with 16 bits per channel; leave it at its start."""
    header = file.read(PNG_DEPTH + 1)
    file.seek(0)
    return header.startswith(PNG_SIGNATURE) and header[PNG_DEPTH:] == b"\x10"


def is_deep_tiff(image: Image.Image) -> bool:
    """Return whether an opened file is a TIFF whose pixels Pillow would change.

    Pillow keeps 8 of 16 bits of colors, does not invert deep images in which 0 is white, and
    misreads separate channels of 16 bits or of gray with alpha.
    """
    if image.format != "TIFF":
        return False
    tags: Any = getattr(image, "tag_v2", {})
    bits, kinds = tags.get(BITS, (1,)), set(tags.get(FORMAT, (UNSIGNED,)))
    if len(bits) > 1 and tags.get(PLANAR) == SEPARATE:
        return len(bits) == 2 or max(bits) > 8
    is_deep = kinds == {FLOAT} or (kinds == {UNSIGNED} and set(bits) == {16})
    is_plain = set(tags.get(EXTRA, (UNASSOCIATED,))) == {UNASSOCIATED}
    return is_deep and is_plain and tags.get(PHOTOMETRIC) in PLAIN_COLORS


def read_png(file: BinaryIO) -> np.ndarray:
    """Return the pixels of a PNG with all bits: (h, w, channels)."""
    import imagecodecs

    array: np.ndarray = imagecodecs.png_decode(file.read())
    return array if array.ndim == 3 else array[..., None]


def write_png(file: BinaryIO, channels: np.ndarray, about: Metadata) -> None:
    """Write (h, w, channels) of uint16 as a PNG."""
    import imagecodecs

    encoded = imagecodecs.png_encode(channels)
    file.write(encoded[:PNG_HEADER_END])
    if about.profile:
        _write_chunk(file, b"iCCP", b"ICC profile\0\0" + zlib.compress(about.profile))
    if about.dpi:
        across, down = (round(value / 0.0254) for value in about.dpi)
        _write_chunk(file, b"pHYs", struct.pack(">IIB", across, down, 1))
    if about.exif:
        _write_chunk(file, b"eXIf", about.exif.removeprefix(EXIF_NAME))
    file.write(encoded[PNG_HEADER_END:])


def _write_chunk(file: BinaryIO, name: bytes, content: bytes) -> None:
    file.write(struct.pack(">I", len(content)) + name + content)
    file.write(struct.pack(">I", zlib.crc32(name + content)))


def read_tiff(file: BinaryIO) -> tuple[np.ndarray, Metadata]:
    """Return the pixels of a TIFF, (h, w, channels), with its profile and its orientation.

    Raise before memory is allocated for an image that cannot be used.
    """
    import tifffile

    with tifffile.TiffFile(file) as opened:
        page = opened.pages.first
        pixels, limit = page.imagewidth * page.imagelength, 2 * (Image.MAX_IMAGE_PIXELS or np.inf)
        if pixels > limit:
            raise Image.DecompressionBombError(f"{pixels} pixels, more than {limit}")
        if page.photometric not in PLAIN_COLORS or page.samplesperpixel > 4:
            name = getattr(page.photometric, "name", page.photometric)
            got = f"{page.samplesperpixel} channels of kind {name}"
            raise ImageError(f"expected {TIFF_KINDS}, got {got}")
        array = page.asarray()
        profile, orientation = (
            page.tags[number].value if number in page.tags else None for number in (34675, 274)
        )
    if array.ndim == 2:
        array = array[..., None]
    elif array.ndim == 3 and page.planarconfig == SEPARATE:
        array = np.ascontiguousarray(np.moveaxis(array, 0, -1))
    if array.ndim != 3 or array.shape[2] > 4 or array.dtype.str[1:] not in TIFF_DTYPES:
        raise ImageError(f"expected {TIFF_KINDS}, got {array.dtype} of shape {array.shape}")
    if page.photometric == WHITE_IS_ZERO:
        white = white_level(array.dtype)
        array[..., 0] = white - array[..., 0]
    if array.dtype.kind == "f":
        array = array.astype(np.float32, copy=False)
    tags = Image.Exif()
    if orientation:
        tags[ExifTags.Base.Orientation] = int(orientation)
    return array, Metadata(tags.tobytes() if orientation else None, profile or None)


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
