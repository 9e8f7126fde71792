"""Plain layers, which networks with codes are compared with on digits."""

import itertools
import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from fwnet.models import SignalModel


class FeedForward(SignalModel):
    """h ← max(W h + b, 0), layer by layer; the last layer is linear.

    The paper's "3-layer" networks: every entry of x is an input. Weights start normal with variance
    2/fan-in, as usual for ReLU, and biases at 0.

    Args:
        num_features: n, the length of x.
        hidden: Widths of the hidden layers.
        num_classes: Length of the output.
        generator: Generator of the initial weights.
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
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(widths))
        with torch.no_grad():
            for layer in cast("list[nn.Linear]", list(self.layers)):
                layer.weight.normal_(0, math.sqrt(2 / layer.in_features), generator=generator)
                layer.bias.zero_()

    def encode(self, x: Tensor) -> Tensor:
        """Return the output of the last hidden layer."""
        self._check_features(x)
        for layer in list(self.layers)[:-1]:
            x = relu(layer(x))
        return x

    def forward(self, x: Tensor) -> Tensor:
        """Return log-odds, (batch, num_classes)."""
        logits: Tensor = cast("nn.Linear", self.layers[-1])(self.encode(x))
        return logits
