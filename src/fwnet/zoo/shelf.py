"""Where trained models stand: list them, and load them by name."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from pathlib import Path
from typing import Any

import torch

from fwnet import models
from fwnet.models import Model, ModelFileError
from fwnet.models.model import check_device
from fwnet.zoo.card import TASKS, Card

__all__ = [
    "SHIPPED",
    "card_path",
    "find_card",
    "list_models",
    "load_model",
    "read_notes",
    "weights_path",
]

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
    check_device(device)
    path, is_name = _find(name_or_path, folder)
    return models.load_model(path, device, torch.float32 if is_name else None)


def read_notes(name_or_path: str | Path, folder: Path = SHIPPED) -> dict[str, Any]:
    """Return what the file of such a model says beside weights and configuration.

    Of a model of the package its task is said, whatever the file does.
    """
    path, is_name = _find(name_or_path, folder)
    about, _ = models.read_model(path)
    notes = about.get("notes")
    known = {"task": find_card(str(name_or_path), folder).task} if is_name else {}
    return {**(notes if isinstance(notes, dict) else {}), **known}


def _find(name_or_path: str | Path, folder: Path) -> tuple[Path, bool]:
    """The file of a model, and whether it is one of the package, which is then whole."""
    path = Path(name_or_path)
    if isinstance(name_or_path, Path) or name_or_path not in _names(folder):
        looks_like_a_path = len(path.parts) > 1 or path.suffix == ".safetensors"
        # os.path does not raise for a name that is too long.
        if not looks_like_a_path and not os.path.exists(path):  # noqa: PTH110
            raise _unknown(f"no model and no file is called {name_or_path!r}", path.name, folder)
        return path, False
    card = find_card(name_or_path, folder)
    file = weights_path(card.name, folder)
    _check_digest(card, file)
    return file, True


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
