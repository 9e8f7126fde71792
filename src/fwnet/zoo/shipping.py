"""Add a trained model to the package: for maintainers."""

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fwnet.models import ImageModel, ModelFileError, load_model, read_model, write_model
from fwnet.zoo.card import Card
from fwnet.zoo.sample import sample_of
from fwnet.zoo.shelf import SHIPPED, card_path, weights_path

FIELDS = ("summary", "data", "data_license", "command", "seconds", "hardware", "figures")
TRAINED_FOR = ("sigma", "scale", "color")  # of the notes that training writes


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
    kernels = torch.float16 if half else torch.float32
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / path.name
        write_model(file, about, with_kernels(weights, kernels))
        model, data = load_model(file, dtype=torch.float32), file.read_bytes()
    if not isinstance(model, ImageModel):
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
