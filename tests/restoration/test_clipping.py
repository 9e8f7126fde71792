"""Noise that was cut off at black and white."""

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import avg_pool2d

from fwnet.restoration.clipping import REACH, _mean_around, _table, unclipped


def noisy_field(level, noise, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return level + noise * torch.randn(1, 1, 96, 96, generator=generator)


@given(
    level=st.floats(0, 1), noise=st.floats(0.02, 0.25), seed=st.integers(0, 99), white=st.booleans()
)
def test_a_flat_field_gets_its_brightness_back(level, noise, seed, white):
    """A perfect network returns the mean of the noisy field, which is not its brightness."""
    level = level * 3 * noise  # within three deviations of black
    noisy = noisy_field(level, noise, seed).clamp(0, 1)
    if level + 4 * noise > 1:
        return  # cut off at both ends
    if white:
        noisy, level = 1 - noisy, 1 - level
    mean = noisy.mean().expand(noisy.shape)
    result = unclipped(mean, noisy)
    assert abs(result.mean() - level) < 0.1 * noise
    assert abs(result.mean() - level) <= abs(mean.mean() - level) + 0.05 * noise


def test_noise_far_from_black_and_white_changes_nothing():
    noisy = noisy_field(0.5, 0.05)
    denoised = torch.full_like(noisy, 0.5)
    torch.testing.assert_close(unclipped(denoised, noisy), denoised, rtol=0, atol=1e-6)


def test_images_without_noise_stay_exactly_as_they_are():
    image = torch.linspace(0, 1, 64).pow(4).expand(1, 3, 8, 64)
    assert torch.equal(unclipped(image, image), image)
    assert torch.equal(unclipped(1 - image, 1 - image), 1 - image)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 2, 5), (1, 1, 40, 3)])
def test_images_may_be_smaller_than_the_window(shape):
    image = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    assert unclipped(image / 2, image).shape == shape


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 2, 5), (1, 1, 40, 3), (1, 3, 21, 34)])
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_means_are_those_of_a_pooling(shape, order):
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0)).contiguous(
        memory_format=order
    )
    expected = avg_pool2d(x, 2 * REACH + 1, 1, REACH, count_include_pad=False)
    torch.testing.assert_close(_mean_around(x), expected, rtol=1e-6, atol=0)


def test_the_moments_of_cut_off_noise():
    """Deviation/mean and t/mean of max(t + n, 0) against integrals in 30 digits."""
    ratios, shares = _table()
    t_of = torch.linspace(8, 0, len(ratios), dtype=torch.float64)
    with mpmath.workdps(30):
        for index in (0, 900, 1500, len(ratios) - 1):
            t = mpmath.mpf(t_of[index].item())
            first, second = (
                mpmath.quad(lambda n, k=k, t=t: (t + n) ** k * mpmath.npdf(n), [-t, 0, 12])
                for k in (1, 2)
            )
            ratio = mpmath.sqrt(second - first**2) / first
            assert ratios[index].item() == pytest.approx(float(ratio), rel=1e-9)
            assert shares[index].item() == pytest.approx(float(t / first), rel=1e-9)
