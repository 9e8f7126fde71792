"""The networks that `fwnet.upscale` uses by default."""

import numpy as np
import pytest
import torch
from PIL import Image
from skimage import data
from typer.testing import CliRunner

import fwnet
from fwnet.cli import app
from fwnet.experiments.upscale_jpeg import compressed
from fwnet.imaging import Restorer
from fwnet.metrics import psnr
from fwnet.resize import enlarge, shrink
from fwnet.restoration import Upscaling

SHIPPED = [card.name for card in fwnet.list_models("upscale")]

each_scale = pytest.mark.parametrize("scale", [2, 3, 4])


def small_and_large(picture, scale, side=96):
    """A picture of 8 bits, and the same made smaller."""
    large = picture()[40 : 40 + side, 130 : 130 + side]
    unit = torch.from_numpy(large.reshape(side, side, -1)).permute(2, 0, 1) / 255
    small = (255 * shrink(unit, scale)).round().clamp(0, 255).byte()
    return small.permute(1, 2, 0).reshape(side // scale, side // scale, *large.shape[2:]), large


def bicubic(small, scale):
    unit = small.reshape(*small.shape[:2], -1).permute(2, 0, 1) / 255
    large = (255 * enlarge(unit, scale)).round().clamp(0, 255).permute(1, 2, 0)
    return large.reshape(large.shape[0], large.shape[1], *small.shape[2:]).numpy()


def decibels(image, truth):
    border = 4
    both = (torch.from_numpy(one[border:-border, border:-border] / 255) for one in (image, truth))
    return psnr(*(one[None] for one in both)).item()


@each_scale
def test_every_scale_has_its_network(scale):
    for lossy in (False, True):
        (name,) = Upscaling.default_models(scale=scale, lossy=lossy).values()
        assert name in SHIPPED
        assert name.endswith("_jpeg") == lossy
        assert Restorer(Upscaling, name).scale == scale
    assert Restorer(Upscaling, scale=scale).scale == scale


@pytest.mark.parametrize(("scale", "picture"), [(2, data.camera), (3, data.chelsea)])
def test_it_is_better_than_bicubic(scale, picture):
    small, large = small_and_large(picture, scale)
    result = fwnet.upscale(small.numpy(), scale)
    assert result.shape == large.shape
    assert decibels(result, large) > decibels(bicubic(small, scale), large) + 0.4


@pytest.mark.parametrize("name", SHIPPED)
def test_every_network_of_the_package_is_better_than_bicubic(name):
    scale = Restorer(Upscaling, name).scale
    assert f"_x{scale}" in name
    small, large = small_and_large(data.camera, scale)
    if name.endswith("_jpeg"):
        small = torch.from_numpy(np.array(compressed(small.numpy(), 60)))
    result = fwnet.upscale(small.numpy(), scale, name)
    assert decibels(result, large) > decibels(bicubic(small, scale), large) + 0.4


@pytest.mark.parametrize(("scale", "color"), [(3, (255, 255, 255)), (2, (200, 30, 90))])
def test_what_is_flat_stays_flat(scale, color):
    image = np.full((60, 60, 3), color, np.uint8)
    errors = abs(fwnet.upscale(image, scale).astype(int) - color)
    assert errors[21 * scale : 39 * scale, 21 * scale : 39 * scale].max() <= 2
    assert errors.max() <= 4  # at the border, beyond which a network sees zeros


@pytest.mark.parametrize(("scale", "channels"), [(3, 1), (2, 3)])
def test_tiles_are_not_seen(scale, channels):
    image = data.chelsea()[:50, :100, :channels] / 255
    image[20:40, 40:80] = 0  # flat and black, where pool_p is most sensitive
    whole, tiled = (fwnet.upscale(image, scale, tile=tile) for tile in (100, 60))
    np.testing.assert_allclose(tiled, whole, rtol=0, atol=1e-5)


def test_the_default_tile_changes_nothing():
    image = data.chelsea()[:20, :400] / 255
    whole = fwnet.upscale(image, tile=400)
    np.testing.assert_allclose(fwnet.upscale(image), whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize("scale", [2, 3])
def test_the_command_needs_no_model(scale, tmp_path):
    small, _ = small_and_large(data.chelsea, scale, side=48)
    Image.fromarray(small.numpy()).save(tmp_path / "small.png")
    places = [str(tmp_path / name) for name in ("small.png", "large.png")]
    options = [] if scale == 3 else ["--scale", str(scale)]
    assert CliRunner().invoke(app, ["upscale", *places, *options]).exit_code == 0
    with Image.open(places[1]) as image:
        assert np.array_equal(np.asarray(image), fwnet.upscale(small.numpy(), scale))
