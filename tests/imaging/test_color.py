"""YCbCr is MATLAB's, nothing is lost on the way there and back, and gray stays gray."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from skimage.color import rgb2ycbcr

from fwnet.data import to_luma
from fwnet.imaging.color import gray_to_luma, luma_to_gray, rgb_to_ycbcr, ycbcr_to_rgb

seeds = st.integers(0, 10_000)
sides = st.integers(1, 9)


def pictures(height, width, seed, low=0.0, high=1.0):
    generator = torch.Generator().manual_seed(seed)
    rgb = torch.rand(2, 3, height, width, dtype=torch.float64, generator=generator)
    return low + (high - low) * rgb


@given(sides, sides, seeds)
def test_there_and_back(height, width, seed):
    rgb = pictures(height, width, seed, -1, 2)  # noise may lead out of the range
    torch.testing.assert_close(ycbcr_to_rgb(rgb_to_ycbcr(rgb)), rgb, rtol=0, atol=1e-12)
    torch.testing.assert_close(rgb_to_ycbcr(ycbcr_to_rgb(rgb)), rgb, rtol=0, atol=1e-12)
    back = ycbcr_to_rgb(rgb_to_ycbcr(rgb.float()))
    torch.testing.assert_close(back, rgb.float(), rtol=0, atol=2e-6)


@given(sides, sides, seeds)
def test_it_is_that_of_matlab(height, width, seed):
    """Whose matrices have three digits behind the point."""
    rgb = pictures(height, width, seed)
    ours = 255 * rgb_to_ycbcr(rgb).permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(ours, rgb2ycbcr(rgb.permute(0, 2, 3, 1).numpy()), atol=1e-3)


@given(sides, sides, seeds)
def test_luma_is_that_of_data_sets(height, width, seed):
    pixels = (255 * pictures(height, width, seed)[0]).round()
    luma = 255 * rgb_to_ycbcr(pixels / 255)[0].numpy()
    whole = to_luma(pixels.permute(1, 2, 0).numpy().astype(np.uint8))[..., 0]
    assert abs(luma - whole).max() <= 0.5 + 1e-9


@given(sides, sides, seeds)
def test_gray_has_the_luma_of_its_copy_in_color(height, width, seed):
    gray = pictures(height, width, seed)[:, :1]
    luma, *chroma = rgb_to_ycbcr(gray.expand(-1, 3, -1, -1)).unbind(1)
    torch.testing.assert_close(gray_to_luma(gray)[:, 0], luma, rtol=0, atol=1e-12)
    for one in chroma:
        torch.testing.assert_close(one, torch.full_like(one, 128 / 255), rtol=0, atol=1e-12)
    torch.testing.assert_close(luma_to_gray(gray_to_luma(gray)), gray, rtol=0, atol=1e-12)


def test_corners():
    rgb = torch.tensor([[0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 0, 1.0]])[..., None, None]
    expected = [[16, 128, 128], [235, 128, 128], [81.481, 90.203, 240], [40.966, 240, 109.786]]
    found = 255 * rgb_to_ycbcr(rgb)[..., 0, 0]
    torch.testing.assert_close(found, torch.tensor(expected), rtol=0, atol=1e-3)
