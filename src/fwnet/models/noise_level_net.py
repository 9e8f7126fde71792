"""`NoiseLevelNet`: how much noise an image has."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, conv2d, gelu, pad

from fwnet.checks import check_size
from fwnet.models.model import Model

BLOCK = 16  # side of a block in pixels
SCALES = 4  # whole, half, a quarter and an eighth of the size
SIDE = 5  # of a filter
LEAST = 2 * BLOCK  # side of an image: a filter must fit into an eighth of it
LEAST_POWER = 1e-7  # of a filtered block, so that black is not −∞; rounding to 8 bits leaves 1e-6
HALF_LEVEL = 0.5  # levels below half a gray value are not told apart
START = math.log(6)


class NoiseLevelNet(Model):
    """log(255·σ + ½) = g(Σ_b softmax_b(c_b)·h_b),   (c_b, h_b) = f(log mean_b (W ∗ x)²).

    The image is filtered at four scales. The logarithm of the mean power in each block b of
    16 × 16 pixels says how strong noise or texture is there; f, a small network, makes of it
    features h_b and how much each block should count, c_b; g reads the level off the weighted
    means. So flat blocks can decide, wherever they are.

    Args:
        in_channels: 1 for gray, 3 for color (default).
        filters: The number of filters per scale.
        channels: The number of features.
        heads: The number of weightings of the blocks.
        generator: The random generator of the initial weights.

    >>> import fwnet, torch
    >>> net = fwnet.models.NoiseLevelNet(in_channels=1)
    >>> net(torch.rand(2, 1, 64, 64)).shape
    torch.Size([2])
    """

    def __init__(
        self,
        in_channels: int = 3,
        filters: int = 16,
        channels: int = 64,
        heads: int = 4,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.in_channels = check_size("in_channels", in_channels)
        check_size("filters", filters)
        check_size("channels", channels)
        self.heads = check_size("heads", heads)
        shape = (filters, in_channels, SIDE, SIDE)
        self.filters = nn.ParameterList(nn.Parameter(torch.empty(shape)) for _ in range(SCALES))
        sees = SCALES * filters + in_channels
        self.block_layers = _layers([sees, channels, channels, heads + channels])
        self.level_layers = _layers([heads * channels, channels, 1])
        with torch.no_grad():
            layers = _linear(self.block_layers) + _linear(self.level_layers)
            for kernel in (*self.filters, *(one.weight for one in layers)):
                kernel.normal_(0, kernel[0].numel() ** -0.5, generator=generator)
            for layer in layers:
                layer.bias.zero_()
            layers[-1].bias.fill_(START)

    def forward(self, x: Tensor) -> Tensor:
        """Return log(255·σ + ½), (batch,), of images (batch, channel, h, w) in [0, 1]."""
        return self.pooled(self.features(x))

    def features(self, x: Tensor) -> Tensor:
        """Return what f makes of the blocks of images, (batch, block, heads + channels).

        The last rows and columns that fill no block are left out.
        """
        if x.ndim != 4 or x.shape[1] != self.in_channels or min(x.shape[2:]) < LEAST:
            raise ValueError(
                f"x must have shape (batch, {self.in_channels}, height, width) with sides of at "
                f"least {LEAST}, got {tuple(x.shape)}"
            )
        height, width = (length // BLOCK * BLOCK for length in x.shape[2:])
        x = x[..., :height, :width]
        parts = [4 * avg_pool2d(x, BLOCK) - 2]
        for scale, kernel in enumerate(self.filters):
            kernel = kernel - kernel.mean((2, 3), keepdim=True)  # brightness is no noise
            power = conv2d(pad(x, (SIDE // 2,) * 4, mode="reflect"), kernel).square()
            power = avg_pool2d(power, BLOCK >> scale)
            parts.append((power + LEAST_POWER).log() / 3 + 2)
            x = avg_pool2d(x, 2)
        return _through(self.block_layers, torch.cat(parts, 1).flatten(2).transpose(1, 2))

    def pooled(self, features: Tensor) -> Tensor:
        """Return log(255·σ + ½), (batch,), from the features of all blocks of an image."""
        confidence, content = features.tensor_split([self.heads], 2)
        means = torch.softmax(confidence, 1).transpose(1, 2) @ content
        return _through(self.level_layers, means.flatten(1))[:, 0]

    @property
    def multiply_adds(self) -> int:
        """Multiplications with weights per pixel."""
        filters = sum(one.numel() / 4**scale for scale, one in enumerate(self.filters))
        layers = sum(one.weight.numel() for one in _linear(self.block_layers))
        return round(float(filters + layers / BLOCK**2))


def level_of(sigma: Tensor) -> Tensor:
    """log(255·σ + ½)."""
    return (255 * sigma + HALF_LEVEL).log()


def sigma_of(level: Tensor) -> Tensor:
    """Return the inverse of `level_of`, at least 0."""
    return ((level.exp() - HALF_LEVEL) / 255).clamp(min=0)


def _layers(sizes: Sequence[int]) -> nn.ModuleList:
    return nn.ModuleList(nn.Linear(*pair) for pair in pairwise(sizes))


def _linear(layers: nn.ModuleList) -> list[nn.Linear]:
    return [cast("nn.Linear", layer) for layer in layers]


def _through(layers: nn.ModuleList, x: Tensor) -> Tensor:
    for layer in layers[:-1]:
        x = gelu(layer(x))
    y: Tensor = layers[-1](x)
    return y
