"""The noise level of photos, by the shipped networks."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from skimage import data

from fwnet.imaging import ImageError, estimate_noise, noise_level, photo_noise
from fwnet.models import NoiseLevelNet
from fwnet.restoration import shots

PICTURES = {"chelsea": data.chelsea, "astronaut": data.astronaut, "coffee": data.coffee}


def with_noise(name, sigma):
    clean = PICTURES[name]()
    noise = np.random.default_rng(1).standard_normal(clean.shape)
    return np.rint(clean + sigma * noise).clip(0, 255).astype(np.uint8)


def saved(pixels, quality):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality)
    return np.array(Image.open(file))


@pytest.mark.parametrize("sigma", [10, 25, 50])
@pytest.mark.parametrize("name", PICTURES)
def test_white_noise(name, sigma):
    assert 255 * noise_level(with_noise(name, sigma)) == pytest.approx(sigma, rel=0.25)


@pytest.mark.parametrize("quality", [75, 95])
@pytest.mark.parametrize("name", ["coffee", "astronaut"])
def test_white_noise_in_a_jpeg_file(name, quality):
    """Compression takes noise away, so that the classical estimate is far too small."""
    pixels = saved(with_noise(name, 25), quality)
    assert 255 * noise_level(pixels) == pytest.approx(25, rel=0.35)
    assert 255 * estimate_noise(pixels) < 19


@pytest.mark.parametrize("name", PICTURES)
def test_little_in_clean_pictures(name):
    clean = PICTURES[name]()
    assert 255 * noise_level(clean) < 3
    assert 255 * noise_level(saved(clean, 92)) < 3


@pytest.mark.parametrize("seen", [0.0, 1.5])
def test_weak_noise_must_be_seen_in_the_finest_details(monkeypatch, seen):
    monkeypatch.setattr(photo_noise, "estimate_noise", lambda *_: seen / 255)
    coffee = data.coffee()
    for level, expected in ((3.9, seen), (1.2, min(seen, 1.2)), (4.1, 4.1)):
        monkeypatch.setattr(photo_noise, "sigma_of", lambda _, level=level: level / 255)
        assert 255 * noise_level(coffee) == pytest.approx(expected)


@pytest.mark.parametrize("picture", [data.gravel, data.grass])
def test_texture_that_fills_an_image_is_no_noise(picture):
    clean = picture()
    for pixels in (clean, saved(clean, 90)):
        assert noise_level(pixels[..., None]) == 0


def test_noise_that_is_stronger_than_half_of_the_texture_counts():
    noise = np.random.default_rng(0).standard_normal((512, 512))
    for sigma, expected in ((25, pytest.approx(25, rel=0.1)), (5, 0)):
        noisy = (data.gravel() + sigma * noise).round().clip(0, 255).astype(np.uint8)
        assert 255 * noise_level(noisy[..., None]) == expected


def test_white_noise_varies_as_much_at_both_scales_and_planes_not_at_all():
    plane = torch.linspace(0, 0.3, 512)[:, None] + torch.linspace(0, 0.5, 480)
    noise = 0.1 * torch.randn(2, 512, 487, generator=torch.Generator().manual_seed(0))
    noise[:, :, :480] += plane
    fine, coarse, mean = photo_noise._variation(noise).T
    assert len(fine) == 32 * 30
    assert fine.mean() == pytest.approx(0.01, rel=0.02)
    assert coarse.mean() == pytest.approx(0.01, rel=0.05)
    assert mean.mean() == pytest.approx(plane.mean().item(), rel=0.01)
    assert photo_noise._variation(plane[None])[:, :2].max() < 1e-9


def test_the_flattest_blocks_away_from_black_and_white():
    fine, coarse, mean = torch.rand(3, 500, generator=torch.Generator().manual_seed(0))
    fine, coarse, mean = fine + 4, coarse + 100, mean.clamp(0.3, 0.7)
    fine[:10], coarse[:10] = 1, 5
    fine[10:20], coarse[10:20] = 4, 8
    fine[20:40], mean[20:30], mean[30:40] = 0, 0.1, 0.9
    variation = torch.stack([fine, coarse, mean], 1)
    assert photo_noise._flattest(variation, 0.2)[:2] == (1, pytest.approx(3**0.5))
    assert photo_noise._flattest(variation[10:], 0.2)[:2] == (2, 0)  # white noise in a JPEG file
    assert photo_noise._flattest(variation, 0.51) == (0, 0, 0)  # nothing is left


def test_a_tenth_of_all_blocks_varies_less():
    fine, coarse = torch.ones(101), torch.arange(101.0)[torch.randperm(101)]
    variation = torch.stack([fine, coarse + 2, torch.full((101,), 0.5)], 1)
    assert photo_noise._flattest(variation, 0.1)[2] == pytest.approx(10**0.5)


@pytest.mark.parametrize(("flat", "counts"), [(0.2, True), (0.05, False)])
def test_noise_needs_a_flat_part_where_it_is_seen(monkeypatch, flat, counts):
    """Smooth variation all over a photo is texture, even if there are some flatter places."""
    white = torch.randn(1, 3, 512, 512, generator=torch.Generator().manual_seed(0))
    variation = shots._blurred(white, torch.full((1, 1, 1, 1), 2.0))
    variation *= 10 / 255 / shots.effective_sigma(variation)
    variation[..., : int(512 * flat)] *= 0.4
    pixels = (255 * (0.5 + variation)).round().byte()[0].permute(1, 2, 0).numpy()
    monkeypatch.setattr(photo_noise, "sigma_of", lambda _: 6 / 255)
    assert (255 * noise_level(pixels) == pytest.approx(6)) == counts
    assert counts or 255 * noise_level(pixels) < 1


def test_weak_white_noise_in_a_jpeg_file_of_a_textured_photo():
    """Texture fills the cat's photo, but the flattest blocks, too, show the noise."""
    pixels = saved(with_noise("chelsea", 5), 85)
    assert 255 * noise_level(pixels) == pytest.approx(5, rel=0.25)


