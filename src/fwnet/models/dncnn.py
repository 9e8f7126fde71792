"""DnCNN (Zhang et al., 2017): the convolutional denoiser that the paper compares with."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from fwnet.models.image_model import (
    ConvolutionalModel,
    as_convolutions,
    check_counts,
    check_kernel_size,
    convolution,
    set_normal,
)

__all__ = ["DnCNN"]


class DnCNN(ConvolutionalModel):
    """y = x + W_L ∗ a_{L−1},   a_l = relu(norm_l(W_l ∗ a_{l−1})),   a_0 = x.

    Batch normalization follows the inner convolutions W_2 … W_{L−1}, which then have no bias;
    without it W_1 … W_{L−1} have one. Seventeen layers of 64 maps are the published DnCNN-S,
    556,032 parameters.

    Args:
        num_layers: L, the number of convolutions.
        channels: The number of maps.
        in_channels: 1 for gray, 3 for color.
        kernel_size: The side of all kernels, odd.
        batch_norm: Whether inner convolutions are normalized.
        noise_level_input: Whether the first convolution sees one more map, which holds σ.
        output_gain: How large W_L is at first: its entries are N(0, gain²/fan-in). With batch
            normalization 0.1 learns much faster than 1.
        generator: Where the initial weights come from.
    """

    def __init__(
        self,
        num_layers: int = 17,
        channels: int = 64,
        *,
        in_channels: int = 1,
        kernel_size: int = 3,
        batch_norm: bool = True,
        noise_level_input: bool = False,
        output_gain: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(in_channels, residual=True, noise_level_input=noise_level_input)
        check_counts(channels=channels)
        check_kernel_size(kernel_size)
        if not isinstance(num_layers, int) or num_layers < 2:
            raise ValueError(f"num_layers must be an integer >= 2, got {num_layers!r}")
        widths = [in_channels + noise_level_input] + [channels] * (num_layers - 1)
        self.hidden = nn.ModuleList(
            convolution(before, after, kernel_size, bias=not batch_norm)
            for before, after in itertools.pairwise(widths)
        )
        self.norms = nn.ModuleList(
            nn.BatchNorm2d(channels) for _ in range(num_layers - 2 if batch_norm else 0)
        )
        self.last = convolution(channels, in_channels, kernel_size, bias=False)
        set_normal([one.weight for one in as_convolutions(self.hidden)], 2**0.5, generator)
        set_normal([self.last.weight], output_gain, generator)
        with torch.no_grad():
            for layer in as_convolutions(self.hidden):
                if layer.bias is not None:
                    layer.bias.zero_()

    def _transform(self, x: Tensor) -> Tensor:
        for index, layer in enumerate(self.hidden):
            x = layer(x)
            if index and len(self.norms):
                x = self.norms[index - 1](x)
            x = relu(x)
        y: Tensor = self.last(x)
        return y

    def _chain(self) -> list[nn.Conv2d]:
        return [*as_convolutions(self.hidden), self.last]
