"""Image files: what is read is written again, and damaged files give an error of one line."""

import io
import os
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms
from skimage import data

from fwnet.imaging.formats import FORMATS, is_readable_suffix
from fwnet.imaging.image_files import read_image, write_image
from fwnet.imaging.metadata import Metadata
from fwnet.imaging.pixels import ImageError, Pixels, as_unit_range
from tests.imaging.png_files import chunk, png

PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
LOSSLESS = [".png", ".tif"]


def exif(orientation=6):
    tags = Image.Exif()
    tags[0x0112], tags[0x010F] = orientation, "Maker"
    tags.get_ifd(0x8769)[0x9003] = "2024:05:06 07:08:09"
    return tags.tobytes()


def tags_of(about):
    tags = Image.Exif()
    tags.load(about.exif)
    return tags


def values(channels, dtype, shape=(20, 30)):
    numbers = np.random.default_rng(channels).random((*shape, channels))
    kind = np.dtype(dtype)
    return (numbers * np.iinfo(kind).max if kind.kind == "u" else numbers).astype(kind)


@pytest.mark.parametrize("suffix", LOSSLESS)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_every_depth_is_kept(tmp_path, suffix, dtype, channels):
    path, array = tmp_path / f"x{suffix}", values(channels, dtype)
    notes = write_image(path, Pixels.of_channels(array), Metadata(profile=PROFILE))
    read = read_image(path)
    result = read.pixels.channels()
    if dtype == np.float32 and suffix == ".png":
        assert notes == ["PNG holds 16 bits per channel, and this image has 32"]
        assert result.dtype == np.uint16
        np.testing.assert_allclose(result / 65535, array, rtol=0, atol=1e-5)
    else:
        assert notes == []
        assert result.dtype == dtype
        assert np.array_equal(result, array)
    assert read.about.profile == PROFILE
    assert read.notes == ()


