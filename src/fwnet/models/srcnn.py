"""SRCNN (Dong et al., 2016): the first convolutional network for super-resolution."""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from fwnet.checks import check_integer
from fwnet.models.model import (
    ConvolutionalModel,
    as_convolutions,
    check_kernel_size,
    convolution,
    set_normal,
)


class SRCNN(ConvolutionalModel):
    """y = W_3 ∗ a_2 + b_3,   a_l = relu(W_l ∗ a_{l−1} + b_l),   a_0 = x, an enlarged image.

    Args:
        kernel_sizes: The sides of the kernels, odd. The first published network has 9, 1, 5 (8,129
            parameters, the default); the best has 9, 5, 5 (57,281 parameters).
        channels: The numbers of feature maps between the convolutions (default 64, 32).
        in_channels: 1 for luma (default).
        generator: The random generator of the initial weights.
    """

    def __init__(
        self,
        kernel_sizes: Sequence[int] = (9, 1, 5),
        channels: Sequence[int] = (64, 32),
        *,
        in_channels: int = 1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(in_channels, residual=False, noise_level_input=False)
        if len(kernel_sizes) != len(channels) + 1:
            raise ValueError(
                f"kernel_sizes must have one more entry than channels, got {len(kernel_sizes)} and "
                f"{len(channels)}"
            )
        for size in kernel_sizes:
            check_kernel_size(size)
        for count in channels:
            check_integer("channels", count)
        widths = [in_channels, *channels, in_channels]
        self.layers = nn.ModuleList(
            convolution(before, after, size, bias=True)
            for (before, after), size in zip(itertools.pairwise(widths), kernel_sizes, strict=True)
        )
        *hidden, last = as_convolutions(self.layers)
        set_normal(hidden, 2**0.5, generator)
        set_normal([last], 1.0, generator)

    def _transform(self, x: Tensor) -> Tensor:
        *hidden, last = self.layers
        for layer in hidden:
            x = relu(layer(x))
        y: Tensor = last(x)
        return y

    def _chain(self) -> list[nn.Conv2d]:
        return as_convolutions(self.layers)
