"""Learned ISTA with convolutions, with the depth, widths and sharing of `ConvFWNet`."""

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from fwnet.functional import soft_threshold
from fwnet.models.coding_network import raw_thresholds
from fwnet.models.conv_coding_network import ConvCodingNetwork, gram_kernels, squared_norm


class ConvLISTA(ConvCodingNetwork):
    """z^{t+1} = h_θt(W_t ∗ z^t + W_0 ∗ x),   z⁰ = 0,   y = x + W_R ∗ z^T,   h_θ: soft threshold.

    Every layer has one threshold per map, kept positive as softplus(ρ).

    Args:
        threshold: The initial thresholds, > 0 (default 0.01).

    The other arguments are those of `ConvFWNet`.
    """

    def __init__(
        self,
        num_layers: int,
        channels: int = 64,
        *,
        in_channels: int = 1,
        kernel_size: int = 3,
        threshold: float = 0.01,
        share_weights: bool = False,
        residual: bool = True,
        noise_level_input: bool = False,
        scale: int = 1,
        output_gain: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(
            num_layers,
            channels,
            in_channels=in_channels,
            kernel_size=kernel_size,
            residual=residual,
            noise_level_input=noise_level_input,
            share_weights=share_weights,
            scale=scale,
        )
        self.raw_thresholds = nn.ParameterList(
            raw_thresholds(threshold, channels) for _ in range(num_layers)
        )
        self._set_normal(output_gain, generator)

    def encode(self, x: Tensor) -> Tensor:
        """Return the codes, (batch, m, h, w), of images and their noise level, if any."""
        b = self.first(x)
        thresholds = [softplus(raw).reshape(-1, 1, 1).to(b.dtype) for raw in self.raw_thresholds]
        z = soft_threshold(b, thresholds[0])
        matrices = self._matrices()
        for t in range(1, self.num_layers):
            matrix = matrices[0] if len(matrices) == 1 else matrices[t - 1]
            z = soft_threshold(b + matrix(z), thresholds[t])
        return z

    def watched(self) -> dict[str, float | list[float]]:
        """Return the mean threshold of every layer."""
        means = [softplus(raw).mean() for raw in self.raw_thresholds]
        return {"threshold": torch.stack(means).tolist()}

    def _set_atoms(self, atoms: Tensor) -> None:
        lipschitz = squared_norm(atoms)
        self.first.weight[:, : self.in_channels] = atoms / lipschitz
        for layer in self._matrices():
            layer.weight.copy_(-gram_kernels(atoms) / lipschitz)
            middle = self.kernel_size // 2
            layer.weight[:, :, middle, middle] += torch.eye(self.channels).to(atoms)
