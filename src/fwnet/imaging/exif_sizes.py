"""What EXIF says of the size of an image, changed in place.

Blocks are not written anew: notes of camera makers hold addresses of their own, and previews, which
show the same picture, stay.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["EXIF_NAME", "with_size"]

EXIF_NAME = b"Exif\0\0"

EXIF_BLOCK = 0x8769
WIDTHS, HEIGHTS = (0x0100, 0xA002), (0x0101, 0xA003)
# Resolution, that in the focal plane, and where the subject is: all count pixels.
COUNTED = (0x011A, 0x011B, 0xA20E, 0xA20F, 0x9214, 0xA214)
SHORT, LONG, RATIONAL = 3, 4, 5
KINDS = {SHORT: "H", LONG: "I", RATIONAL: "II"}


@dataclass(frozen=True)
class Entry:
    """One tag: where it stands, and what it says."""

    place: int
    tag: int
    kind: int
    count: int


def with_size(block: bytes, width: int, height: int, scale: int) -> bytes:
    """The same block for an image that has become `scale` times as large, width × height.

    What cannot be read is left as it is.

    Args:
        block: With or without its name in front.
        width: Of the large image, as it is stored.
        height: The same.
        scale: What counts pixels is multiplied by this.
    """
    name = EXIF_NAME if block.startswith(EXIF_NAME) else b""
    data = bytearray(block.removeprefix(name))
    try:
        order = {b"II": "<", b"MM": ">"}[bytes(data[:2])]
        for entry in list(_entries(data, order)):
            _resize(data, order, entry, width, height, scale)
    except (KeyError, struct.error):
        return block
    return name + bytes(data)


def _entries(data: bytearray, order: str) -> Iterator[Entry]:
    """The tags of the image and of its EXIF block, but not those of a preview."""
    (start,) = struct.unpack_from(f"{order}I", data, 4)
    starts = [start]
    for start in starts:
        (count,) = struct.unpack_from(f"{order}H", data, start)
        for index in range(count):
            place = start + 2 + 12 * index
            tag, kind, values, value = struct.unpack_from(f"{order}HHII", data, place)
            if tag == EXIF_BLOCK and len(starts) == 1:
                starts.append(value)
            yield Entry(place, tag, kind, values)


def _resize(data: bytearray, order: str, entry: Entry, width: int, height: int, scale: int) -> None:
    if entry.tag in WIDTHS + HEIGHTS and (entry.kind, entry.count) in ((SHORT, 1), (LONG, 1)):
        size = width if entry.tag in WIDTHS else height
        struct.pack_into(f"{order}HII", data, entry.place + 2, LONG, 1, size)
        return
    if entry.tag not in COUNTED or entry.kind not in KINDS or not 1 <= entry.count <= 4:
        return
    form = order + KINDS[entry.kind] * entry.count
    place = entry.place + 8
    if struct.calcsize(form) > 4:  # else the values stand where their address would
        (place,) = struct.unpack_from(f"{order}I", data, place)
    values = list(struct.unpack_from(form, data, place))
    # Of a fraction it is the numerator.
    step = 2 if entry.kind == RATIONAL else 1
    values[::step] = [scale * value for value in values[::step]]
    most = 0xFFFF if entry.kind == SHORT else 0xFFFFFFFF
    if max(values) <= most:
        struct.pack_into(form, data, place, *values)
