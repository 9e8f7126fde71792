"""`jpeg` does what a program that writes JPEG does."""

import io

import numpy as np
import pytest
import skimage.data
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from fwnet.restoration.jpeg import COLOR_STEPS, SIDE, _cosines, _steps, jpeg, jpeg_color


def photo(height, width):
    camera = skimage.data.camera()[100 : 100 + height, 200 : 200 + width]
    return torch.from_numpy(camera / 255)[None, None]


def written(x, quality):
    """By Pillow."""
    file = io.BytesIO()
    levels = (255 * x[0, 0]).round().byte().numpy()
    Image.fromarray(levels).save(file, "JPEG", quality=quality)
    image = Image.open(file)
    return torch.from_numpy(np.asarray(image) / 255)[None, None], image.quantization[0]


@pytest.mark.parametrize("quality", [1, 10, 29, 30, 49, 50, 51, 75, 90, 100])
def test_agrees_with_a_program(quality):
    x = photo(93, 70)  # not whole blocks
    expected, table = written(x, quality)
    assert _steps(torch.tensor([float(quality)]))[0].flatten().tolist() == table
    found = jpeg(x, torch.tensor([quality]))
    # Programs transform with integers, which now and then rounds a coefficient the other way.
    assert (found - expected).abs().mean() < 0.1 * (expected - x).abs().mean() + 0.15 / 255


@given(
    st.integers(1, 30),
    st.integers(1, 30),
    st.integers(0, 7),
    st.integers(0, 7),
    st.integers(1, 100),
)
@settings(max_examples=30)
def test_a_part_that_begins_within_a_block_is_a_part_of_the_whole(
    height, width, top, left, quality
):
    whole, level = photo(40, 40), torch.tensor([quality])
    inside = (..., slice(top, top + height), slice(left, left + width))
    part = jpeg(whole[inside], level, (top, left))
    assert part.shape == whole[inside].shape
    # Whole blocks, which no border changes, are equal.
    rows, columns = ((-start % SIDE, (start + length) // SIDE * SIDE - start)
                     for start, length in ((top, height), (left, width)))  # fmt: skip
    blocks = (..., slice(*rows), slice(*columns))
    if rows[0] < rows[1] and columns[0] < columns[1]:
        torch.testing.assert_close(part[blocks], jpeg(whole, level)[inside][blocks])


def test_every_image_has_its_own_quality():
    x = photo(16, 16).repeat(2, 1, 1, 1)
    together = jpeg(x, torch.tensor([20, 90]))
    for index, quality in enumerate((20, 90)):
        alone = jpeg(x[:1], torch.tensor([quality]))
        torch.testing.assert_close(together[index : index + 1], alone)
    errors = (together - x).square().mean((1, 2, 3))
    assert errors[0] > 4 * errors[1]


def test_the_transform_is_orthonormal():
    basis = _cosines(torch.zeros(1, dtype=torch.float64))
    torch.testing.assert_close(basis @ basis.T, torch.eye(SIDE, dtype=torch.float64))


@pytest.mark.parametrize("halve", [False, True])
@pytest.mark.parametrize("quality", [30, 60, 75, 95])
def test_color_agrees_with_a_program(quality, halve):
    pixels = skimage.data.astronaut()[100:195, 200:279]  # odd sides
    file = io.BytesIO()
    subsampling = "4:2:0" if halve else "4:4:4"
    Image.fromarray(pixels).save(file, "JPEG", quality=quality, subsampling=subsampling)
    image = Image.open(file)
    table = _steps(torch.tensor([float(quality)]), COLOR_STEPS)[0]
    assert table.flatten().tolist() == image.quantization[1]
    x = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None] / 255
    found = jpeg_color(x, torch.tensor([quality]), halve=halve)
    expected = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None] / 255
    # Programs round brightness and colors to whole numbers on the way, and enlarge otherwise.
    assert (found - expected).abs().mean() < 0.1 * (expected - x).abs().mean() + 0.8 / 255
