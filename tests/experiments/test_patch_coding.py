"""Denoising by sparse codes of patches is the formula of Elad and Aharon, and removes noise."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import orthogonal_mp

from fwnet.data.images import ImageSet
from fwnet.experiments.patch_coding import denoise_ksvd, patch_dictionary
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


@pytest.fixture(scope="module")
def dictionary():
    images = [waves(seed=seed) for seed in range(1, 9)]
    return patch_dictionary(images, 96, num_patches=3000, num_rounds=10, batch_size=2000)


def by_hand(x, sigma, dictionary, gain, blend):
    """One patch after the other, in numpy, with scikit-learn's pursuit."""
    atoms, x = dictionary.double().numpy(), x.double().numpy()
    size = round(len(atoms) ** 0.5)
    total, count = blend / sigma * x, np.full_like(x, blend / sigma)
    limit = (gain * sigma) ** 2 * size**2
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
@pytest.mark.parametrize("options", [{"gain": 1.15, "blend": 0.1}, {"gain": 0.9, "blend": 0.0}])
def test_is_the_formula(dictionary, height, width, options):
    x, _ = noisy_waves(height=height, width=width)
    y = denoise_ksvd(x.double(), 0.1, dictionary, **options)
    assert y.shape == x.shape
    expected = by_hand(x[0, 0], 0.1, dictionary, **options)
    torch.testing.assert_close(y[0, 0], expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("chunk", [1, 33, 100, 10**6])
def test_chunks_make_no_difference(dictionary, chunk):
    x, _ = noisy_waves()
    torch.testing.assert_close(
        denoise_ksvd(x, 0.1, dictionary, chunk_patches=chunk),
        denoise_ksvd(x, 0.1, dictionary),
        atol=1e-5,
        rtol=1e-5,
    )


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


def test_limits_of_its_settings(dictionary):
    x, _ = noisy_waves()
    # All of x, and nothing of its codes; and codes of all that x is.
    torch.testing.assert_close(denoise_ksvd(x, 0.1, dictionary, blend=1e9), x)
    torch.testing.assert_close(
        denoise_ksvd(x, 0.1, dictionary, gain=0.0, blend=0.0), x, atol=1e-4, rtol=1e-4
    )
    flat = torch.full((1, 1, 20, 20), 0.3)
    torch.testing.assert_close(denoise_ksvd(flat, 0.1, dictionary), flat)


def test_a_dictionary_is_made_by_its_seed():
    images = [waves(seed=seed) for seed in range(4)]
    options = {"num_atoms": 40, "patch_size": 6, "num_patches": 500, "num_rounds": 3}
    one, two, three = (patch_dictionary(images, **options, seed=seed) for seed in (0, 0, 1))
    assert one.shape == (36, 40)
    assert torch.equal(one, two)
    assert not torch.equal(one, three)
    torch.testing.assert_close(one.norm(dim=0), torch.ones(40))
    # The patches have no mean; float32 leaves little to atoms that were learned from small rests.
    torch.testing.assert_close(one.mean(0), torch.zeros(40), atol=1e-4, rtol=0)


def test_a_set_of_images_serves_as_well_as_a_list():
    arrays = [(255 * waves(seed=seed)).byte()[..., None].numpy() for seed in range(2)]
    images = ImageSet.of(arrays, ["one", "two"])
    options = {"num_atoms": 20, "num_patches": 300, "num_rounds": 2}
    listed = [images[index][0, 0] for index in range(2)]
    assert torch.equal(patch_dictionary(images, **options), patch_dictionary(listed, **options))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_same(dictionary):
    x, _ = noisy_waves()
    options = {"dictionary": dictionary.double()}
    y = denoise_ksvd(x.double().cuda(), 0.1, **options)
    assert y.is_cuda
    expected = denoise_ksvd(x.double(), 0.1, **options)
    torch.testing.assert_close(y.cpu(), expected, atol=1e-8, rtol=1e-8)
    images = [waves(seed=seed).cuda() for seed in range(2)]
    assert patch_dictionary(images, 20, num_patches=300, num_rounds=2).is_cuda


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image": torch.zeros(20, 20)}, r"\(batch, 1, height, width\), got \(20, 20\)"),
        ({"image": torch.zeros(1, 3, 20, 20)}, r"got \(1, 3, 20, 20\)"),
        ({"image": torch.zeros(1, 1, 7, 20)}, "at least 8 × 8 pixels, got 7 × 20"),
        ({"image": torch.full((1, 1, 9, 9), torch.nan)}, "finite"),
        ({"sigma": 25.0}, r"sigma must be in \(0, 1\].*sigma=25/255.*got 25.0"),
        ({"sigma": 0.0}, r"sigma must be in \(0, 1\].*got 0.0"),
        ({"dictionary": torch.zeros(60, 4)}, r"square patch, got \(60, 4\); this may be"),
        ({"dictionary": torch.zeros(60, 5)}, r"square patch, got \(60, 5\)$"),
        ({"gain": -1.0}, "gain must be >= 0, got -1.0"),
        ({"blend": -1.0}, "blend must be >= 0, got -1.0"),
        ({"chunk_patches": 0}, "chunk_patches must be >= 1, got 0"),
    ],
)
def test_says_what_was_expected(dictionary, options, message):
    arguments = {"image": torch.zeros(1, 1, 9, 9), "sigma": 0.1, "dictionary": dictionary}
    with pytest.raises(ValueError, match=message):
        denoise_ksvd(**{**arguments, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"images": []}, "expected at least one image, got none"),
        ({"images": [torch.zeros(3, 20, 20)]}, r"must be gray.*got \(3, 20, 20\)"),
        ({"images": [torch.zeros(5, 20)]}, "at least 8 × 8 pixels, got 5 × 20"),
        ({"images": [torch.zeros(20, 20)]}, "patches that vary by more than error=0.05"),
        ({"num_atoms": 0}, "num_atoms must be an integer >= 1, got 0"),
        ({"error": 0.0}, "error must be > 0, got 0.0"),
    ],
)
def test_a_dictionary_says_what_was_expected(options, message):
    with pytest.raises(ValueError, match=message):
        patch_dictionary(**{"images": [waves()], "error": 0.05, **options})
