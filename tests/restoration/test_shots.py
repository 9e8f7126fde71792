"""Synthetic photos: what is added to them, and what a network is told."""

import pytest
import skimage.data
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fwnet.restoration import shots
from fwnet.restoration.shots import effective_sigma, take_shots

KINDS = ("none", "white", "smooth", "bayer")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def photos(count=8, side=64):
    whole = torch.from_numpy(skimage.data.astronaut().copy()).permute(2, 0, 1).float() / 255
    return torch.stack([whole[:, 40 * k : 40 * k + side, 160 : 160 + side] for k in range(count)])


@pytest.fixture
def only(monkeypatch):
    """Make all shots of one kind."""

    def choose(kind):
        shares = tuple(float(name == kind) for name in KINDS)
        monkeypatch.setattr(shots, "SHARES", shares)

    return choose


@given(st.floats(0.1, 60), st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_the_effective_level_of_white_noise_is_its_deviation(sigma, seed):
    noise = sigma * torch.randn(2, 3, 256, 256, generator=generator(seed))
    torch.testing.assert_close(effective_sigma(noise), torch.full((2,), sigma), rtol=0.03, atol=0)


def test_that_of_smooth_noise_is_larger_than_its_deviation():
    noise = torch.randn(1, 3, 128, 128, generator=generator())
    smooth = shots._blurred(noise, torch.full((1, 1, 1, 1), 1.0))
    ratio = effective_sigma(smooth) / smooth.square().mean().sqrt()
    assert 2 < ratio.item() < 4


@pytest.mark.parametrize("channels", [1, 3])
def test_shots_have_8_bits_and_depend_on_the_generator_alone(channels):
    clean = photos(side=63)[:, :channels]
    first, again, other = (take_shots(clean, generator(seed)) for seed in (1, 1, 2))
    assert first.seen.shape == first.wanted.shape == clean.shape
    assert first.sigma.shape == (8,)
    torch.testing.assert_close(255 * first.seen, (255 * first.seen).round())
    assert 0 <= first.seen.min() <= first.seen.max() <= 1
    assert torch.equal(first.seen, again.seen)
    assert not torch.equal(first.seen, other.seen)


def test_shots_without_noise_are_wanted_as_they_are(only):
    only("none")
    found = take_shots(photos(), generator())
    assert torch.equal(found.seen, found.wanted)
    assert found.sigma.max() < 1e-6


@pytest.mark.parametrize("kind", ["white", "smooth", "bayer"])
def test_the_level_is_that_of_the_noise(only, kind, monkeypatch):
    """Before compression, which takes noise away, and where nothing is clipped."""
    only(kind)
    monkeypatch.setattr(shots, "_compressed", lambda seen, *_: seen)
    gray = 0.3 + 0.4 * photos(8, 128)
    found = take_shots(gray, generator())
    weak = found.sigma < 15 / 255
    assert weak.sum() >= 2
    measured = effective_sigma(found.seen - found.wanted)
    torch.testing.assert_close(measured[weak], found.sigma[weak], rtol=0.2, atol=0.3 / 255)


def test_smooth_noise_is_stronger_in_coarse_parts_of_colors(only):
    only("smooth")
    found = take_shots(photos(8, 128), generator())
    noise = found.seen - found.wanted
    tint = noise - shots._gray(noise)
    ratios = effective_sigma(tint) / tint.square().flatten(1).mean(1).sqrt()
    assert ratios.median() > 1.7


def test_a_sensor_interpolates_flat_light_exactly():
    flat = torch.full((1, 3, 16, 16), 0.4)
    torch.testing.assert_close(shots._interpolated(flat), flat)


def test_a_camera_takes_noise_away_where_it_is_flat_and_leaves_it_at_edges(monkeypatch):
    monkeypatch.setattr(shots._Draws, "chance", lambda draw, _: torch.ones(draw.count, 1, 1, 1) > 0)
    clean = torch.full((1, 3, 96, 96), 0.3)
    clean[..., 48:] = 0.7
    noisy = clean + 0.02 * torch.randn(clean.shape, generator=generator())
    seen, wanted = shots._cleaned(noisy, clean, shots._Draws(1, generator()))
    noise = (seen - wanted).square().mean((0, 1, 2)).sqrt()
    assert noise[:32].mean() < 0.8 * noise[46:50].mean()
    assert noise.max() < 0.025
    torch.testing.assert_close(wanted[..., :32], clean[..., :32])
