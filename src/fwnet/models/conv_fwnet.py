"""The convolutional Frank-Wolfe Network."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fwnet.models.conv_coding_network import ConvCodingNetwork, gram_kernels
from fwnet.nn import Activation, Unrolled


class ConvFWNet(ConvCodingNetwork):
    """z^{t+1} = (1 − γ_t)·z^t + γ_t·pool_p(W_t ∗ z^t + W_0 ∗ x),   z⁰ = 0,   y = x + W_R ∗ z^T.

    pool_p acts across channels, at every pixel. W_0 ∗ x is computed once and added at every layer.
    The authors' own networks have `residual=False`, y = W_R ∗ z^T, and `eps=0`.

    Args:
        num_layers: T.
        channels: The number of feature maps (default 64).
        in_channels: 1 for gray (default), 3 for color.
        kernel_size: The side of all kernels, odd (default 3).
        radius: The radius c of the ball at every pixel (default 1).
        p: The exponent, or its initial value (default 1.5).
        learn_p: Whether p is learned (default True).
        p_per_layer: Whether every layer has its own p (default False). Not in the paper.
        step_sizes: The T values of γ_t, or their initial values (default 2/(t + 2)).
        learn_step_sizes: Whether γ_t are learned (default True).
        share_weights: Whether W_1 … W_{T−1} are one kernel (default False).
        residual: Whether the output is x + W_R ∗ z (default); otherwise W_R ∗ z.
        noise_level_input: Whether W_0 gets one more channel, which holds σ (default False).
        scale: Scale factor s (default 1): y is s times the height and width of x, and its pixels
            are the s² maps of W_R ∗ z (sub-pixel convolution). The paper's network gets an enlarged
            image instead.
        skip: Whether every layer adds W_0 ∗ x (default True), or only the first.
        activation: "pool_p", or "relu" for max(−u, 0) instead.
        bounds: The interval of a learned p.
        eps: See `fwnet.pool_p` (default 1e-3). With 0, rounding noise in black areas would get the
            full radius.
        output_gain: The initial scale of W_R: its entries are N(0, gain²/fan-in) (default 1).
        generator: The random generator of the initial weights.
    """

    def __init__(
        self,
        num_layers: int,
        channels: int = 64,
        *,
        in_channels: int = 1,
        kernel_size: int = 3,
        radius: float = 1.0,
        p: float = 1.5,
        learn_p: bool = True,
        p_per_layer: bool = False,
        step_sizes: Sequence[float] | None = None,
        learn_step_sizes: bool = True,
        share_weights: bool = False,
        residual: bool = True,
        noise_level_input: bool = False,
        scale: int = 1,
        skip: bool = True,
        activation: Activation = "pool_p",
        bounds: Sequence[float] = (1.001, 100.0),
        eps: float = 1e-3,
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
        low, high = bounds
        self.steps = Unrolled(
            num_layers,
            p=p,
            learn_p=learn_p,
            p_per_layer=p_per_layer,
            bounds=(low, high),
            radius=radius,
            step_sizes=step_sizes,
            learn_step_sizes=learn_step_sizes,
            skip=skip,
            activation=activation,
            dim=1,
            eps=eps,
        )
        self._set_normal(output_gain, generator)

    def encode(self, x: Tensor) -> Tensor:
        """Return the codes, (batch, m, h, w), of images and their noise level, if any."""
        codes: Tensor = self.steps(self.first(x), self._matrices())
        return codes

    @property
    def p(self) -> Tensor | None:
        """The exponent, or one per layer; None with ReLU."""
        return self.steps.p

    @property
    def step_sizes(self) -> Tensor:
        """γ_t, of shape (T,)."""
        values: Tensor = self.steps.step_sizes()
        return values

    def watched(self) -> dict[str, float | list[float]]:
        """Return p and γ."""
        return self.steps.watched()

    def _set_atoms(self, atoms: Tensor) -> None:
        self.first.weight[:, : self.in_channels] = -atoms
        for layer in self._matrices():
            layer.weight.copy_(gram_kernels(atoms))
