"""The base of networks that turn signals into codes: their matrices."""

import math
from abc import abstractmethod
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, softplus

from fwnet.checks import check_num_layers, check_size
from fwnet.models.model import SignalModel
from fwnet.nn import Unrolled


class UnrolledLayers:
    """The part of a dense or convolutional network of T layers that is about W_1 … W_{T−1}."""

    num_layers: int
    others: nn.ModuleList

    def _matrices(self) -> list[Any]:
        """W_1 … W_{T−1}; if they are shared, the one T − 1 times."""
        layers = list(self.others)
        return layers * (self.num_layers - 1) if len(layers) == 1 else layers


class FrankWolfeLayers:
    """The part of a dense or convolutional network that is about p and γ."""

    steps: Unrolled

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
        """Return p and γ, and the radii if they are learned."""
        return self.steps.watched()


class ThresholdLayers:
    """The part of a dense or convolutional network that is about the thresholds softplus(ρ_t)."""

    raw_thresholds: nn.ParameterList

    def watched(self) -> dict[str, float | list[float]]:
        """Return the mean threshold of every layer."""
        means = [softplus(raw).mean() for raw in self.raw_thresholds]
        return {"threshold": torch.stack(means).tolist()}


class CodingNetwork(UnrolledLayers, SignalModel):
    """T layers with a matrix W_0 (m × n) for the signal and T − 1 matrices W_t (m × m) for codes.

    Subclasses implement the layers (`encode`) and the matrices for a dictionary
    (`_matrices_for`). Depth, widths and weight sharing are the same for all of them. If they are
    coupled, W_0 and one D (n × m), which stands for W_t = −W_0 D, are all.

    The arguments are those of `FWNet`.

    >>> import fwnet
    >>> issubclass(fwnet.FWNet, fwnet.models.CodingNetwork)
    True
    """

    def __init__(
        self,
        num_features: int,
        num_atoms: int,
        num_layers: int,
        *,
        share_weights: bool,
        reconstruct: bool,
        input_scale: float,
        coupled: bool = False,
    ) -> None:
        super().__init__()
        check_size("num_features", num_features)
        check_size("num_atoms", num_atoms)
        check_num_layers(num_layers)
        if not 0 < input_scale < math.inf:
            raise ValueError(f"input_scale must be > 0 and finite, got {input_scale!r}")
        self.input_scale = float(input_scale)
        self.num_features, self.num_atoms, self.num_layers = num_features, num_atoms, num_layers
        self.first = nn.Linear(num_features, num_atoms, bias=False)
        self.coupled = coupled
        count = min(1, num_layers - 1) if share_weights else num_layers - 1
        width, count = (num_features, 1) if coupled else (num_atoms, count)
        self.others = nn.ModuleList(nn.Linear(num_atoms, width, bias=False) for _ in range(count))
        self.last = nn.Linear(num_atoms, num_features, bias=False) if reconstruct else None

    @classmethod
    def from_dictionary(cls, dictionary: Tensor, num_layers: int, **options: Any) -> Self:
        """Return the network that, before training, equals the algorithm it unrolls.

        Args:
            dictionary: D, of shape (n, m), one atom per column: the transpose of scikit-learn's
                `components_`. The network gets its dtype and device. With an `input_scale` pass D
                times that scale.
            num_layers: T.
            options: The other arguments of the constructor.
        """
        check_dictionary(dictionary)
        n, m = dictionary.shape
        options |= {"num_features": n, "num_atoms": m, "num_layers": num_layers}
        network = cls(**options).to(dictionary)
        network._set_dictionary(dictionary)
        return network

    @property
    def multiply_adds(self) -> int:
        """The number of multiplications with weights per signal."""
        outer = [layer.weight.numel() for layer in (self.first, self.last) if layer is not None]
        if self.coupled:
            return sum(outer) + self._coupled_products * self.num_features * self.num_atoms
        return sum(outer) + (self.num_layers - 1) * self.num_atoms**2

    @property
    def _coupled_products(self) -> int:
        """The number of products with W_0 and D, after the first, if they are coupled."""
        return 2 * (self.num_layers - 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the codes of x or, with a last layer, the signals rebuilt from them."""
        z = self.encode(x)
        if self.last is None:
            return z
        rebuilt: Tensor = self.last(z)
        return rebuilt if self.input_scale == 1 else rebuilt / self.input_scale

    def _scaled(self, x: Tensor) -> Tensor:
        """Check x and return it in the unit of the weights."""
        self._check_features(x)
        return x if self.input_scale == 1 else x * self.input_scale

    def _set_random_weights(self, generator: torch.Generator | None) -> None:
        """Set the matrices to those for a random D with atoms of norm 1."""
        shape = (self.num_features, self.num_atoms)
        self._set_dictionary(normalize(torch.randn(shape, generator=generator), dim=0))

    @torch.no_grad()
    def _set_dictionary(self, dictionary: Tensor) -> None:
        first, other = self._matrices_for(dictionary)
        self.first.weight.copy_(first)
        others: list[Any] = list(self.others)
        for layer in others:
            layer.weight.copy_(other)
        if self.last is not None:
            self.last.weight.copy_(dictionary)

    @abstractmethod
    def _matrices_for(self, dictionary: Tensor) -> tuple[Tensor, Tensor]:
        """Return W_0, (m, n), and every W_t, (m, m), or coupled D, of the algorithm for this D."""


def check_dictionary(dictionary: Tensor) -> None:
    """Raise unless a dictionary is a finite matrix."""
    if not isinstance(dictionary, Tensor) or not dictionary.is_floating_point():
        kind = dictionary.dtype if isinstance(dictionary, Tensor) else type(dictionary).__name__
        raise TypeError(f"dictionary must be a floating-point tensor, got {kind}")
    if dictionary.ndim != 2 or 0 in dictionary.shape:
        raise ValueError(
            f"dictionary must have shape (n, m), one atom per column, got {tuple(dictionary.shape)}"
        )
    if not dictionary.isfinite().all():
        raise ValueError("dictionary must be finite, got NaN or infinite entries")


def raw_thresholds(threshold: float, count: int) -> Tensor:
    """Return `count` times the number whose softplus is the threshold."""
    if not threshold > 0:
        raise ValueError(f"threshold must be > 0, got {threshold!r}")
    return torch.tensor(float(threshold)).expm1().log().repeat(count)
