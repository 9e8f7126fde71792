"""Plain convolutional networks: DnCNN (Zhang et al., 2017), VDSR (Kim et al., 2016), SRCNN.

SRCNN (Dong et al., 2016) was the first convolutional network for super-resolution.
"""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from fwnet.checks import check_num_layers, check_size
from fwnet.models.image_model import (
    ConvolutionalModel,
    as_convolutions,
    check_kernel_size,
    convolution,
    set_normal,
)


class DnCNN(ConvolutionalModel):
    """y = x + W_L ∗ a_{L−1},   a_l = relu(norm_l(W_l ∗ a_{l−1})),   a_0 = x.

    The inner convolutions W_2 … W_{L−1} are followed by batch normalization and have no bias;
    without batch normalization W_1 … W_{L−1} have biases. The published DnCNN-S has 17 layers of 64
    maps: 556,032 parameters.

    Args:
        num_layers: L, the number of convolutions (default 17).
        channels: The number of feature maps (default 64).
        in_channels: 1 for gray (default), 3 for color.
        kernel_size: The side of all kernels, odd (default 3).
        batch_norm: Whether inner convolutions are normalized (default True).
        noise_level_input: Whether the first convolution gets one more channel, which holds σ
            (default False).
        reduction: As in `ConvFWNet` (default 1).
        output_gain: The initial scale of W_L: its entries are N(0, gain²/fan-in) (default 1). With
            batch normalization 0.1 learns much faster.
        generator: The random generator of the initial weights.

    >>> import fwnet, torch
    >>> net = fwnet.DnCNN(num_layers=17, channels=64)
    >>> sum(weight.numel() for weight in net.parameters())
    556032
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
        reduction: int = 1,
        output_gain: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(
            in_channels, residual=True, noise_level_input=noise_level_input, reduction=reduction
        )
        check_size("channels", channels)
        check_kernel_size(kernel_size)
        check_num_layers(num_layers, least=2)
        widths = [self.in_planes] + [channels] * (num_layers - 1)
        self.hidden = nn.ModuleList(
            convolution(before, after, kernel_size, bias=not batch_norm)
            for before, after in itertools.pairwise(widths)
        )
        self.norms = nn.ModuleList(
            nn.BatchNorm2d(channels) for _ in range(num_layers - 2 if batch_norm else 0)
        )
        self.last = convolution(channels, self.out_planes, kernel_size, bias=False)
        set_normal(as_convolutions(self.hidden), 2**0.5, generator)
        set_normal([self.last], output_gain, generator)

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


class VDSR(DnCNN):
    """y = x + W_L ∗ a_{L−1},   a_l = relu(W_l ∗ a_{l−1} + b_l),   a_0 = x, an enlarged image.

    Equal to `DnCNN` without batch normalization. The published network has 20 layers of 64 maps.

    The arguments are those of `DnCNN`.

    >>> import fwnet, torch
    >>> fwnet.VDSR(num_layers=5, channels=16)(torch.rand(1, 1, 32, 32)).shape
    torch.Size([1, 1, 32, 32])
    """

    def __init__(
        self,
        num_layers: int = 20,
        channels: int = 64,
        *,
        in_channels: int = 1,
        kernel_size: int = 3,
        batch_norm: bool = False,
        noise_level_input: bool = False,
        output_gain: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(
            num_layers,
            channels,
            in_channels=in_channels,
            kernel_size=kernel_size,
            batch_norm=batch_norm,
            noise_level_input=noise_level_input,
            output_gain=output_gain,
            generator=generator,
        )


class SRCNN(ConvolutionalModel):
    """y = W_3 ∗ a_2 + b_3,   a_l = relu(W_l ∗ a_{l−1} + b_l),   a_0 = x, an enlarged image.

    Args:
        kernel_sizes: The sides of the kernels, odd. The first published network has 9, 1, 5 (8,129
            parameters, the default); the best has 9, 5, 5 (57,281 parameters).
        channels: The numbers of feature maps between the convolutions (default 64, 32).
        in_channels: 1 for luma (default).
        generator: The random generator of the initial weights.

    >>> import fwnet
    >>> sum(weight.numel() for weight in fwnet.SRCNN().parameters())
    8129
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
            check_size("channels", count)
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
