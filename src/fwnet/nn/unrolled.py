"""T unrolled Frank-Wolfe steps with learned p and γ, without the matrices."""

import math
from collections.abc import Callable, Sequence
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from fwnet.checks import check_integer
from fwnet.functional import check_eps, check_radius, frank_wolfe_step
from fwnet.nn.exponent import Exponent, check_plain
from fwnet.nn.step_sizes import StepSizes, harmonic_step_sizes

Activation = Literal["pool_p", "relu"]


class Unrolled(nn.Module):
    """z^{t+1} = (1 − γ_t)·z^t + γ_t·pool_p(W_t z^t + W_0 x),   z⁰ = 0,   t = 0 … T − 1.

    Holds p, γ_t and the radius, but not the matrices, which may be dense or convolutions.

    Args:
        dim: The axis of a code (default: the last).

    The other arguments are those of `fwnet.FWNet`.
    """

    def __init__(
        self,
        num_layers: int,
        *,
        p: float = 2.0,
        learn_p: bool = True,
        p_per_layer: bool = False,
        bounds: tuple[float, float] = (1.001, 100.0),
        radius: float = 1.0,
        learn_radius: bool = False,
        step_sizes: Sequence[float] | None = None,
        learn_step_sizes: bool = True,
        skip: bool = True,
        activation: Activation = "pool_p",
        linear_output: bool = False,
        dim: int = -1,
        eps: float = 0.0,
    ) -> None:
        super().__init__()
        check_integer("num_layers", num_layers)
        if activation not in ("pool_p", "relu"):
            raise ValueError(f"activation must be pool_p or relu, got {activation!r}")
        if step_sizes is None:
            step_sizes = harmonic_step_sizes(num_layers)
        if len(step_sizes) != num_layers:
            raise ValueError(
                f"step_sizes must have one value per layer, {num_layers}, got {len(step_sizes)}"
            )
        check_radius(radius)
        check_plain("radius", radius)
        check_eps(eps)
        self.num_layers, self.skip, self.activation = num_layers, skip, activation
        self.linear_output, self.dim, self.eps = linear_output, dim, float(eps)
        self.step_sizes = StepSizes(step_sizes, learn=learn_step_sizes)
        self.radius = float(radius)
        self.log_radii: nn.Parameter | None = None
        self.exponents = nn.ModuleList()
        if activation == "pool_p":
            count = num_layers if p_per_layer else 1
            self.exponents.extend(Exponent(p, learn_p=learn_p, bounds=bounds) for _ in range(count))
            if learn_radius:
                self.log_radii = nn.Parameter(torch.full((num_layers,), math.log(radius)))

    def forward(self, w0_x: Tensor, matrices: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
        """Return z^T, given W_0 x and W_1 … W_{T−1}, or one W for all."""
        step_sizes = self.step_sizes()
        # At t = 0 the code is 0: skip its terms.
        z = self._step(0, None, w0_x, None, step_sizes[0])
        for t in range(1, self.num_layers):
            matrix = matrices[0] if len(matrices) == 1 else matrices[t - 1]
            z = self._step(t, z, matrix(z), w0_x if self.skip else None, step_sizes[t])
        return z

    @property
    def p(self) -> Tensor | None:
        """The exponent, 0-dim, or one per layer; None for ReLU."""
        if not len(self.exponents):
            return None
        values = [self._exponent(t).p for t in range(len(self.exponents))]
        return values[0] if len(values) == 1 else torch.stack(values)

    @property
    def radii(self) -> Tensor:
        """The radius of every layer."""
        if self.log_radii is None:
            return torch.full((self.num_layers,), self.radius)
        return self.log_radii.exp()

    def watched(self) -> dict[str, float | list[float]]:
        """Return p and γ, and the radii if they are learned."""
        numbers = {"p": self.p, "gamma": self.step_sizes()}
        if self.log_radii is not None:
            numbers["radius"] = self.radii
        return {name: value.tolist() for name, value in numbers.items() if value is not None}

    def extra_repr(self) -> str:
        """Return the settings that no submodule shows."""
        learned = "learned radius" if self.log_radii is not None else "radius"
        options = [f"T={self.num_layers}", self.activation, f"{learned}={self.radius:g}"]
        options += ["no skip"] * (not self.skip) + ["linear output"] * self.linear_output
        return ", ".join(options)

    def _exponent(self, t: int) -> Exponent:
        return cast("Exponent", self.exponents[0 if len(self.exponents) == 1 else t])

    def _step(
        self, t: int, z: Tensor | None, a: Tensor, b: Tensor | None, step_size: Tensor
    ) -> Tensor:
        last = t == self.num_layers - 1
        if self.activation == "pool_p" and not (last and self.linear_output):
            radius = self.radius if self.log_radii is None else self.log_radii[t].exp()
            return frank_wolfe_step(
                z, a, b, step_size, self._exponent(t).excess, radius, self.dim, self.eps
            )
        minus_u = -a if b is None else -(a + b)
        s = minus_u if last and self.linear_output else relu(minus_u)
        step_size = step_size.to(s.dtype)
        return step_size * s if z is None else torch.lerp(z, s, step_size)
