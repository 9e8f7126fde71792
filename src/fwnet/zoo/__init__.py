"""Trained weights that come with the package, each with a card that says what it is."""

from fwnet.zoo.card import Card, Sample
from fwnet.zoo.shelf import find_card, list_models, load_model, read_notes
from fwnet.zoo.shipping import ship

__all__ = ["Card", "Sample", "find_card", "list_models", "load_model", "read_notes", "ship"]
