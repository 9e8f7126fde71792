"""The base classes of models of images, and their convolutions."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pixel_shuffle

from fwnet.checks import check_number, check_size, check_tensor
from fwnet.hardware import is_exporting
from fwnet.models.model import Model
from fwnet.resize import REACH, enlarge


class ImageModel(Model):
    """y = x + f(x) or, without `residual`, y = f(x), for images x of shape (batch, channel, h, w).

    Values are in [0, 1]. With a noise-level input f gets one more channel, which holds σ at every
    pixel, so that one network serves all σ. With a `scale` s > 1, y has s·h × s·w pixels, and f(x)
    is added to x enlarged bicubically. With a `reduction` r > 1, f works on 1/r of the height and
    width: it sees the r² pixels of every r × r square of x as r² planes.

    Attributes:
        in_channels: The channels of x and y: 1 for gray, 3 for color.
        residual: Whether f(x) is added to x.
        noise_level_input: Whether `forward` needs σ.
        scale: Scale factor: y is `scale` times the height and width of x.
        reduction: The side of the squares of x that f takes as one place.
        receptive_radius: The largest distance, in pixels of x, at which a pixel of x affects a
            pixel of y.
        multiply_adds: The number of multiplications with weights per pixel of y.

    >>> import fwnet
    >>> net = fwnet.load_model("conv_fwnet_t16.denoise_gray")
    >>> isinstance(net, fwnet.models.ImageModel), net.noise_level_input, net.reduction
    (True, True, 2)
    """

    in_channels: int
    residual: bool
    noise_level_input: bool
    scale: int
    reduction: int

    def __init__(
        self,
        in_channels: int,
        *,
        residual: bool,
        noise_level_input: bool,
        scale: int = 1,
        reduction: int = 1,
    ) -> None:
        super().__init__()
        for name, value in (("residual", residual), ("noise_level_input", noise_level_input)):
            if value not in (True, False):
                raise ValueError(f"{name} must be True or False, got {value!r}")
        check_size("in_channels", in_channels)
        check_size("scale", scale)
        check_size("reduction", reduction)
        self.in_channels, self.residual = in_channels, residual
        self.noise_level_input, self.scale, self.reduction = noise_level_input, scale, reduction

    @property
    def in_planes(self) -> int:
        """The channels that f sees, that of the noise level included."""
        return self.in_channels * self.reduction**2 + self.noise_level_input

    @property
    def out_planes(self) -> int:
        """The channels of f(x)."""
        return self.in_channels * (self.scale * self.reduction) ** 2

    @property
    @abstractmethod
    def receptive_radius(self) -> int:
        """The largest distance at which pixels matter."""

    @property
    @abstractmethod
    def multiply_adds(self) -> int:
        """Multiplications with weights per pixel."""

    @abstractmethod
    def _transform(self, x: Tensor) -> Tensor:
        """Return f(x) as planes, (batch, out_planes, h/r, w/r), of those that f sees."""

    def forward(self, x: Tensor, sigma: float | Tensor | None = None) -> Tensor:
        """Return y, (batch, channel, scale·h, scale·w).

        sigma: The standard deviation of the noise, on the scale of x: one number, or one per image.
            Required with a noise-level input, and an error without.
        """
        y = self._transform(self._seen(x, sigma))
        if self.scale * self.reduction > 1:
            y = pixel_shuffle(y, self.scale * self.reduction)
        if self.reduction > 1:
            y = of_size(y, *(self.scale * length for length in x.shape[-2:]))
        if not self.residual:
            return y
        return y + (x if self.scale == 1 else enlarge(x, self.scale))

    def _seen(self, x: Tensor, sigma: float | Tensor | None) -> Tensor:
        """Return what f sees of images and their noise level, (batch, in_planes, h/r, w/r)."""
        check_tensor("x", x)
        if x.ndim != 4 or x.shape[1] != self.in_channels:
            raise ValueError(
                f"x must have shape (batch, {self.in_channels}, height, width), "
                f"got {tuple(x.shape)}"
            )
        self._check_dtype(x)
        return self._with_noise_level(self._planes(x), sigma)

    def _planes(self, x: Tensor) -> Tensor:
        """Return (batch, channel·r², h/r, w/r); the last row and column fill up the squares."""
        r = self.reduction
        if r == 1:
            return x
        x = of_size(x, *((length + r - 1) // r * r for length in x.shape[-2:]))
        # Not by torch's pixel_unshuffle, which leaves an empty batch as it is.
        squares: Tensor = x.unflatten(3, (-1, r)).unflatten(2, (-1, r))
        return squares.permute(0, 1, 3, 5, 2, 4).flatten(1, 3)

    def _with_noise_level(self, x: Tensor, sigma: float | Tensor | None) -> Tensor:
        if (sigma is not None) != self.noise_level_input:
            expected = "a number" if self.noise_level_input else "None for this network"
            raise ValueError(f"sigma must be {expected}, got {sigma!r}")
        if sigma is None:
            return x
        check_number("sigma", sigma, or_tensor=True)
        level = torch.as_tensor(sigma, dtype=x.dtype, device=x.device).reshape(-1, 1, 1, 1)
        batch, _, height, width = x.shape  # len(x) would fix the batch of an exported graph
        if level.shape[0] not in (1, batch):
            raise ValueError(
                f"sigma must be one number, or one for each of {batch} images, got {len(level)}"
            )
        return torch.cat([x, level.expand(batch, 1, height, width)], 1)


class ConvolutionalModel(ImageModel):
    """An `ImageModel` that is a chain of convolutions, each of which keeps the image size."""

    @abstractmethod
    def _chain(self) -> Sequence[nn.Conv2d]:
        """Return the convolutions between x and y, in order; a shared one once per use."""

    @property
    def receptive_radius(self) -> int:
        """r·(sum of the radii of the kernels) + r − 1; at least that of the enlargement, if any."""
        radius = sum(one.kernel_size[0] // 2 for one in self._chain())
        radius = self.reduction * (radius + 1) - 1  # from one end of a square to the other
        return max(radius, REACH) if self.residual and self.scale > 1 else radius

    @property
    def multiply_adds(self) -> int:
        """The number of weights per place, divided by the number of pixels of y it becomes."""
        pixels = (self.scale * self.reduction) ** 2
        return round(sum(one.weight.numel() for one in self._chain()) / pixels)


def of_size(x: Tensor, height: int, width: int) -> Tensor:
    """Cut images to a size, or fill them up by copies of their last row and column."""
    # An exported graph serves all sizes, which slices and torch's pad would not.
    if is_exporting() or x.shape[-2:] != (height, width):
        for axis, length in ((2, height), (3, width)):
            places = torch.arange(length, device=x.device).clamp(max=x.shape[axis] - 1)
            x = x.index_select(axis, places)
    return x


def convolution(in_channels: int, out_channels: int, kernel_size: int, bias: bool) -> nn.Conv2d:
    """Return a convolution that keeps the size, with zeros around the image as in the paper."""
    return nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2, bias=bias)


def set_normal(layers: Sequence[nn.Conv2d], gain: float, generator: torch.Generator | None) -> None:
    """Draw the kernels from N(0, gain²/fan-in); set the biases to 0."""
    if not 0 <= gain < math.inf:
        raise ValueError(f"output_gain must be a number >= 0, got {gain!r}")
    with torch.no_grad():
        for layer in layers:
            fan_in = max(1, layer.weight[0].numel())
            layer.weight.normal_(0, gain / fan_in**0.5, generator=generator)
            if layer.bias is not None:
                layer.bias.zero_()


def check_kernel_size(kernel_size: int) -> None:
    """Raise unless kernel_size is an odd integer >= 1."""
    if not isinstance(kernel_size, int) or kernel_size % 2 == 0:
        raise ValueError(f"kernel_size must be an odd integer >= 1, got {kernel_size!r}")
    check_size("kernel_size", kernel_size)


def as_convolutions(layers: nn.ModuleList) -> list[nn.Conv2d]:
    """Return the convolutions of a list, typed."""
    return [cast("nn.Conv2d", layer) for layer in layers]
