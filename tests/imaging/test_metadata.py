"""EXIF of an image that has become larger: sizes and resolutions change, and nothing else."""

import io
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import ExifTags, Image

from fwnet.imaging.metadata import EXIF_NAME, Metadata, with_size

MAKE, RESOLUTION, EXIF, ORIENTATION = 0x010F, 0x011A, 0x8769, 0x0112


def entry(order, tag, kind, count, value):
    inline = kind == 3 and count <= 2
    packed = struct.pack(f"{order}H" if inline else f"{order}I", value)
    return struct.pack(f"{order}HHI", tag, kind, count) + packed.ljust(4, b"\0")


def block(order="<", short=True):
    """IFD0 with size, resolution and an EXIF block; a preview; and a maker's note behind all."""
    size = 3 if short else 4
    first, exif, preview, end = 8, 74, 152, 182
    parts = [
        {"<": b"II", ">": b"MM"}[order] + struct.pack(f"{order}HI", 42, first),
        struct.pack(f"{order}H", 5),
        entry(order, 0x0100, size, 1, 30),
        entry(order, 0x0101, size, 1, 20),
        entry(order, ORIENTATION, 3, 1, 6),
        entry(order, RESOLUTION, 5, 1, end),
        entry(order, EXIF, 4, 1, exif),
        struct.pack(f"{order}I", preview),
        struct.pack(f"{order}H", 6),
        entry(order, 0x927C, 7, 9, end + 8),
        entry(order, 0x9214, 3, 4, end + 24),
        entry(order, 0xA002, size, 1, 30),
        entry(order, 0xA003, size, 1, 20),
        entry(order, 0xA20E, 5, 1, end + 16),
        entry(order, 0xA214, 3, 2, 15),
        struct.pack(f"{order}I", 0),
        struct.pack(f"{order}H", 2),
        entry(order, 0x0100, 3, 1, 160),
        entry(order, RESOLUTION, 5, 1, end),
        struct.pack(f"{order}I", 0),
        struct.pack(f"{order}II", 72, 1),
        b"maker\0\0\0",
        struct.pack(f"{order}II", 5000, 3),
        struct.pack(f"{order}HHHH", 7, 8, 9, 10),
    ]
    data = b"".join(parts)
    assert data.index(b"maker") == end + 8
    return EXIF_NAME + data


def loaded(data):
    tags = Image.Exif()
    tags.load(data)
    return tags


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_sizes_and_resolutions(order, short, named):
    before = block(order, short)
    before = before if named else before.removeprefix(EXIF_NAME)
    after = with_size(before, 90, 60, 3)
    assert len(after) == len(before)
    assert after.startswith(EXIF_NAME) == named
    tags = loaded(after)
    assert (tags[0x0100], tags[0x0101], tags[ORIENTATION]) == (90, 60, 6)
    assert tags[RESOLUTION] == 216
    inner = tags.get_ifd(EXIF)
    assert (inner[0xA002], inner[0xA003]) == (90, 60)
    assert float(inner[0xA20E]) == 5000
    assert tuple(inner[0x9214]) == (21, 24, 27, 30)
    assert tuple(inner[0xA214]) == (45, 0)
    assert tags.get_ifd(ExifTags.IFD.IFD1)[0x0100] == 160  # the preview has the size it had
    assert b"maker" in after


def test_a_size_that_needs_more_bits():
    inner = loaded(with_size(block(), 90_000, 60, 3000)).get_ifd(EXIF)
    assert inner[0xA002] == 90_000
    assert tuple(inner[0x9214]) == (21_000, 24_000, 27_000, 30_000)
    inner = loaded(with_size(block(), 90_000, 60, 7000)).get_ifd(EXIF)
    assert tuple(inner[0x9214]) == (7, 8, 9, 10)  # 70,000 does not fit


def test_the_wrong_size_is_put_right():
    """A file that was made smaller before, by a program that forgot to say so."""
    assert loaded(with_size(block(), 4, 5, 2)).get_ifd(EXIF)[0xA002] == 4


@given(st.binary(max_size=60))
def test_anything_at_all(data):
    for start in (b"", EXIF_NAME, EXIF_NAME + b"II*\0\x08\0\0\0", b"MM\0*\0\0\0\x08"):
        result = with_size(start + data, 90, 60, 3)
        assert isinstance(result, bytes)
        assert len(result) == len(start + data)


@given(st.integers(0, len(block()) - 1), st.integers(0, 255))
def test_damaged_blocks(place, value):
    damaged = bytearray(block())
    damaged[place] = value
    assert len(with_size(bytes(damaged), 90, 60, 3)) == len(damaged)
    cut = block()[:place]
    assert len(with_size(cut, 90, 60, 3)) == len(cut)


def test_pillow_reads_what_is_left():
    image = Image.fromarray(np.zeros((60, 90, 3), np.uint8))
    about = Metadata(block(), None, (72.0, 36.0)).enlarged(90, 60, 3)
    file = io.BytesIO()
    image.save(file, "JPEG", exif=about.exif, dpi=about.dpi)
    with Image.open(file) as read:
        assert read.getexif().get_ifd(EXIF)[0xA002] == 90
        assert read.info["dpi"] == (216, 108)
    assert Metadata().enlarged(90, 60, 3) == Metadata()
