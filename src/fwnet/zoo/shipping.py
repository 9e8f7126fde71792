"""Add a trained model to the package: for maintainers.

Its card keeps some of its output for an image made by a formula, the same on every machine.
"""

import hashlib
import math
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fwnet.models import (
    ImageModel,
    ModelFileError,
    NoiseLevelNet,
    load_model,
    read_model,
    write_model,
)
from fwnet.zoo.shelf import SHIPPED, Card, Sample, card_path, weights_path

NAME = re.compile(r"[a-z0-9_]+_t[0-9]+\.[a-z0-9_]+")
TEXTS = ("summary", "data", "data_license", "command", "hardware")
FIELDS = (*TEXTS, "seconds", "figures")
KEPT = ("settings", "seconds", "num_processes", "last_epoch")  # notes that stay in the file
TRAINED_FOR = ("sigma", "scale", "color", "jpeg_quality")  # of the notes that training writes

SIZE = 24  # of the image
SIGMA = 25 / 255  # for networks with a noise-level input
PLACES = ((0, 0), (0, 23), (23, 0), (23, 23), (5, 17), (11, 12), (12, 0), (18, 6))


def ship(
    path: str | Path,
    name: str,
    *,
    half: bool = True,
    folder: Path = SHIPPED,
    **facts: Any,
) -> Card:
    """Write the weights of a trained model and its card to the folder of shipped models.

    Args:
        path: A file that `Model.save` wrote.
        name: architecture_tT.task_variant.
        half: Whether kernels are stored in float16. Vectors and single numbers (p, γ, thresholds)
            keep their dtype.
        folder: The folder to write to.
        facts: Fields of the card: trained_for, summary, data, data_license, command, seconds,
            hardware, figures. Those not given are taken from the notes of the file.

    >>> import fwnet
    >>> from pathlib import Path
    >>> fwnet.ConvFWNet(2, 3).save("mine.safetensors")
    >>> facts = dict.fromkeys(("summary", "data", "data_license", "command", "hardware"), "none")
    >>> card = fwnet.zoo.ship(
    ...     "mine.safetensors", "conv_fwnet_t2.denoise_mine", folder=Path("zoo"),
    ...     trained_for={"sigma": 25}, figures={}, seconds=0, **facts
    ... )
    >>> type(fwnet.load_model(card.name, folder=Path("zoo"))).__name__
    'ConvFWNet'
    """
    path = Path(path)
    about, weights = read_model(path)
    known = {**about.get("notes", {}), **facts}
    for wrong, message in (
        (set(facts) - set(FIELDS) - {"trained_for"}, "a card has no field for"),
        (set(FIELDS) - set(known), f"missing, and not in the notes of {path}:"),
    ):
        if wrong:
            raise ModelFileError(f"{message} {', '.join(sorted(wrong))}")
    _check(name, known)
    # What the card says is not said twice; the command as typed also holds paths of a machine.
    about["notes"] = {key: known[key] for key in KEPT if key in known}
    kernels = torch.float16 if half else torch.float32
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / path.name
        write_model(file, about, with_kernels(weights, kernels))
        model, data = load_model(file, dtype=torch.float32), file.read_bytes()
    if not isinstance(model, ImageModel | NoiseLevelNet):
        raise ModelFileError(f"{path} must hold an image model, got a {about['model']}")
    card = Card(
        name=name,
        task=name.partition(".")[2].partition("_")[0],
        trained_for=known.get("trained_for")
        or {fact: known[fact] for fact in TRAINED_FOR if fact in known},
        model=about["model"],
        num_parameters=model.num_parameters,
        multiply_adds=model.multiply_adds,
        dtype=str(kernels).removeprefix("torch."),
        num_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        sample=sample_of(model),
        **{fact: known[fact] for fact in FIELDS},
    )
    for place in (weights_path(name, folder), card_path(name, folder)):
        place.parent.mkdir(parents=True, exist_ok=True)
    weights_path(name, folder).write_bytes(data)
    card.write(card_path(name, folder))
    return card


def with_kernels(weights: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Return weights with kernels in a dtype and everything else unchanged."""
    kept = {}
    for name, tensor in weights.items():
        is_kernel = tensor.is_floating_point() and tensor.ndim >= 2
        kept[name] = tensor.to(dtype) if is_kernel else tensor
        if not kept[name].isfinite().all():
            raise ModelFileError(
                f"{name} must be finite in {dtype}, got up to {tensor.abs().max()}"
            )
    return kept


def _check(name: str, facts: Mapping[str, Any]) -> None:
    """Raise for a name or a fact that a card should not have."""
    if not NAME.fullmatch(name):
        raise ModelFileError(f"name must be architecture_tT.task_variant, got {name!r}")
    for fact in TEXTS:
        text = facts[fact]
        if not text.strip() or "\n" in text:
            raise ModelFileError(f"{fact} must be a line of text, got {text!r}")
    if not facts["seconds"] >= 0:
        raise ModelFileError(f"seconds must be a number >= 0, got {facts['seconds']!r}")
    if not all(map(math.isfinite, facts["figures"].values())):
        raise ModelFileError(f"figures must be finite, got {facts['figures']}")


def sample_image(channels: int) -> Tensor:
    """Return a ramp with squares and texture, (1, channels, 24, 24), in multiples of 1/128."""
    c, y, x = torch.meshgrid(
        torch.arange(channels), torch.arange(SIZE), torch.arange(SIZE), indexing="ij"
    )
    ramp, squares = 2 * (x + y), 16 * ((x // 6 + y // 6 + c) % 2)
    noise = (7 * x * x + 5 * x * y + 13 * y * y + 17 * c) % 16
    return ((ramp + squares + noise) / 128).unsqueeze(0)


def sample_output(model: ImageModel | NoiseLevelNet) -> Tensor:
    """Return the output of a model for it, (channels, 24, 24); (1, 1, 1) if it is a number."""
    x = sample_image(model.in_channels)
    with torch.no_grad():
        if isinstance(model, NoiseLevelNet):
            return model.pooled(model.features(x.repeat(1, 1, 2, 2)))[:, None, None]
        y: Tensor = model(x, SIGMA if model.noise_level_input else None)
    return y[0]


def sample_of(model: ImageModel | NoiseLevelNet) -> Sample:
    """Return the part of the output that a card keeps."""
    output = sample_output(model)
    inside = [place for place in PLACES if max(place) < output.shape[-1]]
    places = [[channel, *place] for channel in range(len(output)) for place in inside]
    return Sample(places, [round(output[c, y, x].item(), 6) for c, y, x in places])
