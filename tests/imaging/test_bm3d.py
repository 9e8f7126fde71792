"""BM3D is what its package makes of an image; without the package, the message says what to do."""

import importlib.util
import sys
from types import SimpleNamespace

import pytest
import torch

from fwnet.imaging.bm3d import denoise_bm3d
from fwnet.metrics import psnr

installed = importlib.util.find_spec("bm3d") is not None


@pytest.fixture
def calls(monkeypatch):
    """A stand-in for the package, which halves images; what it was called with."""
    heard = []

    def bm3d(image, sigma, profile):
        heard.append((image, sigma, profile.num_threads))
        return image[..., None] / 2  # a channel more, as some versions return it

    module = SimpleNamespace(bm3d=bm3d, BM3DProfile=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "bm3d", module)
    return heard


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_images_go_one_by_one_in_float64(calls, dtype):
    image = torch.rand(3, 1, 9, 12, dtype=dtype)
    y = denoise_bm3d(image, 25 / 255)
    assert y.dtype == dtype
    torch.testing.assert_close(y, image / 2)
    assert [one.shape for one, _, _ in calls] == [(9, 12)] * 3
    assert all(one.dtype == "float64" for one, _, _ in calls)
    assert [rest for _, *rest in calls] == [[25 / 255, 1]] * 3  # the same result every time
    denoise_bm3d(image[:1], 0.1, num_threads=0)
    assert calls[-1][2] == 0


def test_no_gradients_and_empty_batches(calls):
    image = torch.rand(1, 1, 9, 9, requires_grad=True)
    assert not denoise_bm3d(image, 0.1).requires_grad
    assert denoise_bm3d(image[:0], 0.1).shape == (0, 1, 9, 9)


def test_says_how_to_install_it_and_for_whom_it_is(monkeypatch):
    monkeypatch.setitem(sys.modules, "bm3d", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[bm3d\]' in the clone.*non-commercial"):
        denoise_bm3d(torch.zeros(1, 1, 9, 9), 0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image": torch.zeros(9, 9)}, r"\(batch, 1, height, width\), got \(9, 9\)"),
        ({"sigma": 25.0}, "sigma=25/255.*got 25.0"),
        ({"num_threads": -1}, "num_threads must be >= 0, got -1"),
    ],
)
def test_says_what_was_expected(calls, options, message):
    with pytest.raises(ValueError, match=message):
        denoise_bm3d(**{"image": torch.zeros(1, 1, 9, 9), "sigma": 0.1, **options})
    assert not calls


@pytest.mark.skipif(not installed, reason="needs the package bm3d")
def test_removes_noise():
    y, x = torch.meshgrid(torch.arange(48), torch.arange(64), indexing="ij")
    clean = (0.5 + 0.3 * torch.sin(0.4 * x + 0.1 * y))[None, None]
    noisy = clean + 0.1 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    found = denoise_bm3d(noisy, 0.1)
    assert found.dtype == torch.float32
    assert psnr(found, clean) > psnr(noisy, clean) + 8
    assert torch.equal(found, denoise_bm3d(noisy, 0.1))
