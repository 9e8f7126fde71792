"""PNG and TIFF files beyond Pillow: more than 8 bits per channel, and pages one by one."""

import struct
import zlib
from collections.abc import Iterable
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
COPY_OR_MASK = 0b101  # bits of the kind of a page: it belongs to another one
TIFF_DTYPES = ("u1", "u2", "f2", "f4", "f8")
LARGEST_TIFF = 2**32 - 2**25  # bytes of pixels: offsets have 32 bits
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


def page_numbers(file: BinaryIO) -> tuple[int, ...]:
    """Return the numbers of the pages of a TIFF, without smaller copies and masks of others."""
    import tifffile

    file.seek(0)
    kinds: dict[int, int] = {}  # by place in the file
    try:
        with tifffile.TiffFile(file) as opened:
            pages: Any = opened.pages
            for page in pages:
                if page.offset in kinds:  # damaged: from here on the pages repeat for ever
                    break
                kinds[page.offset] = page.subfiletype
    except tifffile.TiffFileError:  # Pillow reads a few headers that are not quite right
        return (0,)
    listed = enumerate(kinds.values())
    return tuple(n for n, kind in listed if n == 0 or not kind & COPY_OR_MASK)


def read_tiff(file: BinaryIO, number: int = 0) -> tuple[np.ndarray, Metadata]:
    """Return a page of a TIFF, (h, w, channels), with its profile and its orientation.

    Raise before memory is allocated for an image that cannot be used.
    """
    import tifffile

    file.seek(0)
    with tifffile.TiffFile(file) as opened:
        page: Any = opened.pages[number]
        sizes = page.imagewidth, page.imagelength, page.samplesperpixel
        if not all(isinstance(size, int) for size in sizes):  # a damaged tag may hold several
            raise ImageError(f"expected {TIFF_KINDS}, got a size of {sizes}")
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


def write_tiff(
    file: BinaryIO,
    pages: Iterable[tuple[np.ndarray, Metadata]],
    num_bytes: int,
    description: str | None = None,
) -> None:
    """Write pages, (h, w, channels) each, as a TIFF, one at a time.

    Args:
        file: An open file.
        pages: The pages and their metadata, of which profile, resolution and orientation are kept.
        num_bytes: Size of all pages: those above 4 GB need a BigTIFF.
        description: That of a stack of ImageJ, which looks for its images one after the other.
    """
    import tifffile

    text = None if description is None else description.encode("latin-1", "replace")
    with tifffile.TiffWriter(file, bigtiff=num_bytes > LARGEST_TIFF) as writer:
        for channels, about in pages:
            count = channels.shape[2]
            writer.write(
                channels if count > 1 else channels[..., 0],
                photometric="rgb" if count > 2 else "minisblack",
                planarconfig="contig" if count > 1 else None,
                extrasamples=["unassalpha"] if count in (2, 4) else None,
                resolution=about.dpi or about.per_unit,
                resolutionunit="inch" if about.dpi else "none" if about.per_unit else None,
                iccprofile=about.profile,
                extratags=[(274, "H", 1, about.orientation, False)],
                description=text,
                contiguous=text is not None,
                metadata=None,
                software=False,
            )
