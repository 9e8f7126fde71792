"""What a denoising network should be told about the noise of a photo."""

import math
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from fwnet.imaging.noise import estimate_noise
from fwnet.imaging.pixels import ImageError, as_unit_range, check_pixels
from fwnet.models import NoiseLevelNet
from fwnet.models.noise_level_net import BLOCK, LEAST, sigma_of
from fwnet.restoration.shots import CELL
from fwnet.zoo import load_model

MODELS = {1: "noise_level_net_t5.noise_gray", 3: "noise_level_net_t5.noise_color"}
LEAST_SIDE = BLOCK  # pixels: in smaller images noise looks like detail
FEW_BLOCKS = 96  # pixels: below, the finest details have to agree
TILE = 256
MOST_TILES = 6  # in each direction: more of an image tells nothing new
# By channels: weaker noise must be seen in the finest details too, or it may be texture.
DOUBTFUL = {1: 2.7 / 255, 3: 4 / 255}
# Part of the level above which the smooth variation of blocks is texture: that of the flattest, or
# that of nine tenths of all blocks, if it is also well above all variation of the flattest. In
# shots of two cameras they had at most 0.47 and 0.65 of the level (docs/real_photos.md).
TEXTURED = 0.9
FLAT = 0.1  # of the blocks
RISE = 3.2  # white noise in JPEG files, unlike texture, is left in the flattest blocks as well
FLATTEST = 0.02  # of the blocks, and at least …
FEWEST = 4  # … this many


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

    Texture can look like noise. Where a level is below 4 gray levels (2.7 in gray images), an image
    has less than 96 pixels, or no part of it is as flat as noise of that level would leave it,
    the level is therefore at most what `estimate_noise` finds in the finest details; and 0 if
    that is less than half of the variation of the flattest blocks, which hides it. `estimate_noise`
    alone measures images of less than 32 pixels; those of less than 16 have level 0.

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
    parts = []
    with torch.inference_mode():
        for tile in _tiles(pixels.shape[:2]) if side >= LEAST else []:
            x = torch.from_numpy(as_unit_range(pixels[tile])).float().permute(2, 0, 1).to(device)
            blocks = torch.cat([network.features(x[None])[0], _variation(x)], 1)
            if opaque is not None:
                blocks = blocks[torch.from_numpy(_whole_blocks(opaque[tile])).to(device)]
            parts.append(blocks)
    if sum(len(blocks) for blocks in parts) == 0:
        return estimate_noise(pixels, opaque)
    with torch.inference_mode():
        features, variation = torch.cat(parts).tensor_split([-3], 1)
        level = float(sigma_of(network.pooled(features[None])))
        fine, smooth, tenth = _flattest(variation, level)
    textured = max(smooth, tenth if tenth > RISE * fine else 0) > TEXTURED * level
    if level >= DOUBTFUL[channels] and side >= FEW_BLOCKS and not textured:
        return level
    finest = estimate_noise(pixels, opaque)
    return min(level, finest) if 2 * finest >= fine else 0.0


def _variation(x: Tensor) -> Tensor:
    """Return variance, effective variance and mean of the blocks of (channel, h, w): (block, 3).

    Both are deviations from planes. The effective one is that of the means of 4 × 4 pixels, times
    16: the same for white noise, larger for smooth noise and texture.
    """
    height, width = (side // BLOCK * BLOCK for side in x.shape[1:])
    x = x[:, :height, :width]
    fine, coarse = _off_planes(x, BLOCK), CELL**2 * _off_planes(avg_pool2d(x, CELL), BLOCK // CELL)
    return torch.stack([one.mean(0) for one in (fine, coarse, avg_pool2d(x, BLOCK).flatten(1))], 1)


def _off_planes(x: Tensor, side: int) -> Tensor:
    """Return the variance around a fitted plane of each square of (channel, h, w)."""
    slope = torch.linspace(-1, 1, side, device=x.device)
    slope = slope / slope.square().mean().sqrt()
    squares = x.unfold(1, side, side).unfold(2, side, side).flatten(1, 2)
    squares = squares - squares.mean((2, 3), keepdim=True)
    slopes = [(squares * one).mean((2, 3)).square() for one in (slope, slope[:, None])]
    rest = squares.square().mean((2, 3)) - sum(slopes)
    return rest.clamp(min=0) * side**2 / (side**2 - 3)  # a plane has three parameters


def _flattest(variation: Tensor, level: float) -> tuple[float, float, float]:
    """Return the deviation in the flattest blocks, its smooth part, and that of the tenth block.

    The smooth part is what white noise lacks: compressed white noise has a coarse variance of up to
    twice the fine one. A tenth of all blocks has less of it than the last number. Blocks near black
    and white, where noise is clipped, are left out.
    """
    fine, coarse, mean = variation.T
    inside = (mean > level) & (mean < 1 - level)
    if inside.sum() < FEWEST:
        return 0.0, 0.0, 0.0
    fine, smooth = fine[inside], (coarse - 2 * fine)[inside]
    chosen = fine.argsort()[: max(FEWEST, int(FLATTEST * len(fine)))]
    found = torch.stack([fine[chosen].mean(), smooth[chosen].mean(), smooth.quantile(FLAT)])
    flattest, its_smooth, tenth = found.clamp(min=0).sqrt().tolist()
    return flattest, its_smooth, tenth


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
