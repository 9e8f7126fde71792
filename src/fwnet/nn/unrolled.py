"""T unrolled Frank-Wolfe steps without the matrices."""

import math
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from fwnet.checks import check_list, check_num_layers
from fwnet.functional import check_eps, check_radius, frank_wolfe_step
from fwnet.nn.exponent import Exponent, check_eps_fits, check_plain
from fwnet.nn.step_sizes import StepSizes, harmonic_step_sizes

Activation = Literal["pool_p", "relu", "shrink"]


@runtime_checkable
class Oracle(Protocol):
    """What a layer needs of a convex set."""

    def lmo(self, u: Tensor) -> Tensor:
        """argmin ⟨s, u⟩ over the set."""

    def project(self, y: Tensor) -> Tensor:
        """Return the nearest point of the set."""


class Unrolled(nn.Module):
    """z^{t+1} = (1 − γ_t)·z^t + γ_t·pool_p(W_t z^t + W_0 x),   z⁰ = 0,   t = 0 … T − 1.

    Holds p, γ_t and the radius, but not the matrices, which may be dense or convolutions.

    Args:
        dim: The axis of a code (default: the last).

    The other arguments are those of `fwnet.FWNet`.

    Three steps with one matrix for all of them:

    >>> import fwnet, torch
    >>> steps = fwnet.nn.Unrolled(3, p=1.5, radius=2.0)
    >>> W_0, W = torch.nn.Linear(10, 20, bias=False), torch.nn.Linear(20, 20, bias=False)
    >>> steps(W_0(torch.randn(4, 10)), [W]).shape
    torch.Size([4, 20])
    """

    activations: ClassVar[tuple[Activation, ...]] = ("pool_p", "relu")

    def __init__(
        self,
        num_layers: int,
        *,
        p: float = 2.0,
        learn_p: bool = True,
        p_per_layer: bool = False,
        bounds: Sequence[float] = (1.001, 100.0),
        radius: float = 1.0,
        learn_radius: bool = False,
        step_sizes: Sequence[float] | None = None,
        learn_step_sizes: bool = True,
        skip: bool = True,
        activation: Activation = "pool_p",
        linear_output: bool = False,
        dim: int = -1,
        eps: float = 0.0,
        convex_set: Oracle | None = None,
        smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        check_num_layers(num_layers)
        if activation not in self.activations:
            listed = " or ".join(self.activations)
            raise ValueError(f"activation must be {listed}, got {activation!r}")
        if step_sizes is None:
            step_sizes = harmonic_step_sizes(num_layers)
        check_list("step_sizes", step_sizes)
        if len(step_sizes) != num_layers:
            raise ValueError(
                f"step_sizes must have one value per layer, {num_layers}, got {len(step_sizes)}"
            )
        check_radius(radius)
        check_plain("radius", radius)
        check_eps(eps)
        if not 0 <= smoothing < math.inf:
            raise ValueError(f"smoothing must be >= 0 and finite, got {smoothing!r}")
        if convex_set is not None and not isinstance(convex_set, Oracle):
            raise TypeError(f"convex_set must have lmo and project, got {convex_set!r}")
        if convex_set is not None and (dim != -1 or activation != "pool_p"):
            raise ValueError("convex_set needs dim = -1 and activation = 'pool_p'")
        self.convex_set, self.smoothing = convex_set, float(smoothing)
        self.num_layers, self.skip, self.activation = num_layers, skip, activation
        self.linear_output, self.dim, self.eps = linear_output, dim, float(eps)
        self.step_sizes: nn.Module = StepSizes(step_sizes, learn=learn_step_sizes)
        self.radius = float(radius)
        self.log_radii: nn.Parameter | None = None
        self.exponents = nn.ModuleList()
        if activation == "pool_p" and convex_set is None:
            check_eps_fits(eps, p)
            count = num_layers if p_per_layer else 1
            self.exponents.extend(Exponent(p, learn_p=learn_p, bounds=bounds) for _ in range(count))
        if learn_radius and activation != "relu" and convex_set is None:
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
        if self.convex_set is not None:
            options[1:] = [repr(self.convex_set), f"smoothing={self.smoothing:g}"]
        options += ["no skip"] * (not self.skip) + ["linear output"] * self.linear_output
        return ", ".join(options)

    def _exponent(self, t: int) -> Exponent:
        return cast("Exponent", self.exponents[0 if len(self.exponents) == 1 else t])

    def _radius(self, t: int) -> float | Tensor:
        return self.radius if self.log_radii is None else self.log_radii[t].exp()

    def _oracle(self, convex_set: Oracle, u: Tensor) -> Tensor:
        """argmin ⟨s, u⟩ + ½ε‖s‖² over the set: the oracle, or with ε > 0 the projection of −u/ε."""
        return convex_set.project(-u / self.smoothing) if self.smoothing else convex_set.lmo(u)

    def _step(
        self, t: int, z: Tensor | None, a: Tensor, b: Tensor | None, step_size: Tensor
    ) -> Tensor:
        last = t == self.num_layers - 1
        if self.convex_set is not None and not (last and self.linear_output):
            s = self._oracle(self.convex_set, a if b is None else a + b)
            # A set need not contain z⁰ = 0. With γ_0 = 1, the first of 2/(t + 2), z¹ is in it.
            return s if z is None else torch.lerp(z, s, step_size.to(s))
        if self.activation == "pool_p" and not (last and self.linear_output):
            excess, radius = self._exponent(t).excess, self._radius(t)
            return frank_wolfe_step(
                z, a, b, step_size, excess, radius, self.dim, self.eps, overwrite_z=True
            )
        minus_u = -a if b is None else -(a + b)
        s = minus_u if last and self.linear_output else relu(minus_u)
        step_size = step_size.to(s.dtype)
        return step_size * s if z is None else torch.lerp(z, s, step_size)
