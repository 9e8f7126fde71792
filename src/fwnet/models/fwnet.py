"""The Frank-Wolfe Network, and the same network with ReLU, which the paper calls MLP."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fwnet.models.coding_network import CodingNetwork
from fwnet.nn import Activation, Unrolled

__all__ = ["MLP", "FWNet"]


class FWNet(CodingNetwork):
    """z^{t+1} = (1 − γ_t)·z^t + γ_t·pool_p(W_t z^t + W_0 x),   z⁰ = 0,   t = 0 … T − 1.

    With W_0 = −Dᵀ, W_t = DᵀD and γ_t = 2/(t + 2) this is T iterations of the Frank-Wolfe algorithm
    for min ½‖x − Dz‖² s.t. ‖z‖_p ≤ radius (`from_dictionary`); training moves W, p and γ from
    there. Made from shapes alone, it starts from a random D with atoms of norm 1.

    Args:
        num_features: n, the length of x.
        num_atoms: m, the length of a code.
        num_layers: T.
        radius: The radius c of the ball: the one number that is chosen by hand.
        p: The exponent, or where it starts.
        learn_p: Whether p is learned.
        p_per_layer: One p a layer instead of one for the network. Not in the paper.
        learn_radius: Whether every layer learns a radius of its own, from c. Not in the paper.
        step_sizes: The T values of γ_t, or where they start. Default: 2/(t + 2).
        learn_step_sizes: Whether γ_t are learned.
        share_weights: Whether W_1 … W_{T−1} are one matrix.
        reconstruct: Whether a last layer W_R turns the code into a signal.
        input_scale: What signals are multiplied by first.
        skip: Whether W_0 x is added at every layer; without it, in the first one only.
        activation: "relu" puts max(−u, 0) in the place of pool_p(u).
        linear_output: Whether the last layer has −u in that place.
        bounds: The interval that a learned p stays in.
        eps: See `fwnet.pool_p`.
        generator: Where the initial weights come from.
    """

    def __init__(
        self,
        num_features: int,
        num_atoms: int,
        num_layers: int,
        *,
        radius: float = 1.0,
        p: float = 2.0,
        learn_p: bool = True,
        p_per_layer: bool = False,
        learn_radius: bool = False,
        step_sizes: Sequence[float] | None = None,
        learn_step_sizes: bool = True,
        share_weights: bool = False,
        reconstruct: bool = False,
        input_scale: float = 1.0,
        skip: bool = True,
        activation: Activation = "pool_p",
        linear_output: bool = False,
        bounds: Sequence[float] = (1.001, 100.0),
        eps: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(
            num_features,
            num_atoms,
            num_layers,
            share_weights=share_weights,
            reconstruct=reconstruct,
            input_scale=input_scale,
        )
        low, high = bounds
        self.steps = Unrolled(
            num_layers,
            p=p,
            learn_p=learn_p,
            p_per_layer=p_per_layer,
            bounds=(low, high),
            radius=radius,
            learn_radius=learn_radius,
            step_sizes=step_sizes,
            learn_step_sizes=learn_step_sizes,
            skip=skip,
            activation=activation,
            linear_output=linear_output,
            eps=eps,
        )
        self._initialize(generator)

    def encode(self, x: Tensor) -> Tensor:
        """Return the codes, (batch, m), of signals x, (batch, n)."""
        code: Tensor = self.steps(self._w0_x(x), self._matrices())
        return code

    @property
    def p(self) -> Tensor | None:
        """The exponent, or one a layer; None with ReLU."""
        return self.steps.p

    @property
    def step_sizes(self) -> Tensor:
        """γ_t, of shape (T,)."""
        values: Tensor = self.steps.step_sizes()
        return values

    def watched(self) -> dict[str, float | list[float]]:
        """p and γ, and the radii where they are learned."""
        numbers = {"p": self.p, "gamma": self.step_sizes}
        if self.steps.log_radii is not None:
            numbers["radius"] = self.steps.radii
        return {name: value.tolist() for name, value in numbers.items() if value is not None}

    def _set_dictionary(self, dictionary: Tensor) -> None:
        self.first.weight.copy_(-dictionary.T)
        for layer in self._matrices():
            layer.weight.copy_(dictionary.T @ dictionary)
        if self.last is not None:
            self.last.weight.copy_(dictionary)

    def _initialize(self, generator: torch.Generator | None) -> None:
        self._set_random_dictionary(generator)


class MLP(FWNet):
    """z^{t+1} = (1 − γ_t)·z^t + γ_t·max(−u_t, 0),   u_t = W_t z^t + W_0 x: ReLU for pool_p.

    The paper's MLP: the layers, matrices and step sizes of `FWNet` and no p. What it gives is ≥ 0
    though codes have both signs; with `linear_output` the last layer is −u_t and has both, too.
    The weights start as is usual for ReLU: normal, of variance 2/fan-in.

    Arguments are those of `FWNet`.
    """

    def __init__(
        self,
        num_features: int,
        num_atoms: int,
        num_layers: int,
        *,
        linear_output: bool = False,
        step_sizes: Sequence[float] | None = None,
        learn_step_sizes: bool = True,
        share_weights: bool = False,
        reconstruct: bool = False,
        input_scale: float = 1.0,
        skip: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(
            num_features,
            num_atoms,
            num_layers,
            activation="relu",
            linear_output=linear_output,
            step_sizes=step_sizes,
            learn_step_sizes=learn_step_sizes,
            share_weights=share_weights,
            reconstruct=reconstruct,
            input_scale=input_scale,
            skip=skip,
            generator=generator,
        )

    def _initialize(self, generator: torch.Generator | None) -> None:
        with torch.no_grad():
            for weight in (w for w in self.parameters() if w.ndim == 2):
                weight.normal_(0, math.sqrt(2 / weight.shape[1]), generator=generator)
