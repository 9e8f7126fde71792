"""Image files: those of real encoders after damage, and tags, texts and sizes made up."""

import functools
import io
import struct
import tempfile
import traceback
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from PIL import Image

from fwnet.errors import FwnetError
from tests.fuzz.edits import Edit, edited, edits, named, odd_words
from tests.fuzz.registry import Tried, target

IMAGE_MEMORY = 3 * 2**30  # an image of 179 megapixels may be read
PHOTO = (np.random.default_rng(0).integers(0, 256, (24, 32, 4)) // 8 * 8).astype(np.uint8)
DEEP = PHOTO.astype(np.uint16) * 257


def _exif() -> Image.Exif:
    tags = Image.Exif()
    tags[0x0112], tags[0x010F], tags[0x011A] = 6, "Maker", 72.0
    tags.get_ifd(0x8769).update({0x9003: "2024:05:06 07:08:09", 0xA002: 32, 0xA003: 24})
    return tags


def _pillow(kind: str, mode: str = "RGB", **options: object) -> bytes:
    shown = PHOTO if mode == "RGBA" else PHOTO[..., :3]
    image = Image.fromarray(shown).convert(mode)
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _tiff(array: np.ndarray, **options: object) -> bytes:
    import tifffile

    file = io.BytesIO()
    tifffile.imwrite(file, array, **options)
    return file.getvalue()


def _deep_png() -> bytes:
    import imagecodecs

    return imagecodecs.png_encode(DEEP[..., :3].copy())


IMAGEJ = "ImageJ=1.53t\nimages=3\nslices=3\nunit=um\n"
ENCODED = {
    "PNG.png": lambda: _pillow("PNG", exif=_exif(), dpi=(72, 72)),
    "PNG with alpha.png": lambda: _pillow("PNG", "RGBA"),
    "PNG with a palette.png": lambda: _pillow("PNG", "P", transparency=3),
    "PNG, 16 bits, gray.png": lambda: _gray_deep(),
    "PNG, 16 bits, color.png": _deep_png,
    "JPEG.jpg": lambda: _pillow("JPEG", exif=_exif(), quality=80),
    "JPEG, gray.jpg": lambda: _pillow("JPEG", "L"),
    "JPEG, CMYK.jpg": lambda: _pillow("JPEG", "CMYK"),
    "JPEG, progressive.jpg": lambda: _pillow("JPEG", progressive=True),
    "WebP.webp": lambda: _pillow("WEBP", exif=_exif()),
    "WebP, lossless, alpha.webp": lambda: _pillow("WEBP", "RGBA", lossless=True),
    "AVIF.avif": lambda: _pillow("AVIF"),
    "JPEG 2000.jp2": lambda: _pillow("JPEG2000"),
    "GIF.gif": lambda: _pillow("GIF", "P"),
    "BMP.bmp": lambda: _pillow("BMP"),
    "PPM.ppm": lambda: _pillow("PPM"),
    "PGM.pgm": lambda: _pillow("PPM", "L"),
    "TGA.tga": lambda: _pillow("TGA", "RGBA", compression="tga_rle"),
    "ICO.ico": lambda: _pillow("ICO"),
    "TIFF.tif": lambda: _pillow("TIFF", exif=_exif()),
    "TIFF, LZW.tif": lambda: _pillow("TIFF", compression="tiff_lzw"),
    "TIFF, JPEG.tif": lambda: _pillow("TIFF", compression="jpeg"),
    "TIFF, 16 bits.tif": lambda: _tiff(DEEP[..., :3], photometric="rgb", compression="zlib"),
    "TIFF, floats.tif": lambda: _tiff(PHOTO[..., 0].astype(np.float32) / 255),
    "TIFF, planes.tif": lambda: _tiff(
        np.moveaxis(DEEP[..., :3], -1, 0).copy(), photometric="rgb", planarconfig="separate"
    ),
    "TIFF, tiles.tif": lambda: _tiff(PHOTO[..., :3], photometric="rgb", tile=(16, 16)),
    "TIFF, three pages.tif": lambda: _tiff(
        DEEP[..., 0][None].repeat(3, 0), photometric="minisblack", description=IMAGEJ, metadata=None
    ),
    "BigTIFF.tif": lambda: _tiff(DEEP[..., 0], bigtiff=True),
    "HEIC.heic": lambda: _heic(),
}


def _gray_deep() -> bytes:
    file = io.BytesIO()
    Image.fromarray(DEEP[..., 0]).save(file, "PNG")
    return file.getvalue()


def _heic() -> bytes:
    import pillow_heif

    file = io.BytesIO()
    pillow_heif.from_pillow(Image.fromarray(PHOTO[..., :3])).save(file)
    return file.getvalue()


@functools.cache
def encoded(name: str) -> bytes:
    """Return the file of an encoder; nothing where it is not installed."""
    try:
        return ENCODED[name]()
    except (ImportError, OSError, KeyError, ValueError):
        return b""


def read_and_write(name: str, content: bytes, writer: int) -> str:
    """Read a file and write what was read in another format; return what happened."""
    from fwnet.data import DataError, read_luma
    from fwnet.imaging import ImageError
    from fwnet.imaging.image_files import FORMATS, read_image, write_image

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"image{Path(name).suffix}"
        path.write_bytes(content)
        try:
            luma = read_luma(path)
            assert luma.dtype == np.uint8
            assert luma.ndim == 3
        except DataError as error:
            check_decoder(error, path)
        try:
            found = read_image(path)
            for page in found.pages[1:3]:
                read_image(path, page)
        except ImageError as error:
            check_decoder(error, path)
            return "refused"
        height, width, channels = found.pixels.colors.shape
        assert min(height, width) >= 1
        assert channels in (1, 3)
        if height * width > 4 * 10**6:
            return "read"  # writing it would only take time
        copy = path.with_name(f"copy{[*FORMATS][writer % len(FORMATS)]}")
        about = found.about.enlarged(2 * width, 2 * height, 2)
        for metadata in (about, found.about):
            try:
                write_image(copy, found.pixels, metadata)
            except ImageError as error:
                check_decoder(error, copy)
                return "read, and not written"
        again = read_image(copy).pixels.colors.shape[:2]
        turned = found.about.orientation > 4  # in formats without EXIF, and by Pillow in TIFF
        assert again in ((height, width), (width, height) if turned else (height, width))
        return "read and written"


MISTAKES = (AttributeError, LookupError, NameError, TypeError, ZeroDivisionError, AssertionError)


def check_decoder(error: FwnetError, path: Path) -> None:
    """Raise unless an error is one line that names the file, and comes from a decoder."""
    check_line(error, path)
    if isinstance(error.__cause__, MISTAKES):  # anything is caught: a mistake of ours looks alike
        frame = traceback.extract_tb(error.__cause__.__traceback__)[-1]
        of_ours = "fwnet" in Path(frame.filename).parts and "raise" not in (frame.line or "")
        assert not of_ours, f"{error.__cause__!r} in {frame}"


def check_line(error: FwnetError, path: Path) -> None:
    """Raise unless an error is one line that names the file."""
    text = str(error)
    assert path.name in text, text
    assert "\n" not in text.strip(), text
    assert len(text) > len(str(path)) + 5, text


@target(
    "image-files",
    st.tuples(st.sampled_from(sorted(ENCODED)), edits, st.integers(0, 20)),
    kept=[  # a width of several numbers
        (
            "TIFF, 16 bits.tif",
            3 * [Edit("numbers at their limits", 586, 63244)]
            + [Edit("numbers at their limits", 13, 503)],
            10,
        ),
        ("TIFF, tiles.tif", [Edit("changed bytes", 20, 1849)], 20),  # claims 90 megapixels
    ],
    examples=60,
    needs=["fwnet.imaging.image_files", "tifffile", "imagecodecs"],
    memory=IMAGE_MEMORY,
)
def image_files(case: tuple) -> Tried:
    """Files of real encoders, damaged."""
    name, changes, writer = case
    content = encoded(name)
    if not content:
        return Tried("image formats without an encoder here", "skipped")
    damaged = edited(content, changes)
    outcome = read_and_write(name, damaged, writer)
    assert damaged != content or outcome.startswith("read"), "refused what is whole"
    return Tried(f"image: {Path(name).stem}, damaged", outcome)


@target(
    "image-damage",
    st.tuples(st.sampled_from(sorted(ENCODED)), edits, st.integers(0, 20)),
    examples=0,
    needs=["fwnet.imaging.image_files", "tifffile", "imagecodecs"],
    memory=IMAGE_MEMORY,
)
def image_damage(case: tuple) -> Tried:
    """Files of real encoders, damaged, with names of other formats; by the kind of damage."""
    name, changes, writer = case
    content = encoded(name)
    if not content:
        return Tried("image formats without an encoder here", "skipped")
    lying = f"x{['.png', '.jpg', '.tif', '.heic', '.gif', '.nef', '.eps', '.h5'][writer % 8]}"
    outcome = read_and_write(lying, edited(content, changes), writer)
    damage = "undamaged" if not changes else named(changes)
    return Tried(f"image with a wrong suffix: {damage}", outcome)


TAG_KINDS = "a text of ImageJ", "an XML description", "any text", "odd values", "loops", "many"
COUNTS = ["3", "-1", "0", "9" * 30, "2.5", "", "nan", "3\nimages=7", "٣"]


def exif_block(tags: list[tuple[int, int, int, int]], order: str, start: int) -> bytes:
    """Return an EXIF block with these tags: number, type, count and value or offset."""
    head = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HI", 42, start)
    body = struct.pack(f"{order}H", len(tags) % 65536)
    body += b"".join(struct.pack(f"{order}HHII", *one) for one in tags)
    return head + body + bytes(4) + b"Maker\0" * 5


tags = st.lists(
    st.tuples(
        st.one_of(
            st.sampled_from([0x0112, 0x0100, 0x0101, 0xA002, 0xA003, 0x8769, 0x8825, 0x011A]),
            st.sampled_from([0x9214, 0xA20E, 0x010E, 0x927C, 0x0201, 0x0202, 0xA005, 0x83BB]),
            st.integers(0, 65535),
        ),
        st.integers(0, 14),
        st.sampled_from([0, 1, 2, 3, 4, 5, 1000, 65535, 2**32 - 1]),
        st.one_of(st.integers(0, 200), st.integers(0, 2**32 - 1)),
    ),
    max_size=6,
)


@target(
    "exif",
    st.tuples(
        tags, st.sampled_from("<>"), st.sampled_from([8, 0, 2, 9, 10**6]), st.integers(0, 20)
    ),
    kept=[([(256, 8, 5, 4)], ">", 8, 13)],  # the width of a TIFF that it was copied to
    examples=60,
    needs=["fwnet.imaging.image_files", "tifffile", "imagecodecs"],
)
def exif(case: tuple) -> Tried:
    """EXIF blocks with any tags, in three formats, read, enlarged and written."""
    from fwnet.imaging.metadata import Metadata, with_size

    found, order, start, writer = case
    block = exif_block(found, order, start)
    for given in (block, b"Exif\0\0" + block):
        changed = with_size(given, 64, 48, 2)
        assert len(changed) == len(given)
    about = Metadata(b"Exif\0\0" + block)
    assert about.orientation in range(1, 9)
    about.with_orientation_only()
    kind = ["PNG", "JPEG", "WEBP"][writer % 3]
    content = _pillow(kind, exif=b"Exif\0\0" + block)
    name = {"PNG": "x.png", "JPEG": "x.jpg", "WEBP": "x.webp"}[kind]
    outcome = read_and_write(name, content, writer)
    what = "no tags" if not found else "starts elsewhere" if start != 8 else "any tags"
    return Tried(f"EXIF in {kind}: {what}", outcome)


descriptions = st.one_of(
    st.tuples(st.just("a text of ImageJ"), st.sampled_from(COUNTS).map(
        lambda count: f"ImageJ=1.53\nimages={count}\nslices={count}\nspacing={count}\n"
    )),
    st.tuples(st.just("OME-XML"), st.sampled_from([
        '<?xml version="1.0"?><OME><Image><Pixels SizeX="9999999"/></Image></OME>',
        '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaa"><!ENTITY b "&a;&a;">]><OME>&b;</OME>',
        "<OME", '{"shape": [99999, 99999, 99999]}', '{"shape": ', "<?xml", "ImageJ=\nimages=3",
    ])),
    st.tuples(st.just("any text"), odd_words),
)  # fmt: skip


@target(
    "tiff-descriptions",
    st.tuples(descriptions, st.integers(1, 4), edits, st.integers(0, 20)),
    examples=40,
    needs=["fwnet.imaging.image_files", "tifffile", "imagecodecs"],
    memory=IMAGE_MEMORY,
    # The next page is a page before: there was no end.
    kept=[(("any text", "../../x"), 3, 2 * [Edit("bytes left out", 216, 199817993)], 0)],
)
def tiff_descriptions(case: tuple) -> Tried:
    """TIFF files of some pages whose description claims something else."""
    (kind, text), pages, changes, writer = case
    content = _tiff(
        DEEP[..., 0][None].repeat(pages, 0),
        photometric="minisblack",
        description=text.encode("utf-8", "replace"),
        metadata=None,
    )
    outcome = read_and_write("x.tif", edited(content, changes), writer)
    return Tried(f"description of a TIFF: {kind}", outcome)


def claimed(kind: str, width: int, height: int) -> bytes:
    """Return a small file whose header claims a size."""
    if kind == "PNG":
        chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, 16, 6, 0, 0, 0)
        import zlib

        return (
            b"\x89PNG\r\n\x1a\n"
            + struct.pack(">I", 13)
            + chunk
            + struct.pack(">I", zlib.crc32(chunk))
            + encoded("PNG.png")[33:]
        )
    if kind == "PPM":
        return f"P6 {width} {height} 65535\n".encode() + bytes(100)
    if kind == "BMP":
        data = bytearray(encoded("BMP.bmp"))
        struct.pack_into("<ii", data, 18, min(width, 2**31 - 1), min(height, 2**31 - 1))
        return bytes(data)
    data = encoded("TIFF, floats.tif" if kind == "TIFF, floats" else "TIFF.tif")
    order, place = "<", struct.unpack_from("<I", data, 4)[0]
    changed = bytearray(data)
    for index in range(struct.unpack_from(f"{order}H", data, place)[0]):
        at = place + 2 + 12 * index
        tag = struct.unpack_from(f"{order}H", data, at)[0]
        if tag in (256, 257):
            size = width if tag == 256 else height
            struct.pack_into(f"{order}HII", changed, at + 2, 4, 1, size)
    return bytes(changed)


sizes = st.sampled_from([0, 1, 2, 1000, 13000, 13400, 20000, 65535, 10**6, 2**31 - 1, 2**32 - 1])


@target(
    "claimed-sizes",
    st.tuples(st.sampled_from(["PNG", "PPM", "BMP", "TIFF", "TIFF, floats"]), sizes, sizes),
    examples=25,
    needs=["fwnet.imaging.image_files", "tifffile", "imagecodecs"],
    memory=IMAGE_MEMORY,
)
def claimed_sizes(case: tuple) -> Tried:
    """Headers that claim sizes which the file does not hold."""
    kind, width, height = case
    suffix = {"PNG": ".png", "PPM": ".ppm", "BMP": ".bmp"}.get(kind, ".tif")
    outcome = read_and_write(f"x{suffix}", claimed(kind, width, height), 0)
    return Tried(f"claimed size: {kind} of 0 to 4 billion pixels a side", outcome)
