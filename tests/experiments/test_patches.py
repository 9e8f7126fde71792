"""Denoising by sparse codes of patches is the formula of Elad and Aharon, and removes noise."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import orthogonal_mp

from fwnet.data import ImageSet
from fwnet.experiments import patches
from fwnet.experiments.patches import BLEND, GAIN, denoise_ksvd, patch_dictionary
from fwnet.metrics import psnr


def waves(height=48, width=40, seed=0):
    """An image with stripes, edges and flat places, (height, width) in [0, 1]."""
    generator = torch.Generator().manual_seed(seed)
    a, b, c = torch.rand(3, generator=generator)
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    stripes = 0.5 + 0.25 * torch.sin(0.5 * (x * (1 + a) + y * (b - 0.5)))
    return torch.where(x + y < (height + width) * (0.3 + 0.3 * c), stripes, 0.2 + 0.5 * c)


def noisy_waves(sigma=0.1, **options):
    clean = waves(**options)[None, None]
    generator = torch.Generator().manual_seed(1)
    return clean + sigma * torch.randn(clean.shape, generator=generator), clean


def wave_set(seeds):
    arrays = [(255 * waves(seed=seed)).byte()[..., None].numpy() for seed in seeds]
    return ImageSet.of(arrays, [str(seed) for seed in seeds])


@pytest.fixture(scope="module")
def dictionary():
    return patch_dictionary(wave_set(range(1, 9)), 96, num_patches=3000, num_rounds=10)


def by_hand(x, sigma, dictionary):
    """One patch after the other, in numpy, with scikit-learn's pursuit."""
    atoms, x = dictionary.double().numpy(), x.double().numpy()
    size = round(len(atoms) ** 0.5)
    total, count = BLEND / sigma * x, np.full_like(x, BLEND / sigma)
    limit = (GAIN * sigma) ** 2 * size**2
    for top in range(x.shape[0] - size + 1):
        for left in range(x.shape[1] - size + 1):
            place = slice(top, top + size), slice(left, left + size)
            patch = x[place].flatten()
            rebuilt = np.full_like(patch, patch.mean())
            if ((patch - patch.mean()) ** 2).sum() > limit:
                rebuilt += atoms @ orthogonal_mp(atoms, patch - patch.mean(), tol=limit)
            total[place] += rebuilt.reshape(size, size)
            count[place] += 1
    return torch.from_numpy(total / count)


@pytest.mark.parametrize(("height", "width"), [(13, 17), (8, 11), (8, 8)])
@pytest.mark.parametrize("sigma", [0.1, 0.03])
def test_is_the_formula(dictionary, height, width, sigma):
    x, _ = noisy_waves(height=height, width=width)
    y = denoise_ksvd(x.double(), sigma, dictionary)
    assert y.shape == x.shape
    expected = by_hand(x[0, 0], sigma, dictionary)
    torch.testing.assert_close(y[0, 0], expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("chunk", [1, 33, 100, 10**6])
def test_chunks_make_no_difference(dictionary, chunk, monkeypatch):
    x, _ = noisy_waves()
    whole = denoise_ksvd(x, 0.1, dictionary)
    monkeypatch.setitem(patches.CHUNK_PATCHES, "cpu", chunk)
    torch.testing.assert_close(denoise_ksvd(x, 0.1, dictionary), whole, atol=1e-5, rtol=1e-5)


def test_images_of_a_batch_are_as_they_are_alone(dictionary):
    first, second = noisy_waves()[0], noisy_waves(seed=3)[0]
    both = denoise_ksvd(torch.cat([first, second]), 0.1, dictionary)
    for index, x in enumerate((first, second)):
        alone = denoise_ksvd(x, 0.1, dictionary)
        torch.testing.assert_close(both[index : index + 1], alone)
    assert denoise_ksvd(first[:0], 0.1, dictionary).shape == (0, 1, 48, 40)


@pytest.mark.parametrize("sigma", [0.05, 0.1, 0.2])
def test_removes_noise(dictionary, sigma):
    x, clean = noisy_waves(sigma)
    before = x.clone()
    y = denoise_ksvd(x, sigma, dictionary)
    assert psnr(y, clean) > psnr(x, clean) + 4
    assert torch.equal(x, before)
    assert y.dtype == torch.float32


def test_flat_images_stay_flat(dictionary):
    flat = torch.full((1, 1, 20, 20), 0.3)
    torch.testing.assert_close(denoise_ksvd(flat, 0.1, dictionary), flat)


def test_a_dictionary_has_atoms_of_norm_1_without_mean():
    one, two = (
        patch_dictionary(wave_set(range(4)), 40, num_patches=500, num_rounds=3) for _ in range(2)
    )
    assert one.shape == (64, 40)
    assert torch.equal(one, two)
    torch.testing.assert_close(one.norm(dim=0), torch.ones(40))
    # The patches have no mean; float32 leaves little to atoms that were learned from small rests.
    torch.testing.assert_close(one.mean(0), torch.zeros(40), atol=1e-4, rtol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_same(dictionary):
    x, _ = noisy_waves()
    options = {"dictionary": dictionary.double()}
    y = denoise_ksvd(x.double().cuda(), 0.1, **options)
    assert y.is_cuda
    expected = denoise_ksvd(x.double(), 0.1, **options)
    torch.testing.assert_close(y.cpu(), expected, atol=1e-8, rtol=1e-8)