@pytest.mark.parametrize("kind", ["RGB", "RGBA", "LA", "L"])
@pytest.mark.parametrize("filter_type", [0, 1, 2, 3, 4])
def test_sixteen_bits_of_pngs_that_others_wrote(tmp_path, kind, filter_type):
    """All filters of PNG."""
    array = values(len(kind), np.uint16)
    lines = array.astype(">u2").reshape(20, -1).view(np.uint8).astype(int)
    pixel = 2 * len(kind)
    above = np.vstack([np.zeros_like(lines[:1]), lines[:-1]])
    left, corner = (np.pad(one, ((0, 0), (pixel, 0)))[:, :-pixel] for one in (lines, above))
    guess = left + above - corner
    distances = [abs(guess - one) for one in (left, above, corner)]
    nearest = np.choose(np.argmin(distances, axis=0), [left, above, corner])
    predicted = [0, left, above, (left + above) // 2, nearest][filter_type]
    rows = np.insert((lines - predicted) % 256, 0, filter_type, axis=1).astype(np.uint8)
    types = {"L": 0, "LA": 4, "RGB": 2, "RGBA": 6}
    content = png(30, 20, bits=16, kind=types[kind], rows=rows.tobytes())
    (tmp_path / "x.png").write_bytes(content)
    assert np.array_equal(read_image(tmp_path / "x.png").pixels.channels(), array)


def test_sixteen_bits_of_an_interlaced_png(tmp_path):
    array = values(3, np.uint16, (21, 30))
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2)]
    passes.append((0, 1, 1, 2))
    rows = b"".join(
        b"\0" + row.astype(">u2").tobytes()
        for left, top, right, down in passes
        for row in array[top::down, left::right]
    )
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 30, 21, 16, 2, 0, 0, 1))
    content = header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    assert np.array_equal(read_image(tmp_path / "x.png").pixels.channels(), array)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("compression", [None, "zlib", "lzw", "zstd"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_sixteen_bits_of_tiffs_that_others_wrote(tmp_path, order, compression, channels):
    array = values(channels, np.uint16)
    tifffile.imwrite(
        tmp_path / "x.tif",
        array[..., 0] if channels == 1 else array,
        photometric="minisblack" if channels == 1 else "rgb",
        extrasamples=["unassalpha"] if channels == 4 else None,
        byteorder=order,
        compression=compression,
        rowsperstrip=7,
    )
    assert np.array_equal(read_image(tmp_path / "x.tif").pixels.channels(), array)


@pytest.mark.parametrize(("order", "compression"), [("<", None), (">", None), (">", "zlib")])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_one_channel_after_the_other(tmp_path, order, compression, dtype, channels):
    array = values(channels, dtype)
    tifffile.imwrite(
        tmp_path / "x.tif",
        np.moveaxis(array, -1, 0),
        photometric="minisblack" if channels == 2 else "rgb",
        planarconfig="separate",
        extrasamples=["unassalpha"] if channels in (2, 4) else None,
        byteorder=order,
        compression=compression,
        resolution=(300, 300),
        resolutionunit="inch",
    )
    read = read_image(tmp_path / "x.tif")
    assert np.array_equal(read.pixels.channels(), array)
    if dtype == np.uint16 and channels > 2:
        assert read.about.dpi == (300, 300)


def test_inks_of_sixteen_bits_are_refused_one_after_the_other(tmp_path):
    array = np.moveaxis(values(4, np.uint16), -1, 0)
    tifffile.imwrite(tmp_path / "x.tif", array, photometric="separated", planarconfig="separate")
    with pytest.raises(
        ImageError, match=r"x.tif: expected .* gray or RGB, .*, got 4 channels .*SEPARATED"
    ):
        read_image(tmp_path / "x.tif")


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
def test_zero_may_be_white(tmp_path, order, dtype):
    array = values(1, dtype)[..., 0]
    path = tmp_path / "x.tif"
    tifffile.imwrite(path, array, photometric="miniswhite", byteorder=order)
    white = 1 if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max
    found = read_image(path).pixels.colors[..., 0]
    np.testing.assert_allclose(found, white - array, rtol=0, atol=1e-6)


def test_where_zero_is_white_alpha_is_what_it_is(tmp_path):
    array = values(2, np.uint16)
    options = {"photometric": "miniswhite", "extrasamples": ["unassalpha"]}
    tifffile.imwrite(tmp_path / "x.tif", array, planarconfig="contig", **options)
    pixels = read_image(tmp_path / "x.tif").pixels
    np.testing.assert_array_equal(pixels.colors[..., 0], 65535 - array[..., 0])
    np.testing.assert_array_equal(pixels.alpha, array[..., 1])


def test_the_limit_of_pixels_holds_for_every_tiff(tmp_path, monkeypatch):
    path = tmp_path / "x.tif"
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 50)
    for dtype, layout in ((np.float32, "contig"), (np.uint16, "separate")):
        array = values(3, dtype)
        stored = array if layout == "contig" else np.moveaxis(array, -1, 0)
        tifffile.imwrite(path, stored, photometric="rgb", planarconfig=layout)
        monkeypatch.setattr(tifffile.TiffPage, "asarray", None)  # nothing is to be unpacked
        with pytest.raises(ImageError, match=r"x.tif claims to have .* megapixels"):
            read_image(path)


def test_sixteen_bits_that_we_write_others_read(tmp_path):
    array = values(3, np.uint16, (150, 40))
    write_image(tmp_path / "x.tif", Pixels(array), Metadata())
    assert np.array_equal(tifffile.imread(tmp_path / "x.tif"), array)
    write_image(tmp_path / "x.png", Pixels(array), Metadata())
    with Image.open(tmp_path / "x.png") as image:
        assert (image.mode, image.size) == ("RGB", (40, 150))
        assert np.array_equal(np.asarray(image), array >> 8)


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("suffix", LOSSLESS)
def test_metadata_of_sixteen_bits(tmp_path, suffix, channels):
    about = Metadata(exif(6), PROFILE, (300.0, 150.0))
    write_image(tmp_path / f"x{suffix}", Pixels.of_channels(values(channels, np.uint16)), about)
    read = read_image(tmp_path / f"x{suffix}")
    assert read.pixels.channels().shape == (20, 30, channels)
    assert (read.about.orientation, read.about.profile) == (6, PROFILE)
    if suffix == ".png":
        assert read.about.exif == about.exif
    if (suffix, channels) != (".tif", 2):  # Pillow cannot open it
        assert read.about.dpi == pytest.approx((300, 150), rel=1e-3)


def test_colors_of_sixteen_bits_that_pillow_has_to_change(tmp_path):
    """Premultiplied alpha and inks have 8 bits."""
    array = values(4, np.uint16)
    for name, photometric, extra in (("a", "rgb", ["assocalpha"]), ("b", "separated", None)):
        path = tmp_path / f"{name}.tif"
        tifffile.imwrite(path, array, photometric=photometric, extrasamples=extra)
        assert read_image(path).pixels.colors.dtype == np.uint8


def test_every_cpu_writes_the_same_gray(tmp_path):
    """Halves are rounded up: 500,000,000 of 1,000,000,000 is 1."""
    colors = np.random.default_rng(0).integers(0, 65536, (50, 60, 3)).astype(np.uint16)
    write_image(tmp_path / "x.pgm", Pixels(colors), Metadata())
    red, green, blue = colors.astype(object).transpose(2, 0, 1)
    total = 298_936_021 * red + 587_043_075 * green + 114_020_904 * blue
    expected = (total + 5 * 10**8) // 10**9
    assert np.array_equal(read_image(tmp_path / "x.pgm").pixels.colors[..., 0], expected)


def test_sixteen_bits_with_a_transparent_color(tmp_path):
    for kind, key in ((2, (1000, 2000, 3000)), (0, (1000,))):
        row = np.array([[*key], [k + 1 for k in key]], ">u2").tobytes()
        extra = chunk(b"tRNS", struct.pack(f">{len(key)}H", *key))
        content = png(2, 1, bits=16, kind=kind, rows=b"\0" + row, extra=extra)
        (tmp_path / "x.png").write_bytes(content)
        pixels = read_image(tmp_path / "x.png").pixels
        assert pixels.alpha.tolist() == [[0, 65535]]
        assert pixels.colors[0, 0].tolist() == [*key]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_every_format_takes_every_image(tmp_path, suffix, channels, dtype):
    path = tmp_path / f"x{suffix}"
    array = values(channels, dtype)
    white = 1 if dtype == np.float32 else np.iinfo(dtype).max
    notes = write_image(path, Pixels.of_channels(array), Metadata())
    lost = " ".join(notes)
    kind = FORMATS[suffix]
    assert ("no transparency" in lost) == (channels in (2, 4) and not kind.alpha)
    result = read_image(path).pixels
    assert result.colors.shape[:2] == (20, 30)
    assert (result.alpha is not None) == (channels in (2, 4) and kind.alpha)
    assert ("no color" in lost) == (channels > 2 and suffix == ".pgm")
    if channels > 2 and suffix == ".pgm":
        array = (array @ np.array([[0.299], [0.587], [0.114], [0]])[:channels]) / white
    if suffix not in (".jpg", ".jpeg", ".webp"):
        np.testing.assert_allclose(
            as_unit_range(result.colors),
            as_unit_range(array)[..., : result.colors.shape[2]],
            rtol=0,
            atol=0.6 / 255,
        )
    assert not [name for name in os.listdir(tmp_path) if name != path.name]  # noqa: PTH208


def test_values_beyond_the_range_are_clipped(tmp_path):
    array = np.array([[-0.5, 0.0, 1.0, 1.7]], np.float32)[..., None]
    for suffix, white in ((".png", 65535), (".jpg", 255)):
        write_image(tmp_path / f"x{suffix}", Pixels(array.repeat(3, axis=2)), Metadata())
        levels = read_image(tmp_path / f"x{suffix}").pixels.colors[0, :, 0] / white
        np.testing.assert_allclose(levels, [0, 0, 1, 1], atol=0.03)


def test_an_opaque_alpha_is_no_loss(tmp_path):
    pixels = Pixels(values(3, np.uint8), np.full((20, 30), 255, np.uint8))
    assert write_image(tmp_path / "x.jpg", pixels, Metadata()) == []


@pytest.mark.parametrize("orientation", [1, 2, 3, 6, 7])
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tif", ".bmp"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_viewers_show_the_same_side_up(tmp_path, orientation, suffix, dtype):
    array = values(3, dtype)
    array[...] = np.linspace(0.1, 1, 20 * 30).reshape(20, 30, 1) * np.iinfo(dtype).max
    about = Metadata(exif(orientation))
    path = tmp_path / f"x{suffix}"
    write_image(path, Pixels(array), about)
    read = read_image(path)
    eight = (array / np.iinfo(dtype).max * 255).astype(np.uint8)
    expected = about.turned(Image.fromarray(eight))
    white = np.iinfo(read.pixels.colors.dtype).max
    found = (read.pixels.colors / white * 255).astype(np.uint8)
    shown = read.about.turned(Image.fromarray(found))
    assert shown.size == expected.size == ((30, 20) if orientation < 5 else (20, 30))
    difference = np.asarray(shown).astype(int) - np.asarray(expected)
    assert abs(difference).max() <= (6 if suffix in (".jpg", ".webp") else 1)


@pytest.mark.parametrize("source", [".jpg", ".png", ".webp", ".tif"])
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tif"])
def test_metadata_goes_from_format_to_format(tmp_path, source, suffix):
    image = Image.fromarray(values(3, np.uint8))
    image.save(tmp_path / f"a{source}", exif=exif(), icc_profile=PROFILE, dpi=(300, 150))
    read = read_image(tmp_path / f"a{source}")
    write_image(tmp_path / f"b{suffix}", read.pixels, read.about)
    again = read_image(tmp_path / f"b{suffix}").about
    assert again.profile == PROFILE
    tags = tags_of(again)
    assert tags[0x010F] == "Maker"
    assert tags.get_ifd(0x8769)[0x9003] == "2024:05:06 07:08:09"
    if ".webp" not in (source, suffix):
        assert again.dpi == pytest.approx((300, 150), rel=1e-3)


def test_jpeg_has_quality_95_and_all_colors(tmp_path):
    write_image(tmp_path / "x.jpg", Pixels(data.chelsea()), Metadata())
    expected = io.BytesIO()
    Image.fromarray(data.chelsea()).save(expected, "JPEG", quality=95, subsampling=0)
    assert (tmp_path / "x.jpg").read_bytes() == expected.getvalue()


def test_palettes(tmp_path):
    image = Image.fromarray(values(3, np.uint8)).quantize(16)
    image.save(tmp_path / "p.png")
    read = read_image(tmp_path / "p.png").pixels
    assert np.array_equal(read.colors, np.asarray(image.convert("RGB")))
    assert read.alpha is None
    image.save(tmp_path / "t.png", transparency=3)
    read = read_image(tmp_path / "t.png").pixels
    assert np.array_equal(read.alpha == 0, np.asarray(image) == 3)
    image.save(tmp_path / "some.png", transparency=bytes(range(0, 256, 16)))
    read = read_image(tmp_path / "some.png").pixels
    assert np.array_equal(read.alpha, np.asarray(image) * 16)


def test_one_bit_and_gray(tmp_path):
    image = Image.fromarray(values(1, np.uint8)[..., 0]).convert("1")
    image.save(tmp_path / "x.png")
    read = read_image(tmp_path / "x.png").pixels
    assert np.array_equal(read.colors[..., 0], np.asarray(image) * np.uint8(255))


def test_cmyk_becomes_rgb(tmp_path):
    image = Image.fromarray(data.chelsea())
    image.convert("CMYK").save(tmp_path / "x.jpg", quality=95, exif=exif(1))
    read = read_image(tmp_path / "x.jpg")
    assert abs(read.pixels.colors.astype(int) - data.chelsea()).mean() < 3
    assert tags_of(read.about)[0x010F] == "Maker"
    image.convert("CMYK").save(tmp_path / "x.tif", icc_profile=b"damaged")
    assert read_image(tmp_path / "x.tif").about.profile is None


@pytest.mark.parametrize("suffix", [".gif", ".webp", ".png"])
def test_of_several_images_the_first_is_used(tmp_path, suffix):
    frames = [Image.new("RGB", (9, 7), color) for color in ("red", "lime", "blue")]
    frames[0].save(tmp_path / f"x{suffix}", save_all=True, append_images=frames[1:])
    read = read_image(tmp_path / f"x{suffix}")
    assert read.notes == ("only the first of 3 images is used",)
    assert abs(read.pixels.colors[3, 3].astype(int) - [255, 0, 0]).max() < 10


def test_floating_point(tmp_path):
    array = values(3, np.float64)
    tifffile.imwrite(tmp_path / "x.tif", array, photometric="rgb")
    read = read_image(tmp_path / "x.tif").pixels
    assert read.colors.dtype == np.float32
    np.testing.assert_allclose(read.colors, array, rtol=0, atol=1e-7)
    Image.fromarray(values(1, np.float32)[..., 0] * 1000).save(tmp_path / "y.tif")
    with pytest.raises(ImageError, match=r"y.tif: an image of floating-point values must have"):
        read_image(tmp_path / "y.tif")
    seven = values(7, np.float32)
    tifffile.imwrite(tmp_path / "z.tif", seven, photometric="minisblack", planarconfig="contig")
    with pytest.raises(ImageError, match=r"z.tif: expected 1 to 4 channels"):
        read_image(tmp_path / "z.tif")


@pytest.mark.parametrize("name", ["x.heic", "x.jpg"])  # phones also write the second
def test_heic(tmp_path, name):
    heif = pytest.importorskip("pillow_heif", reason="the extra heif is not installed")
    heif.register_heif_opener()
    image = Image.fromarray(data.chelsea()[:40, :60])
    image.save(tmp_path / name, format="HEIF", quality=95, exif=exif(6), icc_profile=PROFILE)
    read = read_image(tmp_path / name)
    shown = np.rot90(data.chelsea()[:40, :60], -1)  # the plugin turns it
    assert read.about.orientation == 1
    assert abs(read.pixels.colors.astype(int) - shown).mean() < 5
    assert tags_of(read.about)[0x010F] == "Maker"
    assert (read.about.profile, read.notes) == (PROFILE, ())
    deep = heif.from_bytes("RGB;16", (60, 40), bytes(60 * 40 * 6))
    deep.save(tmp_path / name)
    assert read_image(tmp_path / name).notes == ("8 of 10 bits per channel are used",)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ImageError, match=f"{name} is "):
        read_image(tmp_path / name)


