"""The estimate of σ, on the pictures of scikit-image."""

import numpy as np
import pytest
from scipy.stats import gamma
from skimage import data

from fwnet.imaging import estimate_noise
from fwnet.imaging.noise import FLAT_LIMITS

PICTURES = {"camera": data.camera, "astronaut": data.astronaut, "coffee": data.coffee}


def noisy(clean, sigma, *, cut_off, seed=1):
    clean = clean if clean.ndim == 3 else clean[..., None]
    noise = np.random.default_rng(seed).standard_normal(clean.shape)
    values = clean / 255 + noise * sigma / 255
    return np.rint(values.clip(0, 1) * 255).astype(np.uint8) if cut_off else values


@pytest.mark.parametrize(
    ("name", "sigma", "cut_off"),
    [
        ("camera", 10, True),
        ("camera", 50, False),
        ("astronaut", 15, False),
        ("astronaut", 50, True),
        ("coffee", 5, True),
        ("coffee", 25, True),
    ],
)
def test_within_a_tenth_or_one_level(name, sigma, cut_off):
    found = 255 * estimate_noise(noisy(PICTURES[name](), sigma, cut_off=cut_off))
    assert abs(found - sigma) <= max(1, sigma / 10)


@pytest.mark.parametrize("name", ["camera", "coffee"])
def test_little_on_clean_pictures(name):
    assert 255 * estimate_noise(noisy(PICTURES[name](), 0, cut_off=True)) < 1.5


def test_every_dtype_has_the_same_scale():
    image = noisy(data.camera()[:128, :128], 20, cut_off=True)
    expected = pytest.approx(estimate_noise(image), rel=1e-4)
    for dtype in (np.uint16, np.float32, np.float64):
        scale = 257 if dtype == np.uint16 else 1 / 255
        assert estimate_noise((image.astype(float) * scale).astype(dtype)) == expected


@pytest.mark.parametrize(
    ("shape", "sigma"), [((200, 300, 1), 0.02), ((60, 70, 3), 0.1), ((2000, 40, 1), 0.3)]
)
def test_flat_images(shape, sigma):
    image = 0.5 + sigma * np.random.default_rng(0).standard_normal(shape)
    assert estimate_noise(image) == pytest.approx(sigma, rel=0.1)


@pytest.mark.parametrize("shape", [(8, 8, 1), (6, 40, 3), (2, 300, 1), (20, 20, 1)])
def test_tiny_images(shape):
    image = 0.5 + 0.1 * np.random.default_rng(0).standard_normal(shape)
    assert estimate_noise(image) == pytest.approx(0.1, rel=0.4)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 50, 3), (30, 1, 1), (90, 90, 3)])
def test_nothing_to_see_is_no_noise(shape):
    assert estimate_noise(np.full(shape, 0.5)) == 0
    assert estimate_noise(np.zeros(shape, np.uint8)) == 0


def test_frames_of_black_do_not_hide_the_noise():
    image = np.zeros((400, 600, 1), np.uint8)
    image[80:320, 100:500] = noisy(data.camera()[100:340, 50:450], 20, cut_off=True)
    assert 255 * estimate_noise(image) == pytest.approx(20, rel=0.1)


def test_transparent_places_do_not_count():
    image = np.full((150, 300, 3), 0.5)
    image[:, 200:] += 0.1 * np.random.default_rng(0).standard_normal((150, 100, 3))
    opaque = np.zeros((150, 300), bool)
    opaque[:, 200:] = True
    assert estimate_noise(image) < 0.08
    assert estimate_noise(image, opaque) == pytest.approx(0.1, rel=0.05)


def test_the_same_image_gives_the_same_estimate():
    image = noisy(data.coffee()[:300, :300], 10, cut_off=True)
    assert estimate_noise(image) == pytest.approx(estimate_noise(image.copy()), rel=1e-9)


def ramp(side, channels):
    along = np.add.outer(np.arange(side), np.arange(side)) / (2 * side)
    return np.repeat((255 * (0.3 + 0.4 * along))[..., None], channels, axis=2)


@pytest.mark.parametrize(
    ("side", "sigma", "channels"),
    [(24, 25, 1), (32, 50, 1), (32, 5, 3), (48, 15, 1), (64, 50, 3), (128, 25, 1)],
)
def test_small_images(side, sigma, channels):
    clean = ramp(side, channels)
    found = [
        255 * estimate_noise(noisy(clean, sigma, cut_off=True, seed=seed)) for seed in range(5)
    ]
    errors = np.sort(abs(np.array(found) - sigma))
    assert errors[2] <= max(1, 0.07 * sigma)
    # One of five draws of 24 × 24 values may be an unlikely one.
    assert errors[-2 if side < 32 else -1] <= max(1.5, 0.12 * sigma)


@pytest.mark.parametrize(("side", "sigma"), [(32, 15), (48, 25), (64, 5), (128, 15)])
def test_small_parts_of_a_picture(side, sigma):
    """Sky, and places with more detail."""
    clean = data.camera()
    for top, left in ((20, 20), (20, 340), (120, 200), (360, 60)):
        part = noisy(clean[top : top + side, left : left + side], sigma, cut_off=True)
        assert abs(255 * estimate_noise(part) - sigma) <= max(1.5, 0.25 * sigma)


def test_transparent_places_of_small_images_do_not_count():
    image = np.full((60, 60, 1), 0.5)
    image[:, 20:] += 0.1 * np.random.default_rng(0).standard_normal((60, 40, 1))
    opaque = np.zeros((60, 60), bool)
    opaque[:, 20:] = True
    assert estimate_noise(image, opaque) == pytest.approx(0.1, rel=0.07)


def test_a_small_part_of_a_large_image():
    image, opaque = np.full((1500, 1500, 1), 0.5), np.zeros((1500, 1500), bool)
    part = (slice(700, 740), slice(900, 940))
    image[part] += 0.1 * np.random.default_rng(0).standard_normal((40, 40, 1))
    opaque[part] = True
    assert estimate_noise(image, opaque) == pytest.approx(estimate_noise(image[part]), rel=1e-9)
    assert estimate_noise(image, opaque) == pytest.approx(0.1, rel=0.1)
    assert estimate_noise(image, np.zeros_like(opaque)) < 0.1


@pytest.mark.parametrize("side", FLAT_LIMITS)
def test_limits_of_flat_patches(side):
    pixels = np.eye(side**2).reshape(-1, side, side)
    across = (pixels[:, :, 2:] - pixels[:, :, :-2]).reshape(side**2, -1) / 2
    down = (pixels[:, 2:] - pixels[:, :-2]).reshape(side**2, -1) / 2
    form = across @ across.T + down @ down.T
    rank = np.linalg.matrix_rank(form)
    limit = gamma.ppf(1 - 1e-6, rank / 2, scale=2 * np.trace(form) / rank)
    assert FLAT_LIMITS[side] == pytest.approx(limit, rel=1e-9)
