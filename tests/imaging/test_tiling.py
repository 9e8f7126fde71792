"""Tiles must not be seen: what a network makes of them is what it makes of the whole image."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fwnet import ConvFWNet, DnCNN
from fwnet.experiments.patches import PatchDenoiser
from fwnet.imaging.tiling import apply_tiled, cut_tiles


def tiled(network, image, size, halo, told=None):
    output = np.empty_like(image)
    with torch.inference_mode():
        apply_tiled(
            network,
            image,
            output,
            size=size,
            halo=halo,
            multiple=getattr(network, "reduction", 1),
            progress=(lambda count: None) if told is None else told.append,
        )
    return output


def picture(height, width, channels=1, seed=0):
    """Noise with a flat black area, where pool_p is most sensitive."""
    image = np.random.default_rng(seed).random((height, width, channels), np.float32)
    image[height // 4 : height // 2, width // 3 :] = 0
    return image


lengths = st.integers(1, 60)


@given(lengths, lengths, st.integers(1, 70), st.integers(0, 20), st.integers(1, 3))
def test_tiles_cover_every_pixel_once_and_see_exactly_the_halo(height, width, size, halo, multiple):
    covered = np.zeros((height, width), int)
    for tile in cut_tiles(height, width, size, halo, multiple):
        covered[tile.inner] += 1
        for inner, outer, crop, length in zip(
            tile.inner, tile.outer, tile.crop, (height, width), strict=True
        ):
            assert 0 < inner.stop - inner.start <= size
            assert outer.start % multiple == 0
            assert outer.stop % multiple == 0 or outer.stop == length
            assert 0 <= max(0, inner.start - halo) - outer.start < multiple
            assert 0 <= outer.stop - min(length, inner.stop + halo) < multiple
            assert outer.start + crop.start == inner.start
            assert crop.stop - crop.start == inner.stop - inner.start
    assert (covered == 1).all()


@given(
    lengths,
    lengths,
    st.integers(1, 40),
    st.integers(1, 5),
    st.sampled_from([1, 3, 5]),
    st.sampled_from([1, 3]),
    st.integers(1, 3),
)
@settings(max_examples=40)
def test_tiled_is_whole(height, width, size, depth, kernel_size, channels, reduction):
    size = max(size, height // 4, width // 4)  # so that there are not hundreds
    generator = torch.Generator().manual_seed(0)
    network = ConvFWNet(
        depth,
        6,
        in_channels=channels,
        kernel_size=kernel_size,
        reduction=reduction,
        generator=generator,
    )
    image = picture(height, width, channels)
    halo = network.receptive_radius
    whole = tiled(network, image, max(height, width), halo)
    np.testing.assert_allclose(tiled(network, image, size, halo), whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_whole_is_the_network_itself(dtype):
    network = ConvFWNet(2, 5)
    image = picture(17, 23)
    if dtype != np.float32:
        image = (image * np.iinfo(dtype).max).astype(dtype)
    output = tiled(network, image, 100, 3)
    assert output.dtype == dtype
    scale = 1 if dtype == np.float32 else np.iinfo(dtype).max
    with torch.no_grad():
        x = torch.from_numpy(image.astype(np.float32) / np.float32(scale))
        expected = network(x.permute(2, 0, 1)[None])[0].permute(1, 2, 0).clamp(0, 1) * scale
    expected = expected if scale == 1 else expected.round()
    np.testing.assert_allclose(output.astype(np.float64), expected.numpy(), rtol=0, atol=1e-6)


def test_a_halo_of_one_pixel_less_is_seen():
    network = ConvFWNet(3, 8)
    image = picture(40, 40)
    halo = network.receptive_radius
    assert halo == 4
    whole = tiled(network, image, 40, halo)
    assert abs(tiled(network, image, 20, halo) - whole).max() < 1e-5
    assert abs(tiled(network, image, 20, halo - 1) - whole).max() > 1e-4


def test_eight_bits_are_the_same_but_for_rounding():
    network = ConvFWNet(4, 64).to(memory_format=torch.channels_last)
    image = (255 * picture(100, 110)).astype(np.uint8)
    whole = tiled(network, image, 110, network.receptive_radius)
    assert whole.std() > 10
    parts = tiled(network, image, 60, network.receptive_radius)
    assert abs(parts.astype(int) - whole).max() <= 1
    assert (parts != whole).mean() < 1e-3


@pytest.mark.parametrize(
    "network",
    [
        DnCNN(4, 8).eval(),
        PatchDenoiser(
            {"model": "FWNet", "num_features": 16, "num_atoms": 20, "num_layers": 2,
             "radius": 1.0, "reconstruct": True},
            patch_size=4,
        ),
    ],
    ids=["DnCNN", "PatchDenoiser"],
)  # fmt: skip
def test_other_networks(network):
    image = picture(41, 30)
    whole = tiled(network, image, 50, network.receptive_radius)
    parts = tiled(network, image, 13, network.receptive_radius)
    np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-5)


def test_progress_counts_every_pixel():
    told = []
    tiled(lambda x: x, picture(30, 50), 16, 0, told)
    assert len(told) == 2 * 4
    assert sum(told) == 30 * 50
