"""Classifiers: a softmax layer on codes, and plain layers for comparison."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from fwnet.checks import check_integer
from fwnet.models.coding_network import CodingNetwork
from fwnet.models.model import SignalModel, create_model

__all__ = ["CodeClassifier", "FeedForward"]


class CodeClassifier(SignalModel):
    """log-odds W_C z + b of the classes, from the code z = f(x) of a coding network f.

    Args:
        encoder: The settings of f: the name of a `model`, such as "FWNet", and the arguments of its
            constructor.
        num_classes: The number of classes, at least 2.
        generator: The random generator of the initial weights of f and W_C.
    """

    def __init__(
        self,
        encoder: Mapping[str, Any],
        num_classes: int,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(encoder, Mapping) or "model" not in encoder:
            raise ValueError(f"encoder must be a mapping with the key model, got {encoder!r}")
        check_integer("num_classes", num_classes, least=2)
        options = {name: value for name, value in encoder.items() if name != "model"}
        network = create_model(encoder["model"], **options, generator=generator)
        if not isinstance(network, CodingNetwork) or network.last is not None:
            raise ValueError(f"encoder must give codes, got {encoder['model']!r} with {options}")
        self.encoder = network
        self.num_features, self.num_classes = network.num_features, num_classes
        self.head = _dense(network.num_atoms, num_classes, 1.0, generator)

    @classmethod
    def on(
        cls,
        encoder: CodingNetwork,
        num_classes: int,
        *,
        generator: torch.Generator | None = None,
    ) -> Self:
        """Return a classifier on a trained coding network, whose weights are copied."""
        about = {"model": type(encoder).__name__, **encoder.config}
        classifier = cls(about, num_classes, generator=generator)
        classifier.to(encoder.first.weight)
        classifier.encoder.load_state_dict(encoder.state_dict())
        return classifier

    def encode(self, x: Tensor) -> Tensor:
        """Return the codes, (batch, m), of signals x, (batch, n)."""
        return self.encoder.encode(x)

    def forward(self, x: Tensor) -> Tensor:
        """Return log-odds, (batch, num_classes): softmax makes them probabilities."""
        logits: Tensor = self.head(self.encode(x))
        return logits

    def watched(self) -> dict[str, float | list[float]]:
        """Return the watched numbers of f."""
        return self.encoder.watched()


class FeedForward(SignalModel):
    """h ← max(W h + b, 0), layer by layer; the last layer is linear.

    The "3-layer" networks that codes are compared with: every entry of x is an input. Weights start
    as is usual for ReLU, normal of variance 2/fan-in, biases at 0.

    Args:
        num_features: n, the length of x.
        hidden: The widths of the layers between.
        num_classes: The length of the output.
        generator: Where the initial weights come from.
    """

    def __init__(
        self,
        num_features: int,
        hidden: Sequence[int],
        num_classes: int,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        widths = [num_features, *hidden, num_classes]
        if not all(isinstance(width, int) and width >= 1 for width in widths):
            raise ValueError(f"all widths must be integers >= 1, got {widths}")
        self.num_features, self.num_classes = num_features, num_classes
        self.layers = nn.ModuleList(
            _dense(before, after, 2.0, generator) for before, after in itertools.pairwise(widths)
        )

    def encode(self, x: Tensor) -> Tensor:
        """Return what the last layer but one gives."""
        self._check_features(x)
        for layer in list(self.layers)[:-1]:
            x = relu(layer(x))
        return x

    def forward(self, x: Tensor) -> Tensor:
        """Return log-odds, (batch, num_classes)."""
        logits: Tensor = cast("nn.Linear", self.layers[-1])(self.encode(x))
        return logits


def _dense(fan_in: int, fan_out: int, gain: float, generator: torch.Generator | None) -> nn.Linear:
    """Return a layer with weights of variance gain/fan-in and biases 0."""
    layer = nn.Linear(fan_in, fan_out)
    with torch.no_grad():
        layer.weight.normal_(0, math.sqrt(gain / fan_in), generator=generator)
        layer.bias.zero_()
    return layer
