"""What a denoising network should be told about the noise of a photo."""

import math
from functools import cache
from pathlib import Path

import numpy as np
import torch

from fwnet.imaging.noise import estimate_noise
from fwnet.imaging.pixels import ImageError, as_unit_range, check_pixels
from fwnet.models import NoiseLevelNet
from fwnet.models.noise_level_net import BLOCK, LEAST, sigma_of
from fwnet.zoo import load_model

MODELS = {1: "noise_level_net_t5.noise_gray", 3: "noise_level_net_t5.noise_color"}
LEAST_SIDE = BLOCK  # pixels: in smaller images noise looks like detail
FEW_BLOCKS = 96  # pixels: below, the finest details have to agree
TILE = 256
MOST_TILES = 6  # in each direction: more of an image tells nothing new
# By channels: weaker noise must be seen in the finest details too, or it may be texture.
DOUBTFUL = {1: 2.7 / 255, 3: 4 / 255}


def noise_level(
    pixels: np.ndarray,
    opaque: np.ndarray | None = None,
    *,
    model: str | Path | NoiseLevelNet | None = None,
    device: str | torch.device = "cpu",
) -> float:
    """Return the effective noise level σ of an image, on the scale of [0, 1].

    It is the standard deviation of white noise, and about 2.5 times that of the smooth noise of a
    camera: what a network that was trained for white noise should be told (`effective_sigma`). A
    `NoiseLevelNet` tells it, from at most 36 tiles of 256 × 256 pixels.

    Texture can look like weak noise. Levels below 4 gray levels (2.7 in gray images), and those of
    images of less than 96 pixels, are therefore at most what `estimate_noise` finds in the finest
    details. It alone measures images of less than 32 pixels; those of less than 16 have level 0.

    Args:
        pixels: The image, (h, w, channels), integers or values in [0, 1]; 1 or 3 channels.
        opaque: The visible pixels, (h, w); blocks that include others do not count.
        model: Another network: a name, a path, or the network itself.
        device: Where to compute.

    >>> import fwnet, numpy as np
    >>> noisy = np.random.default_rng(0).normal(128, 25, (128, 128, 3)).round().astype(np.uint8)
    >>> 20 < 255 * fwnet.imaging.noise_level(noisy) < 30
    True
    """
    check_pixels(pixels)
    channels = pixels.shape[2]
    network = _load(model or MODELS[channels], device) if _is_name(model) else model
    if not isinstance(network, NoiseLevelNet) or network.in_channels != channels:
        raise ImageError(f"expected a NoiseLevelNet for {channels} channels, got {network!r}")
    side = min(pixels.shape[:2])
    if side < LEAST_SIDE:
        return 0.0
    features = []
    with torch.inference_mode():
        for tile in _tiles(pixels.shape[:2]) if side >= LEAST else []:
            x = torch.from_numpy(as_unit_range(pixels[tile])).float()
            found = network.features(x.permute(2, 0, 1)[None].to(device))
            if opaque is not None:
                found = found[:, torch.from_numpy(_whole_blocks(opaque[tile])).to(device)]
            features.append(found)
    if sum(part.shape[1] for part in features) == 0:
        return estimate_noise(pixels, opaque)
    with torch.inference_mode():
        level = float(sigma_of(network.pooled(torch.cat(features, 1))))
    doubtful = level < DOUBTFUL[channels] or side < FEW_BLOCKS
    return min(level, estimate_noise(pixels, opaque)) if doubtful else level


def _is_name(model: object) -> bool:
    return model is None or isinstance(model, str | Path)


@cache
def _load(name: str | Path, device: str | torch.device) -> torch.nn.Module:
    return load_model(name, device)


def _tiles(shape: tuple[int, ...]) -> list[tuple[slice, slice]]:
    """Return tiles that are spread evenly over an image, or cover it."""
    starts = []
    for side in shape:
        count = min(MOST_TILES, math.ceil(side / TILE))
        starts.append(np.linspace(0, max(side - TILE, 0), count).astype(int))
    return [(slice(y, y + TILE), slice(x, x + TILE)) for y in starts[0] for x in starts[1]]


def _whole_blocks(opaque: np.ndarray) -> np.ndarray:
    """Return which blocks of a tile are visible as a whole."""
    height, width = (side // BLOCK for side in opaque.shape)
    blocks = opaque[: height * BLOCK, : width * BLOCK].reshape(height, BLOCK, width, BLOCK)
    whole: np.ndarray = blocks.all((1, 3)).ravel()
    return whole
