"""VDSR (Kim et al., 2016): the deep network for super-resolution that the paper compares with."""

from __future__ import annotations

import torch

from fwnet.models.dncnn import DnCNN

__all__ = ["VDSR"]


class VDSR(DnCNN):
    """y = x + W_L ∗ a_{L−1},   a_l = relu(W_l ∗ a_{l−1} + b_l),   a_0 = x, an enlarged image.

    `DnCNN`, which was made after it, without its batch normalization unless that is asked for.
    Twenty layers of 64 maps are the published one.

    Args:
        num_layers: L, the number of convolutions.
        channels: The number of maps.
        in_channels: 1 for luma.
        kernel_size: The side of all kernels, odd.
        batch_norm: Whether inner convolutions are normalized, as the paper tries.
        noise_level_input: Whether the first convolution sees one more map, which holds σ.
        output_gain: How large W_L is at first, as of `DnCNN`.
        generator: Where the initial weights come from.
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
