"""VDSR (Kim et al., 2016): the super-resolution network the paper compares with."""

from __future__ import annotations

import torch

from fwnet.models.dncnn import DnCNN

__all__ = ["VDSR"]


class VDSR(DnCNN):
    """y = x + W_L ∗ a_{L−1},   a_l = relu(W_l ∗ a_{l−1} + b_l),   a_0 = x, an enlarged image.

    Equal to `DnCNN` without batch normalization. The published network has 20 layers of 64 maps.

    Args:
        num_layers: L, the number of convolutions (default 20).
        channels: The number of feature maps (default 64).
        in_channels: 1 for luma (default).
        kernel_size: The side of all kernels, odd (default 3).
        batch_norm: Whether inner convolutions are normalized, as the paper tries (default False).
        noise_level_input: Whether the first convolution gets one more channel, which holds σ
            (default False).
        output_gain: The initial scale of W_L, as in `DnCNN` (default 1).
        generator: The random generator of the initial weights.
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
