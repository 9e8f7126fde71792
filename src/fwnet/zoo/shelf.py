"""Where trained models stand: list them, and load them by name."""

from __future__ import annotations

import difflib
import hashlib
import re
from pathlib import Path

import torch

from fwnet import models
from fwnet.models import Model, ModelFileError
from fwnet.zoo.card import TASKS, Card

__all__ = ["SHIPPED", "card_path", "find_card", "list_models", "load_model", "weights_path"]

SHIPPED = Path(__file__).parent


def card_path(name: str, folder: Path = SHIPPED) -> Path:
    """Where the card of a model is."""
    return folder / "cards" / f"{name}.json"


def weights_path(name: str, folder: Path = SHIPPED) -> Path:
    """Where the weights of a model are."""
    return folder / "weights" / f"{name}.safetensors"


def list_models(task: str | None = None, folder: Path = SHIPPED) -> list[Card]:
    """Return the cards of all models that come with the package, by name.

    Args:
        task: "denoise" or "upscale": those alone.
        folder: Where else to look.
    """
    if task is not None and task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}, got {task!r}")
    cards = (Card.read(card_path(name, folder)) for name in _names(folder))
    return [card for card in cards if task in (None, card.task)]


def find_card(name: str, folder: Path = SHIPPED) -> Card:
    """Return the card of a model; a name that there is not is told with those that are near."""
    if name not in _names(folder):
        raise _unknown(f"no model is called {name!r}", name, folder)
    return Card.read(card_path(name, folder))


def load_model(
    name_or_path: str | Path, device: str | torch.device = "cpu", folder: Path = SHIPPED
) -> Model:
    """Make a trained model, in evaluation mode: one that comes with the package, or your own.

    Args:
        name_or_path: A name of `list_models`, such as "conv_fwnet_t4.denoise_gray_s25", or the
            path of a file that `Model.save` wrote. Models of the package have float32, those of a
            file what it has.
        device: Where to put it.
        folder: Where else to look for names.
    """
    path = Path(name_or_path)
    is_name = str(name_or_path) in _names(folder) and not isinstance(name_or_path, Path)
    if not is_name:
        looks_like_a_path = len(path.parts) > 1 or path.suffix == ".safetensors"
        if not path.exists() and not looks_like_a_path:
            raise _unknown(f"no model and no file is called {name_or_path!r}", path.name, folder)
        return models.load_model(path, device)
    card = find_card(path.name, folder)
    _check_digest(card, weights_path(card.name, folder))
    return models.load_model(weights_path(card.name, folder), device, torch.float32)


def _names(folder: Path) -> list[str]:
    names = (path.stem for path in (folder / "cards").glob("*.json"))
    # t4 before t16
    return sorted(names, key=lambda name: re.sub("[0-9]+", lambda part: part[0].zfill(9), name))


def _unknown(problem: str, name: str, folder: Path) -> ModelFileError:
    near = difflib.get_close_matches(name, _names(folder), n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ";"
    how = "fwnet.list_models(), or fwnet models on the command line, lists all"
    return ModelFileError(f"{problem}{hint} {how}")


def _check_digest(card: Card, path: Path) -> None:
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ModelFileError(
            f"the weights of {card.name} cannot be read ({error.strerror}: {path}): "
            "install fwnet again"
        ) from error
    if digest != card.sha256:
        raise ModelFileError(
            f"the weights of {card.name} are damaged: expected the sha256 {card.sha256}, "
            f"got {digest} of {path}: install fwnet again"
        )
