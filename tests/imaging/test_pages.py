"""TIFF files of several pages: every page is read, and descriptions stay true."""

import struct

import numpy as np
import pytest
import tifffile
from PIL import Image

from fwnet.imaging.image_files import read_image, write_image, write_pages
from fwnet.imaging.metadata import Metadata
from fwnet.imaging.pixels import Pixels
from tests.imaging.samples import values

COUNTED = "ImageJ=1.53t\nimages={}\nslices={}\nunit=micron\n"


def pages_of(path):
    return [read_image(path, page) for page in read_image(path).pages]


def write_stack(path, stack, claimed, **options):
    """A stack as ImageJ writes it: one image after the other."""
    text = COUNTED.format(claimed, claimed)
    shown = {"photometric": "minisblack", "resolution": (3.25, 3.25), "resolutionunit": "none"}
    tifffile.imwrite(path, stack, description=text, metadata=None, **shown, **options)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("channels", [(), (3,)])
def test_stacks(tmp_path, dtype, channels):
    stack = values((4, 9, 7, *channels), dtype)
    kind = "rgb" if channels else "minisblack"
    tifffile.imwrite(tmp_path / "x.tif", stack, photometric=kind, compression="zlib")
    found = pages_of(tmp_path / "x.tif")
    assert np.array_equal(
        [page.pixels.channels().reshape(stack.shape[1:]) for page in found], stack
    )
    assert found[0].notes == ()


def test_pages_of_every_kind(tmp_path):
    """Each in its own size and depth, as a scanner of documents may write them."""
    arrays = [values(shape, np.uint8) for shape in ((9, 7), (9, 7, 3), (20, 5, 3))]
    images = [Image.fromarray(array) for array in arrays]
    images += [images[0].convert("1"), images[1].convert("P"), images[1].convert("CMYK")]
    path = tmp_path / "x.tif"
    images[0].save(path, save_all=True, append_images=images[1:])
    tifffile.imwrite(path, values((6, 8, 4), np.uint16), photometric="rgb", append=True)
    found = pages_of(path)
    shapes = [page.pixels.channels().shape for page in found]
    assert shapes == [(9, 7, 1), (9, 7, 3), (20, 5, 3), (9, 7, 1), (9, 7, 3), (9, 7, 3), (6, 8, 4)]
    for page, array in zip(found, arrays, strict=False):
        assert np.array_equal(page.pixels.channels().squeeze(), array)
    written = tmp_path / "y.tif"
    write_pages(written, ((page.pixels, page.about) for page in found), 1000, None)
    for page, again in zip(found, pages_of(written), strict=True):
        assert again.pixels.colors.dtype == page.pixels.colors.dtype
        assert np.array_equal(again.pixels.channels(), page.pixels.channels())
        assert again.about.dpi is None


def test_pages_that_pillow_cannot_open(tmp_path):
    path, stack = tmp_path / "x.tif", values((3, 9, 7, 2), np.uint16)
    options = {"extrasamples": ["unassalpha"], "planarconfig": "contig"}
    tifffile.imwrite(path, stack, photometric="minisblack", **options)
    assert np.array_equal([page.pixels.channels() for page in pages_of(path)], stack)


def test_pages_in_a_circle_are_counted_once(tmp_path):
    """A damaged file, whose last page names the first one as the next."""
    path = tmp_path / "x.tif"
    with tifffile.TiffWriter(path) as writer:
        for page in values((3, 9, 7), np.uint8):
            writer.write(page, photometric="minisblack", metadata=None)
    with tifffile.TiffFile(path) as opened:
        first, last = opened.pages[0].offset, opened.pages[2].offset
        count = len(opened.pages[2].tags)
    with path.open("r+b") as file:
        file.seek(last + 2 + 12 * count)
        file.write(struct.pack("<I", first))
    assert read_image(path).pages == (0, 1, 2)


def test_smaller_copies_and_masks_are_no_pages(tmp_path):
    with tifffile.TiffWriter(tmp_path / "x.tif") as writer:
        for kind in (0, 1, 2, 4):
            array = values((9, 7), np.uint8) > 100  # masks have one bit
            writer.write(array, photometric="minisblack", subfiletype=kind)
    assert read_image(tmp_path / "x.tif").pages == (0, 2)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_a_stack_of_imagej_stays_one(tmp_path, dtype):
    stack = values((5, 9, 7), dtype)
    write_stack(tmp_path / "x.tif", stack, 5)
    found = pages_of(tmp_path / "x.tif")
    text = found[0].description
    assert text == COUNTED.format(5, 5)
    pages = [(page.pixels, page.about.enlarged(7, 9, 2)) for page in found]
    write_pages(tmp_path / "y.tif", pages, stack.nbytes, text)
    with tifffile.TiffFile(tmp_path / "y.tif") as file:
        assert (file.is_imagej, file.is_bigtiff, len(file.pages)) == (True, False, 5)
        starts = [page.dataoffsets[0] for page in file.pages]
        assert set(np.diff(starts)) == {stack[0].nbytes}  # where ImageJ looks for them
        assert np.array_equal(file.asarray(), stack)
        tags = file.pages.first.tags
        assert tags["ImageDescription"].value == text.strip()
        across, per = tags["XResolution"].value
        assert (across / per, tags["ResolutionUnit"].value) == (6.5, 1)


def test_a_description_that_counts_is_kept_only_if_it_is_true(tmp_path):
    path = tmp_path / "x.tif"
    write_stack(path, values((5, 9, 7), np.uint16), 6)
    assert read_image(path).description is None
    write_stack(path, values((5, 9, 7), np.uint16), 5)
    read = read_image(path)
    for suffix in (".tif", ".png", ".jpg"):
        write_image(tmp_path / f"y{suffix}", read.pixels, read.about)
        with Image.open(tmp_path / f"y{suffix}") as image:
            assert 0x010E not in image.getexif()
    for text in ('{"shape": [5, 9, 7]}', '<?xml version="1.0"?><OME>', "A cat, and no count"):
        Image.new("L", (9, 7)).save(path, description=text)
        kept = read_image(path).about.exif
        assert (b"A cat" in kept) if text.startswith("A") else (kept is None)


def test_a_stack_with_one_directory(tmp_path):
    """So ImageJ writes more than 4 GB."""
    stack = values((5, 9, 7), np.uint16)
    write_stack(tmp_path / "x.tif", stack, 5, truncate=True)
    read = read_image(tmp_path / "x.tif")
    assert np.array_equal(read.pixels.colors[..., 0], stack[0])
    assert read.notes == ("only the first of 5 images is used",)
    assert (read.pages, read.description) == ((0,), None)


def test_more_than_four_gigabytes_are_a_bigtiff(tmp_path):
    pages = [(Pixels(values((9, 7, 1), np.uint8)), Metadata())] * 2
    write_pages(tmp_path / "x.tif", pages, 2**32, None)
    with tifffile.TiffFile(tmp_path / "x.tif") as file:
        assert file.is_bigtiff
    assert read_image(tmp_path / "x.tif").pages == (0, 1)
