"""Change in place what EXIF says about the size of an image.

A block is edited, not written again: camera makers' notes hold offsets of their own, which Pillow
would not adjust. Previews stay, because they show the same picture.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

__all__ = ["EXIF_NAME", "with_size"]

EXIF_NAME = b"Exif\0\0"

EXIF_BLOCK = 0x8769
WIDTHS, HEIGHTS = (0x0100, 0xA002), (0x0101, 0xA003)
# Resolution, resolution in the focal plane, position of the subject: all count pixels.
COUNTED = (0x011A, 0x011B, 0xA20E, 0xA20F, 0x9214, 0xA214)
SHORT, LONG, RATIONAL = 3, 4, 5
KINDS = {SHORT: "H", LONG: "I", RATIONAL: "II"}


def with_size(block: bytes, width: int, height: int, scale: int) -> bytes:
    """Return an EXIF block for the same image at `scale` times its size, now width × height.

    Tags that cannot be read stay as they are. The block may start with its name or without it.
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
            if tag == EXIF_BLOCK and len(starts) == 1:
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
