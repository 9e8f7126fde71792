"""What the networks that turn images into images have in common."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from fwnet.models.model import Model
from fwnet.resize import REACH, enlarge

__all__ = ["ConvolutionalModel", "ImageModel", "convolution"]


class ImageModel(Model):
    """y = x + f(x) or, without `residual`, y = f(x), for images x of shape (batch, channel, h, w).

    Values are in [0, 1]. With a noise-level input f sees one more channel, which holds σ at every
    place: one network then serves all σ. With a `scale` s > 1, y has s·h × s·w pixels, and what f
    predicts is added to x enlarged bicubically.

    Attributes:
        in_channels: Of x and y: 1 for gray, 3 for color.
        residual: Whether f predicts what is to be added to x.
        noise_level_input: Whether the network must be told σ.
        scale: How many times as high and wide as x y is.
        receptive_radius: How far away, in pixels of x, a pixel of x can be and still change one of
            y.
        multiply_adds: How many multiplications with weights one pixel of y takes.
    """

    in_channels: int
    residual: bool
    noise_level_input: bool
    scale: int

    def __init__(
        self, in_channels: int, *, residual: bool, noise_level_input: bool, scale: int = 1
    ) -> None:
        super().__init__()
        check_counts(in_channels=in_channels, scale=scale)
        self.in_channels, self.residual = in_channels, residual
        self.noise_level_input, self.scale = noise_level_input, scale

    @property
    @abstractmethod
    def receptive_radius(self) -> int:
        """The distance beyond which pixels do not matter."""

    @property
    @abstractmethod
    def multiply_adds(self) -> int:
        """Multiplications with weights, a pixel."""

    @abstractmethod
    def _transform(self, x: Tensor) -> Tensor:
        """f(x), of the size of y, given x with the noise level where there is one."""

    def forward(self, x: Tensor, sigma: float | Tensor | None = None) -> Tensor:
        """Return y, (batch, channel, scale·h, scale·w).

        sigma: The standard deviation of the noise, on the scale of x: a number, or one an image.
            Needed by a network with a noise-level input, and by no other.
        """
        if x.ndim != 4 or x.shape[1] != self.in_channels:
            raise ValueError(
                f"x must have shape (batch, {self.in_channels}, height, width), "
                f"got {tuple(x.shape)}"
            )
        y = self._transform(self._with_noise_level(x, sigma))
        if not self.residual:
            return y
        return y + (x if self.scale == 1 else enlarge(x, self.scale))

    def _with_noise_level(self, x: Tensor, sigma: float | Tensor | None) -> Tensor:
        if (sigma is not None) != self.noise_level_input:
            wants = "a sigma" if self.noise_level_input else "no sigma: it serves one noise level"
            got = "none" if sigma is None else f"sigma={sigma!r}"
            raise ValueError(f"this network takes {wants}, got {got}")
        if sigma is None:
            return x
        level = torch.as_tensor(sigma, dtype=x.dtype, device=x.device).reshape(-1, 1, 1, 1)
        batch, _, height, width = x.shape  # len(x) would fix the batch of an exported graph
        if level.shape[0] not in (1, batch):
            raise ValueError(
                f"sigma must be one number, or one for each of {batch} images, got {len(level)}"
            )
        return torch.cat([x, level.expand(batch, 1, height, width)], 1)


class ConvolutionalModel(ImageModel):
    """An `ImageModel` that is a chain of convolutions, each of which keeps the size of an image."""

    @abstractmethod
    def _chain(self) -> Sequence[nn.Conv2d]:
        """The convolutions between x and y, in their order, as often as they are used."""

    @property
    def receptive_radius(self) -> int:
        """The sum of the radii of the kernels; where x is enlarged, not less than that takes."""
        radius = sum(one.kernel_size[0] // 2 for one in self._chain())
        return max(radius, REACH) if self.residual and self.scale > 1 else radius

    @property
    def multiply_adds(self) -> int:
        """The number of weights that a place of x meets, by the number of pixels it becomes."""
        return round(sum(one.weight.numel() for one in self._chain()) / self.scale**2)


def convolution(in_channels: int, out_channels: int, kernel_size: int, bias: bool) -> nn.Conv2d:
    """Keep the size: zeros around the image, as in the networks of the paper."""
    return nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2, bias=bias)


def set_normal(weights: Sequence[Tensor], gain: float, generator: torch.Generator | None) -> None:
    """Draw kernels from N(0, gain²/fan-in)."""
    if not 0 <= gain < math.inf:
        raise ValueError(f"output_gain must be a number >= 0, got {gain!r}")
    with torch.no_grad():
        for weight in weights:
            fan_in = weight[0].numel()
            weight.normal_(0, gain / fan_in**0.5, generator=generator)


def check_counts(**counts: int) -> None:
    """Raise for what is not an integer from 1 on."""
    for name, count in counts.items():
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"{name} must be an integer >= 1, got {count!r}")


def check_kernel_size(kernel_size: int) -> None:
    """Raise unless a kernel has a middle."""
    if not isinstance(kernel_size, int) or kernel_size < 1 or kernel_size % 2 == 0:
        raise ValueError(f"kernel_size must be an odd integer >= 1, got {kernel_size!r}")


def as_convolutions(layers: nn.ModuleList) -> list[nn.Conv2d]:
    """The convolutions of a list, for type checkers."""
    return [cast("nn.Conv2d", layer) for layer in layers]
