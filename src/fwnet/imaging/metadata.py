"""The metadata of images: EXIF, color profile and resolution, kept or edited in place."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from PIL import ExifTags, Image, ImageOps

EXIF_NAME = b"Exif\0\0"

WIDTHS, HEIGHTS = (0x0100, 0xA002), (0x0101, 0xA003)
# Resolution, resolution in the focal plane, position of the subject: all are measured in pixels.
COUNTED = (0x011A, 0x011B, 0xA20E, 0xA20F, 0x9214, 0xA214)
SHORT, LONG, RATIONAL = 3, 4, 5
KINDS = {SHORT: "H", LONG: "I", RATIONAL: "II"}

ORIENTATION = ExifTags.Base.Orientation
# The tags of a TIFF file that describe the picture, not the way it is stored.
KEPT_NAMES = ("ImageDescription", "Make", "Model", "Orientation", "DateTime", "Artist", "Copyright")
KEPT_TAGS = [ExifTags.Base[name] for name in KEPT_NAMES]
# Descriptions for programs: they count images and pixels, which change.
COUNTING = ("ImageJ=", '{"shape"', "<?xml", "<OME")
# The tags that say how the pixels of a TIFF are stored: sizes, bits, compression, strips, tiles.
STORAGE_TAGS = {*range(254, 267), 273, *range(277, 280), 284, *range(288, 294), 297, 301, 317}
STORAGE_TAGS |= {*range(320, 326), 330, *range(332, 343), 347, *range(512, 534), 34675}
KEPT_BLOCKS = (ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo)


@dataclass(frozen=True)
class Metadata:
    """The metadata of an image.

    Attributes:
        exif: The EXIF block, starting with its name.
        profile: The ICC color profile.
        dpi: Pixels per inch, across and down.
        per_unit: In a TIFF without dpi, pixels per unit of length that a program knows (ImageJ).
    """

    exif: bytes | None = None
    profile: bytes | None = None
    dpi: tuple[float, float] | None = None
    per_unit: tuple[float, float] | None = None

    @property
    def orientation(self) -> int:
        """How a viewer turns the image, as in EXIF: from 1 (not at all) to 8."""
        tags = Image.Exif()
        try:
            tags.load(self.exif or b"")
            value = tags.get(ORIENTATION, 1)
        except Exception:  # a damaged block can raise anything
            return 1
        return value if value in range(1, 9) else 1

    def with_orientation_only(self) -> Self:
        """Return the same with no EXIF tag but the orientation."""
        tags = Image.Exif()
        tags[ORIENTATION] = self.orientation
        return replace(self, exif=tags.tobytes())

    def without_storage(self) -> Self:
        """Return the same without tags that would replace those of a TIFF that it is written to."""
        tags = Image.Exif()
        try:
            tags.load(self.exif or b"")
            found = STORAGE_TAGS.intersection(tags)
            for tag in found:
                del tags[tag]
            return replace(self, exif=tags.tobytes()) if found else self
        except Exception:  # a damaged block can raise anything
            return self.with_orientation_only()

    def enlarged(self, width: int, height: int, scale: int) -> Self:
        """Return the metadata of the image enlarged to width × height, at the same size in print.

        EXIF has the new size, and the resolution is multiplied by `scale`.
        """
        exif = None if self.exif is None else with_size(self.exif, width, height, scale)
        dpi, per_unit = (
            None if pair is None else (scale * pair[0], scale * pair[1])
            for pair in (self.dpi, self.per_unit)
        )
        return replace(self, exif=exif, dpi=dpi, per_unit=per_unit)

    def turned(self, image: Image.Image) -> Image.Image:
        """Return the image as a viewer shows it."""
        if self.orientation == 1:
            return image
        upright = image.copy()
        upright.getexif()[ORIENTATION] = self.orientation
        ImageOps.exif_transpose(upright, in_place=True)
        return upright


def read_metadata(image: Image.Image) -> Metadata:
    """Return the metadata of a file.

    Pillow turns a TIFF when it loads it, so then there is no orientation.
    """
    dpi, per_unit = (_pair(image, name) for name in ("dpi", "resolution"))
    if dpi == (1.0, 1.0):  # what Pillow says of a TIFF without a resolution
        dpi = per_unit = None
    profile = image.info.get("icc_profile") or None
    return Metadata(_exif(image), profile, dpi, per_unit)


def _exif(image: Image.Image) -> bytes | None:
    block = image.info.get("exif")
    if isinstance(block, bytes):  # WebP stores it without the name that JPEG needs
        return EXIF_NAME + block.removeprefix(EXIF_NAME)
    if image.format != "TIFF":
        return None
    found, kept = image.getexif(), Image.Exif()
    kept.update({tag: found[tag] for tag in KEPT_TAGS if tag in found})
    if str(kept.get(ExifTags.Base.ImageDescription, "")).startswith(COUNTING):
        del kept[ExifTags.Base.ImageDescription]
    blocks = {tag: found.get_ifd(tag) for tag in KEPT_BLOCKS}
    for tag, values in blocks.items():
        if values:
            kept.get_ifd(tag).update(values)
    return kept.tobytes() if len(kept) or any(blocks.values()) else None


def _pair(image: Image.Image, name: str) -> tuple[float, float] | None:
    try:
        across, down = (float(value) for value in image.info[name])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    return (across, down) if 0 < across < 1e6 and 0 < down < 1e6 else None


def with_size(block: bytes, width: int, height: int, scale: int) -> bytes:
    """Return an EXIF block for the same image at `scale` times its size, now width × height.

    The block is edited in place: camera makers' notes hold offsets of their own, which Pillow would
    not adjust. Previews stay, because they show the same picture, and so do unreadable tags. The
    block may start with its name or without it.
    """
    name = EXIF_NAME if block.startswith(EXIF_NAME) else b""
    data = bytearray(block.removeprefix(name))
    try:
        order = {b"II": "<", b"MM": ">"}[bytes(data[:2])]
        for place, tag, kind, count in list(_tags(data, order)):
            if tag in WIDTHS + HEIGHTS and kind in (SHORT, LONG) and count == 1:
                size = width if tag in WIDTHS else height
                struct.pack_into(f"{order}HII", data, place + 2, LONG, 1, size)
            elif tag in COUNTED and kind in KINDS and 1 <= count <= 4:
                _multiply(data, order, place + 8, kind, count, scale)
    except (KeyError, struct.error):
        return block
    return name + bytes(data)


def _tags(data: bytearray, order: str) -> Iterator[tuple[int, int, int, int]]:
    """Yield place, tag, type and count of the tags of the image, without those of a preview."""
    starts = list(struct.unpack_from(f"{order}I", data, 4))
    for start in starts:
        (length,) = struct.unpack_from(f"{order}H", data, start)
        for place in range(start + 2, start + 2 + 12 * length, 12):
            tag, kind, count, value = struct.unpack_from(f"{order}HHII", data, place)
            if tag == ExifTags.IFD.Exif and len(starts) == 1:
                starts.append(value)
            yield place, tag, kind, count


def _multiply(data: bytearray, order: str, place: int, kind: int, count: int, scale: int) -> None:
    """Multiply the values of a tag, unless one of them would become too large for its type."""
    form = order + KINDS[kind] * count
    if struct.calcsize(form) > 4:  # too long to be stored in the tag: there is its offset
        (place,) = struct.unpack_from(f"{order}I", data, place)
    values = list(struct.unpack_from(form, data, place))
    step = 2 if kind == RATIONAL else 1  # of a fraction, only the numerator is multiplied
    values[::step] = [scale * value for value in values[::step]]
    if max(values) <= (0xFFFF if kind == SHORT else 0xFFFFFFFF):
        struct.pack_into(form, data, place, *values)