def test_heic_without_its_plugin(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    (tmp_path / "x.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(99))
    with pytest.raises(ImageError, match=r"x.heic: HEIC .* pip install '.\[heif\]' in the clone$"):
        read_image(tmp_path / "x.heic")
    (tmp_path / "x.heic").write_bytes(b"\0\0\0\x18ftypqt  " + bytes(99))  # a film
    with pytest.raises(ImageError, match=r"x.heic is not an image"):
        read_image(tmp_path / "x.heic")


def test_avif(tmp_path):
    image = Image.fromarray(data.chelsea()[:40, :60])
    image.save(tmp_path / "x.avif", quality=95, exif=exif(6))
    read = read_image(tmp_path / "x.avif")
    assert abs(read.pixels.colors.astype(int) - data.chelsea()[:40, :60]).mean() < 5
    assert read.about.orientation == 6


def test_raw_files_are_known_by_their_names(tmp_path):
    """Pillow would find a preview in this one."""
    path = tmp_path / "IMG.DNG"
    Image.new("RGB", (9, 7)).save(path, format="TIFF")
    with pytest.raises(ImageError, match=r"IMG.DNG: camera raw files are not supported: export as"):
        read_image(path)


def encoded(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def photo(kind, **options):
    return encoded(Image.fromarray(data.chelsea()), kind, **options)


DAMAGED = {
    "missing.png": (None, "does not exist"),
    "empty.png": (b"", "is empty"),
    "text.png": (b"this is no image, whatever it is called", "is not an image that can be read"),
    "text.tif": (b"this is no image, whatever it is called", "is damaged: not a TIFF file"),
    "zeros.jpg": (bytes(1000), "is not an image that can be read"),
    "header.png": (photo("PNG")[:20], "is damaged: "),
    "truncated.png": (photo("PNG")[:9000], "is damaged: "),
    "truncated.jpg": (photo("JPEG")[:9000], "is damaged: image file is truncated"),
    "truncated.webp": (photo("WEBP")[:900], "is damaged: "),
    "truncated.bmp": (photo("BMP")[:9000], "is damaged: "),
    "truncated.gif": (photo("GIF")[:9000], "is damaged: "),
    "truncated.tif": (photo("TIFF", compression="tiff_lzw")[:9000], "is "),
    "truncated16.png": (
        png(30, 20, bits=16, rows=np.insert(values(3, np.uint8), 0, 0, axis=1).tobytes()[:99]),
        "is damaged: ",
    ),
    "changed.png": (
        photo("PNG")[:9000] + b"\xff" * 500 + photo("PNG")[9500:],
        "is damaged: ",
    ),
    "bomb.png": (
        png(100_000, 100_000, rows=bytes(100)),
        "claims to have 10,000 megapixels: no more than 179 are read",
    ),
    "no pixels.png": (png(0, 7), "is "),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_errors_of_damaged_files_are_one_line_with_their_name(tmp_path, name):
    content, line = DAMAGED[name]
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ImageError) as caught:
        read_image(path)
    assert str(caught.value).startswith(f"{path} {line}")
    assert "\n" not in str(caught.value)


def test_a_folder_is_no_image(tmp_path):
    with pytest.raises(ImageError, match="is not a file"):
        read_image(tmp_path)


def test_large_photos_are_read_without_a_warning(tmp_path, monkeypatch):
    Image.fromarray(data.chelsea()).save(tmp_path / "x.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 300 * 451 - 1)  # the limit is twice this
    assert read_image(tmp_path / "x.png").pixels.colors.shape == (300, 451, 3)


def test_damaged_metadata_does_not_keep_the_image_from_being_read(tmp_path):
    image = Image.fromarray(values(3, np.uint8))
    image.save(tmp_path / "x.jpg", exif=b"Exif\0\0II*\0\xff\xff\xff\xff", icc_profile=b"damaged")
    read = read_image(tmp_path / "x.jpg")
    assert read.about.orientation == 1
    write_image(tmp_path / "y.jpg", read.pixels, read.about)
    assert read_image(tmp_path / "y.jpg").about.profile == b"damaged"


@pytest.mark.skipif(os.name == "nt", reason="permissions are another matter there")
def test_unreadable_files(tmp_path):
    path = tmp_path / "x.png"
    path.write_bytes(photo("PNG"))
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user reads everything")
    with pytest.raises(ImageError, match="cannot be read: Permission denied"):
        read_image(path)


def test_unknown_formats_are_refused(tmp_path):
    for name in ("x.xyz", "x", "x.gif"):
        with pytest.raises(ImageError, match=r"ends in .png, .jpg, .*, got .*x"):
            write_image(tmp_path / name, Pixels(values(3, np.uint8)), Metadata())


def test_errors_of_encoders_are_one_line(tmp_path):
    pixels = Pixels(np.zeros((1, 20_000, 1), np.uint8))
    with pytest.raises(ImageError, match=r"cannot write .*x.webp: ") as caught:
        write_image(tmp_path / "x.webp", pixels, Metadata())
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_more_exif_than_jpeg_holds_is_left_out_but_for_the_orientation(tmp_path):
    about = Metadata(exif(6) + bytes(70_000), PROFILE)
    path = tmp_path / "x.jpg"
    (note,) = write_image(path, Pixels(values(3, np.uint8)), about)
    assert note.startswith("JPEG holds 65,533 bytes of EXIF, and this image has 70,")
    read = read_image(path).about
    assert (read.orientation, read.profile) == (6, PROFILE)
    assert write_image(tmp_path / "x.png", Pixels(values(3, np.uint8)), about) == []


def test_a_name_may_be_as_long_as_the_system_lets_it(tmp_path):
    pixels = Pixels(values(3, np.uint8))
    path = tmp_path / ("x" * 251 + ".png")
    write_image(path, pixels, Metadata())
    assert np.array_equal(read_image(path).pixels.colors, pixels.colors)
    path = tmp_path / ("x" * 300 + ".png")
    with pytest.raises(ImageError, match=r"cannot write .*: File name too long"):
        write_image(path, pixels, Metadata())
    with pytest.raises(ImageError, match=r"cannot be read: File name too long"):
        read_image(path)


@pytest.mark.parametrize("suffix", ["png", "JPG", "gif", "tiff", "webp", "bmp", "avif", "HEIC"])
def test_files_that_are_taken_for_images(suffix):
    assert is_readable_suffix(Path(f"a.{suffix}"))


@pytest.mark.parametrize("name", ["a.txt", "a.pdf", "a.mpg", "a.h5", "a.CR2", "a", "png", "a.npy"])
def test_files_that_are_not(name):
    assert not is_readable_suffix(Path(name))


def test_what_cannot_be_written_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.png"
    path.write_bytes(b"precious")

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full)
    with pytest.raises(ImageError, match=r"cannot write .*x.png: No space left on device"):
        write_image(path, Pixels(values(3, np.uint8)), Metadata())
    assert path.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [path]
