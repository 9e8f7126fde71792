"""Trained weights that come with the package, each with a card that describes it."""

from fwnet.zoo.shelf import (
    Card,
    Sample,
    TrainedModel,
    find_card,
    list_models,
    load_model,
    load_trained,
)
from fwnet.zoo.shipping import ship

__all__ = [
    "Card",
    "Sample",
    "TrainedModel",
    "find_card",
    "list_models",
    "load_model",
    "load_trained",
    "ship",
]
