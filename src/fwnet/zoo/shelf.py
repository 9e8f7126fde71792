"""The shipped models and their cards: list them, and load them by name."""

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, get_origin

import torch

from fwnet import models
from fwnet.checks import did_you_mean
from fwnet.hardware import choose_device
from fwnet.models import Model, ModelFileError
from fwnet.models.model import model_from

SHIPPED = Path(__file__).parent


@dataclass(frozen=True)
class Sample:
    """The output of a model for the image of `fwnet.zoo.shipping`, at a few places.

    Attributes:
        places: Channel, row and column of each.
        values: The output there.

    >>> import fwnet
    >>> sample = fwnet.zoo.find_card("conv_fwnet_t4.denoise_gray_s25").sample
    >>> len(sample.places) == len(sample.values)
    True
    """

    places: list[list[int]]
    values: list[float]


@dataclass(frozen=True)
class Card:
    """One trained model.

    Attributes:
        name: architecture_tT.task_variant, such as conv_fwnet_t4.denoise_gray_s25.
        task: What it is for: "denoise", "upscale", or "noise", to tell the noise level.
        trained_for: Its facts: "sigma" (a number or an interval, 0 to 255), "color", "scale".
        summary: One line.
        model: The class in the registry.
        num_parameters: The number of learned numbers.
        multiply_adds: Multiplications with weights per pixel.
        data: What it learned from.
        data_license: The license of that data.
        command: The command that trained it.
        seconds: How long the training took.
        hardware: The machine that it was trained on.
        figures: Measured results, such as {"BSD68 σ=25 PSNR": 28.77}.
        dtype: The dtype of the kernels in the file; a loaded model has float32.
        num_bytes: The size of the file.
        sha256: The digest of the file.
        sample: Outputs that the model must give on every machine.

    >>> import fwnet
    >>> card = fwnet.zoo.find_card("conv_fwnet_t4.denoise_gray_s25")
    >>> card.model, card.trained_for, card.num_parameters
    ('ConvFWNet', {'sigma': 25, 'color': False}, 111749)
    """

    name: str
    task: str
    trained_for: dict[str, Any]
    summary: str
    model: str
    num_parameters: int
    multiply_adds: int
    data: str
    data_license: str
    command: str
    seconds: float
    hardware: str
    figures: dict[str, float]
    dtype: str
    num_bytes: int
    sha256: str
    sample: Sample

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a card that `write` wrote."""
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            card = cls(**{**values, "sample": Sample(**values["sample"])})
            for one in dataclasses.fields(cls):
                kind: Any = get_origin(one.type) or one.type
                value = getattr(card, one.name)
                if not isinstance(value, (int, float) if kind is float else kind):
                    raise TypeError(f"{one.name} must be a {kind.__name__}, got {value!r}")
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"{path} is not a card: {error}") from error
        if card.name != path.stem:
            raise ModelFileError(f"{path} must be the card of {path.stem}, got {card.name!r}")
        return card

    def write(self, path: Path) -> None:
        """Write the card as JSON."""
        text = json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


@dataclass(frozen=True)
class TrainedModel:
    """A trained model and what is known about it.

    Attributes:
        model: The model, in evaluation mode.
        name: Its name, or the path of its file.
        facts: What it was trained for: "task", "sigma", "scale", "color"; from the card of a
            shipped model, or the notes of a file.

    >>> import fwnet
    >>> trained = fwnet.zoo.load_trained("conv_fwnet_t4.upscale_x3")
    >>> trained.name, trained.facts["scale"], trained.model.scale
    ('conv_fwnet_t4.upscale_x3', 3, 3)
    """

    model: Model
    name: str
    facts: Mapping[str, Any] = field(default_factory=dict)


def card_path(name: str, folder: Path = SHIPPED) -> Path:
    """Return the path of the card of a model."""
    return folder / "cards" / f"{name}.json"


def weights_path(name: str, folder: Path = SHIPPED) -> Path:
    """Return the path of the weights of a model."""
    return folder / "weights" / f"{name}.safetensors"


def list_models(task: str | None = None, folder: Path = SHIPPED) -> list[Card]:
    """Return the cards of all shipped models, sorted by name.

    Args:
        task: Only models for this task: "denoise", "upscale" or "noise".
        folder: Another folder of models.

    >>> import fwnet
    >>> names = [card.name for card in fwnet.list_models("upscale")]
    >>> "conv_fwnet_t19.upscale_x3" in names
    True
    """
    cards = [Card.read(card_path(name, folder)) for name in _names(folder)]
    tasks = sorted({card.task for card in cards})
    if task is not None and task not in tasks:
        raise ValueError(f"task must be one of {', '.join(tasks)}, got {task!r}")
    return [card for card in cards if task in (None, card.task)]


def find_card(name: str, folder: Path = SHIPPED) -> Card:
    """Return the card of a model. An unknown name raises an error that suggests similar names.

    >>> import fwnet
    >>> card = fwnet.zoo.find_card("conv_fwnet_t20.denoise_color")
    >>> card.data_license
    'BSDS500: research and education that is not commercial'
    """
    if name not in _names(folder):
        raise _unknown(f"no model is called {name!r}", name, folder)
    return Card.read(card_path(name, folder))


def load_model(
    name_or_path: str | Path, device: str | torch.device = "cpu", folder: Path = SHIPPED
) -> Model:
    """Load a trained model, in evaluation mode: a shipped one, or your own.

    Args:
        name_or_path: A name from `list_models`, such as "conv_fwnet_t4.denoise_gray_s25", or the
            path of a file that `Model.save` wrote. Shipped models have float32, those of a file
            the dtype of the file.
        device: Where to put it.
        folder: Another folder of models to look for names in.

    >>> import fwnet, torch
    >>> net = fwnet.load_model("conv_fwnet_t4.denoise_gray_s25")
    >>> with torch.no_grad():
    ...     clean = net(torch.rand(1, 1, 32, 32))
    >>> clean.shape, net.num_layers
    (torch.Size([1, 1, 32, 32]), 4)
    """
    return load_trained(name_or_path, device, folder).model


def load_trained(
    name_or_path: str | Path, device: str | torch.device = "cpu", folder: Path = SHIPPED
) -> TrainedModel:
    """Load a trained model with what is known about it; arguments are those of `load_model`.

    >>> import fwnet
    >>> trained = fwnet.zoo.load_trained("conv_fwnet_t4.denoise_gray_s25")
    >>> trained.facts["task"], trained.facts["sigma"]
    ('denoise', 25)
    """
    chosen = choose_device(device)
    path, name = Path(name_or_path), str(name_or_path)
    if isinstance(name_or_path, Path) or name not in _names(folder):
        looks_like_a_path = len(path.parts) > 1 or path.suffix == ".safetensors"
        # os.path does not raise for a name that is too long.
        if not looks_like_a_path and not os.path.exists(path):  # noqa: PTH110
            raise _unknown(f"no model and no file is called {name!r}", path.name, folder)
        about, weights = models.read_model(path)
        notes = about.get("notes")
        facts = notes if isinstance(notes, dict) else {}
        return TrainedModel(model_from(path, about, weights).to(chosen), name, facts)
    card = find_card(name, folder)
    path = weights_path(name, folder)
    about, weights = models.read_model(path, _checked_bytes(card, path))
    model = model_from(path, about, weights, torch.float32)
    return TrainedModel(model.to(chosen), name, {**card.trained_for, "task": card.task})


def _names(folder: Path) -> list[str]:
    names = (path.stem for path in (folder / "cards").glob("*.json"))
    # t4 before t16
    return sorted(names, key=lambda name: re.sub("[0-9]+", lambda part: part[0].zfill(9), name))


def _unknown(problem: str, name: str, folder: Path) -> ModelFileError:
    hint = did_you_mean(name, _names(folder)) or ";"
    how = "fwnet.list_models(), or fwnet models on the command line, lists all"
    return ModelFileError(f"{problem}{hint} {how}")


def _checked_bytes(card: Card, path: Path) -> bytes:
    """Read the weights of a shipped model; raise if the file is not the one of the card."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelFileError(
            f"the weights of {card.name} cannot be read ({error.strerror}: {path}): "
            "install fwnet again"
        ) from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != card.sha256:
        raise ModelFileError(
            f"the weights of {card.name} are damaged: expected the sha256 {card.sha256}, "
            f"got {digest} of {path}: install fwnet again"
        )
    return data
