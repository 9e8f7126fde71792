import math

import numpy as np
import pytest
import torch
from skimage.metrics import structural_similarity

from fwnet.metrics import as_displayed, error_rate, psnr, shave, ssim


def images(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def test_error_rate_counts_what_is_misread():
    scores = torch.tensor([[0.1, 0.9], [0.8, 0.2], [0.4, 0.6], [1.0, 0.0]])
    assert error_rate(scores, torch.tensor([1, 0, 0, 0])) == 0.25
    with pytest.raises(ValueError, match=r"of scores.*, \(4,\), got \(3,\)"):
        error_rate(scores, torch.tensor([1, 0, 0]))


def test_psnr_by_hand():
    clean = images(3, 2, 7, 5)
    image = clean + 0.1 * (images(3, 2, 7, 5, seed=1) - 0.5)
    figures = psnr(image, clean)
    assert figures.dtype == torch.float64
    assert figures.shape == (3,)
    for i in range(3):
        ours = np.clip(image[i].double().numpy(), 0, 1)
        error = np.mean((ours - clean[i].double().numpy()) ** 2)
        assert figures[i].item() == pytest.approx(10 * math.log10(1 / error), rel=1e-12)


def test_psnr_of_simple_errors():
    clean = torch.full((2, 1, 4, 4), 0.5, dtype=torch.float64)
    assert psnr(clean + 0.1, clean).tolist() == pytest.approx([20, 20])
    assert psnr(clean, clean).tolist() == [math.inf, math.inf]


def test_what_a_display_cannot_show_is_cut_off():
    clean = torch.ones(1, 1, 16, 16)
    assert psnr(clean + 0.7, clean).item() == math.inf
    assert ssim(clean + 0.7, clean).item() == 1
    dark = images(1, 1, 16, 16) - 0.5
    assert psnr(dark, clean - 1) == psnr(dark.clamp(min=0), clean - 1)
    assert ssim(dark, clean - 1) == ssim(dark.clamp(min=0), clean - 1)


@pytest.mark.parametrize("channels", [1, 3])
def test_ssim_is_the_mean_over_channels_of_that_of_scikit_image(channels):
    clean = images(2, channels, 17, 14)
    image = (clean + 0.2 * (images(2, channels, 17, 14, seed=1) - 0.5)).clamp(0, 1)
    figures = ssim(image, clean)
    for i in range(2):
        theirs = [
            structural_similarity(
                image[i, c].double().numpy(),
                clean[i, c].double().numpy(),
                data_range=1.0,
                gaussian_weights=True,
                sigma=1.5,
                use_sample_covariance=False,
            )
            for c in range(channels)
        ]
        assert figures[i].item() == pytest.approx(np.mean(theirs), rel=1e-12)
    assert ((figures > 0) & (figures < 1)).all()
    assert ssim(clean, clean).tolist() == pytest.approx([1, 1])


@pytest.mark.parametrize("metric", [psnr, ssim])
def test_images_of_different_shapes_are_refused(metric):
    message = r"of the clean ones, \(2, 1, 16, 16\), got \(1, 1, 16, 16\)"
    with pytest.raises(ValueError, match=message):
        metric(images(1, 1, 16, 16), images(2, 1, 16, 16))


def test_ssim_needs_batch_and_channel():
    """A channel taken for a batch would give a figure, and a wrong one."""
    with pytest.raises(ValueError, match=r"\(batch, channel, height, width\), got \(3, 16, 16\)"):
        ssim(images(3, 16, 16), images(3, 16, 16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_as_displayed_is_what_a_file_with_8_bits_keeps(dtype):
    y = (3 * images(2, 1, 30, 40) - 1).to(dtype)
    shown = as_displayed(y)
    assert shown.dtype == dtype
    levels = np.rint(255 * y.double().clamp(0, 1).numpy()).astype(np.uint8)
    # Equal to the last bit, or an image that is perfect would have a finite PSNR.
    assert torch.equal(shown, torch.from_numpy(levels).to(dtype) / 255)
    assert torch.equal(as_displayed(shown), shown)


def test_shaved_images():
    x = images(2, 3, 7, 9)
    assert torch.equal(shave(x, 0), x)
    assert torch.equal(shave(x, 2), x[:, :, 2:5, 2:7])
    assert shave(x, 3).shape == (2, 3, 1, 3)
    assert shave(x[0, 0], 3).shape == (1, 3)
    for border in (-1, 4, 5):
        message = f"border must be >= 0 and leave pixels of 7 × 9, got {border}"
        with pytest.raises(ValueError, match=message):
            shave(x, border)


def test_errors_at_the_border_do_not_count_when_it_is_shaved():
    clean = images(1, 1, 20, 20)
    spoiled = clean.clone()
    spoiled[..., :3, :] = spoiled[..., -3:] = 0
    assert psnr(shave(spoiled, 3), shave(clean, 3)).item() == math.inf
    assert psnr(shave(spoiled, 2), shave(clean, 2)).item() < 20