def test_smooth_noise_as_cameras_make_it():
    """Its finest part is missing, where the classical estimate looks."""
    clean = torch.from_numpy(data.astronaut().copy()).permute(2, 0, 1)[None] / 255
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    smooth = shots._blurred(noise, torch.full((1, 1, 1, 1), 1.0))
    smooth *= 10 / 255 / shots.effective_sigma(smooth)
    pixels = (255 * (clean + smooth)).round().clamp(0, 255).byte()[0].permute(1, 2, 0).numpy()
    assert 255 * noise_level(pixels) == pytest.approx(10, rel=0.4)
    assert 255 * estimate_noise(pixels) < 4


def test_every_dtype_has_the_same_scale():
    image = with_noise("coffee", 20)[:160, :160]
    expected = pytest.approx(noise_level(image), rel=1e-3)
    assert noise_level(image.astype(np.uint16) * 257) == expected
    assert noise_level(image / 255) == expected


def test_hidden_pixels_do_not_count():
    image = with_noise("coffee", 20)
    opaque = np.zeros(image.shape[:2], bool)
    opaque[64:320, 64:320] = True
    hidden = image.copy()
    hidden[~opaque] = 128
    assert 255 * noise_level(hidden, opaque) == pytest.approx(20, rel=0.25)
    assert 255 * noise_level(hidden) < 10


def test_blocks_that_are_partly_hidden_do_not_count():
    opaque = np.ones((40, 50), bool)
    opaque[20, 3] = False
    assert photo_noise._whole_blocks(opaque).tolist() == [True, True, True, False, True, True]


@pytest.mark.parametrize("shape", [(15, 300, 3), (1, 1, 1), (8, 8, 3)])
def test_in_tiny_images_noise_looks_like_detail(shape):
    assert noise_level(np.random.default_rng(0).random(shape)) == 0


@pytest.mark.parametrize("shape", [(31, 300, 3), (16, 16, 1)])
def test_small_images_are_left_to_the_classical_estimate(shape):
    image = np.random.default_rng(0).random(shape)
    assert noise_level(image) == estimate_noise(image) > 0


@pytest.mark.parametrize("side", [48, 64, 80])
def test_the_finest_details_of_small_images_have_to_agree(side):
    """Shrunk photos are sharp, and few of their blocks are flat; white noise is seen by both."""
    small = np.array(Image.fromarray(data.coffee()).resize((side, side), Image.Resampling.LANCZOS))
    assert noise_level(small) <= estimate_noise(small)
    noisy = np.random.default_rng(0).normal(128, 20, (side, side, 3)).round().astype(np.uint8)
    assert 255 * noise_level(noisy) == pytest.approx(20, rel=0.2)


def test_only_some_tiles_of_a_large_image_are_looked_at(monkeypatch):
    looked = []
    features = NoiseLevelNet.features

    def counted(network, x):
        looked.append(x.shape)
        return features(network, x)

    monkeypatch.setattr(NoiseLevelNet, "features", counted)
    noise_level(np.zeros((2_000, 3_000, 3), np.uint8))
    assert len(looked) == photo_noise.MOST_TILES**2
    assert set(looked) == {(1, 3, 256, 256)}


def test_another_network(tmp_path):
    mine = NoiseLevelNet(1, filters=2, channels=3)
    mine.save(tmp_path / "mine.safetensors")
    image = with_noise("coffee", 10)[..., :1]
    path = tmp_path / "mine.safetensors"
    assert noise_level(image, model=path) == noise_level(image, model=mine)
    with pytest.raises(ImageError, match="NoiseLevelNet for 3 channels"):
        noise_level(with_noise("coffee", 10), model=mine)
