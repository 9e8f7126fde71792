"""A classifier: a softmax layer on the codes of a coding network."""

import math
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from fwnet.checks import check_size
from fwnet.models.coding_network import CodingNetwork
from fwnet.models.model import SignalModel, create_model


class CodeClassifier(SignalModel):
    """log-odds W_C z + b of the classes, from the code z = f(x) of a coding network f.

    Args:
        encoder: Description of f: the name of a `model`, such as "FWNet", and the arguments of its
            constructor.
        num_classes: Number of classes.
        generator: Generator of the initial weights of f and W_C.

    >>> import fwnet, torch
    >>> from fwnet.models import CodeClassifier
    >>> net = CodeClassifier.on(fwnet.FWNet(10, 20, num_layers=3), num_classes=5)
    >>> net(torch.randn(16, 10)).shape
    torch.Size([16, 5])
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
        check_size("num_classes", num_classes, least=2)
        options = {name: value for name, value in encoder.items() if name != "model"}
        network = create_model(encoder["model"], **options, generator=generator)
        if not isinstance(network, CodingNetwork) or network.last is not None:
            raise ValueError(f"encoder must give codes, got {encoder['model']!r} with {options}")
        self.encoder = network
        self.num_features, self.num_classes = network.num_features, num_classes
        self.head = nn.Linear(network.num_atoms, num_classes)
        with torch.no_grad():
            deviation = 1 / math.sqrt(network.num_atoms)
            self.head.weight.normal_(0, deviation, generator=generator)
            self.head.bias.zero_()

    @classmethod
    def on(
        cls,
        encoder: CodingNetwork,
        num_classes: int,
        *,
        generator: torch.Generator | None = None,
    ) -> Self:
        """Return a softmax layer on a copy of a network that has learned codes."""
        about = {"model": type(encoder).__name__, **encoder.config}
        classifier = cls(about, num_classes, generator=generator)
        classifier.to(encoder.first.weight)
        classifier.encoder.load_state_dict(encoder.state_dict())
        return classifier

    def encode(self, x: Tensor) -> Tensor:
        """Return the codes, (batch, m), of signals x, (batch, n)."""
        return self.encoder.encode(x)

    def forward(self, x: Tensor) -> Tensor:
        """Return log-odds, (batch, num_classes), which softmax turns into probabilities."""
        logits: Tensor = self.head(self.encode(x))
        return logits

    def watched(self) -> dict[str, float | list[float]]:
        """Return the learned numbers of f to show during training."""
        return self.encoder.watched()
