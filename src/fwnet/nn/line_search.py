"""Unrolled steps that find their own size for every sample, on the quadratic they learn."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from fwnet.checks import check_integer
from fwnet.functional import pool_excess, shrink
from fwnet.nn.step_sizes import StepFactors
from fwnet.nn.unrolled import Activation, Unrolled

Search = Literal["exact", "conjugate"]

# A direction that is nearly a combination of earlier ones is not followed any farther than this
# part of its square length allows.
INDEPENDENT = 1e-5


class LineSearch(Unrolled):
    """r = x − Dz,   u = W_0 r,   d = s(u) − z,   γ = a_t·⟨r, Dd⟩/‖Dd‖²,   z ← z + γ·d.

    γ minimizes ‖r − γDd‖² for every sample; training changes W_0 and D, which all layers share, and
    the factors a_t. There are two kinds of search:

    * "exact": γ is kept in [0, 1], so that z stays in the ball (the largest, if radii are learned),
      except for free entries. With "pool_p", W_0 = −Dᵀ and a_t = 1 this is the Frank-Wolfe
      algorithm with `ShortStep`.
    * "conjugate": d is first made conjugate to the directions of all earlier layers, ⟨Dd, Dd'⟩ = 0,
      so that no layer undoes the work of another. z can leave the ball. In a large ball with
      "shrink" this is the method of conjugate gradients.

    and two units:

    * "pool_p": s = pool_p(u).
    * "shrink": s = P(z − η_t·u), the projection on the L1 ball (`fwnet.functional.shrink`), which
      is argmin ⟨u, s⟩ + ½‖s − z‖²/η over the ball: several atoms per step. Layer t leaves the
      (t + 1)·free_entries largest entries as they are. For sparse codes.

    Args:
        line_search: "exact" or "conjugate".
        activation: "pool_p" or "shrink".
        free_entries: For "shrink", see above (default 0).
        learn_step_sizes: Whether the factors are learned (default True).

    The other arguments are those of `fwnet.FWNet`.

    >>> import fwnet, torch
    >>> steps = fwnet.nn.LineSearch(3, p=1.5, radius=2.0)
    >>> W_0, D = torch.nn.Linear(10, 20, bias=False), torch.nn.Linear(20, 10, bias=False)
    >>> steps(torch.randn(4, 10), [W_0, D]).shape
    torch.Size([4, 20])
    """

    activations: ClassVar[tuple[Activation, ...]] = ("pool_p", "shrink")

    def __init__(
        self,
        num_layers: int,
        *,
        line_search: Search = "exact",
        p: float = 2.0,
        learn_p: bool = True,
        p_per_layer: bool = False,
        bounds: Sequence[float] = (1.001, 100.0),
        radius: float = 1.0,
        learn_radius: bool = False,
        learn_step_sizes: bool = True,
        activation: Activation = "pool_p",
        eps: float = 0.0,
        free_entries: int = 0,
    ) -> None:
        if line_search not in ("exact", "conjugate"):
            raise ValueError(f"line_search must be exact or conjugate, got {line_search!r}")
        check_integer("free_entries", free_entries, 0)
        if free_entries and activation != "shrink":
            raise ValueError(f"free_entries must be 0 for {activation}, got {free_entries}")
        super().__init__(
            num_layers,
            p=p,
            learn_p=learn_p,
            p_per_layer=p_per_layer,
            bounds=bounds,
            radius=radius,
            learn_radius=learn_radius,
            step_sizes=[1.0] * num_layers,
            learn_step_sizes=False,
            activation=activation,
            eps=eps,
        )
        self.line_search, self.free_entries = line_search, free_entries
        if learn_step_sizes:
            self.step_sizes = StepFactors(num_layers)
        if activation == "shrink":
            self.slopes = nn.Parameter(torch.ones(num_layers))  # η

    def forward(self, x: Tensor, matrices: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
        """Return z^T, given x and the two matrices W_0 and D."""
        encode, decode = matrices
        factors: Tensor = self.step_sizes().to(x)
        residual, z = x, None
        earlier: list[tuple[Tensor, Tensor]] = []  # directions and images, with images of length 1
        for t in range(self.num_layers):
            direction = self._direction(t, z, encode(residual))
            image = decode(direction)
            length = _dot(image, image)
            if self.line_search == "conjugate":
                room = INDEPENDENT * length
                if earlier:
                    directions, images = (
                        torch.stack(parts, -2) for parts in zip(*earlier, strict=True)
                    )
                    shares = _dot(images, image.unsqueeze(-2))
                    direction = direction - (shares * directions).sum(-2)
                    image = image - (shares * images).sum(-2)
                length = _dot(image, image) + room
            length = length.clamp(min=torch.finfo(x.dtype).tiny)
            gamma = factors[t] * _dot(residual, image) / length
            if self.line_search == "exact":
                gamma = torch.minimum(gamma.clamp(min=0), self._limit(t, x))
            step = gamma * direction
            z = step if z is None else z + step
            residual = residual - gamma * image
            earlier.append((direction * length.rsqrt(), image * length.rsqrt()))
        assert z is not None
        return z

    def extra_repr(self) -> str:
        """Return the settings that no submodule shows."""
        free = f", free_entries={self.free_entries}" * (self.activation == "shrink")
        return f"{super().extra_repr()}, {self.line_search}{free}"

    def _direction(self, t: int, z: Tensor | None, u: Tensor) -> Tensor:
        """s − z; from z = 0, pool_p on a ball of radius 1, since the search finds the scale."""
        if self.activation == "pool_p":
            radius = 1.0 if z is None else self._radius(t)
            s = pool_excess(u, self._exponent(t).excess, radius, self.dim, self.eps)
        else:
            u = self.slopes[t] * u
            v = -u if z is None else z - u
            s = shrink(v, self._radius(t), (t + 1) * self.free_entries)
        return s if z is None else s - z

    def _limit(self, t: int, x: Tensor) -> Tensor:
        """Return the largest step that stays in the ball."""
        alone = t == 0 and self.activation == "pool_p"
        return x.new_ones(()) * (self._radius(0) if alone else 1.0)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1, keepdim=True)
