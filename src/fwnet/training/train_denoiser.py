"""`train_denoiser`: a network learns to remove noise from a user's own images."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fwnet.hardware import hardware_name
from fwnet.models import ImageModel
from fwnet.models.conv_coding_network import ConvCodingNetwork
from fwnet.training.checkpoint import RunFolder
from fwnet.training.config import TrainingConfig
from fwnet.training.denoiser_recipe import RECIPE, denoiser_settings
from fwnet.training.denoising import Denoising
from fwnet.training.image_task import decibels
from fwnet.training.learning_images import LearningImages, ReadingProgress, read_learning_images
from fwnet.training.loop import TrainingProgress, TrainingResult, train

__all__ = ["DenoiserReport", "train_denoiser"]


@dataclass(frozen=True)
class DenoiserReport:
    """What was trained.

    Attributes:
        model_path: The file that `fwnet denoise --model` takes.
        network: The trained network.
        images: What it was trained and validated with.
        training: History, seconds, and the epoch that was kept: the last one.
        validation_psnr: The mean PSNR of held-back images in dB after it; None without such.
        noisy_psnr: The same of the noisy images: where the network begins.
    """

    model_path: Path
    network: ImageModel
    images: LearningImages
    training: TrainingResult
    validation_psnr: float | None
    noisy_psnr: float | None


def train_denoiser(
    network: ImageModel,
    data: str | Path | None,
    output: str | Path,
    *,
    sigma: float | tuple[float, float],
    start: ImageModel | None = None,
    settings: Mapping[str, Any] | None = None,
    crop_size: int = 48,
    steps_per_epoch: int = 1000,
    validation: int | None = None,
    device: str | torch.device = "cpu",
    resume: bool = False,
    force: bool = False,
    checkpoint_seconds: float = 30.0,
    notes: Mapping[str, Any] | None = None,
    tell: Callable[[str], None] | None = None,
    progress: Callable[[ReadingProgress | TrainingProgress], None] | None = None,
) -> DenoiserReport:
    """min_W mean ‖f_W(x + n) − x‖²,   n ~ N(0, σ²), over crops x of the images of a folder.

    Args:
        network: f, for gray images or for RGB; trained in place.
        data: A folder of images, with those below it; None for the Berkeley images. BSD68, if it is
            among them, is left out, and so is what cannot be read and the history.png of trainings.
        output: A folder for model.safetensors, the history and checkpoints.
        sigma: σ on the scale of [0, 1], or the interval that it is drawn from, one an image.
        start: A trained network whose weights are where `network` starts.
        settings: Of the training, by the names of `TrainingConfig`, where they are not the recipe's
            (`denoiser_settings`).
        crop_size: The side of a crop.
        steps_per_epoch: How many batches of crops make an epoch.
        validation: How many images are held back, to see after every epoch how good it is: by
            default 12, or a tenth if that is fewer. The weights of the last epoch are kept.
        device: Where to train.
        resume: Go on from where an earlier run with the same arguments was stopped.
        force: Begin anew though the folder holds an earlier run.
        checkpoint_seconds: How much work a kill may cost.
        notes: What the file of the model should say beside data, settings and figures.
        tell: Called with a line for everything that is skipped.
        progress: Called with `ReadingProgress`, then with `TrainingProgress`, now and then.

    Raises `ValueError` (`DataError`, `ConfigError`, `TrainingError`), in one line, for what does
    not fit.
    """
    device, output = torch.device(device), Path(output)
    settings = {**RECIPE, **(settings or {})}
    if not isinstance(steps_per_epoch, int) or steps_per_epoch < 1:
        raise ValueError(f"steps_per_epoch must be an integer >= 1, got {steps_per_epoch!r}")
    num_steps = steps_per_epoch * TrainingConfig(**settings).num_epochs
    recipe = denoiser_settings(network, device, num_steps, goes_on=start is not None)
    config = TrainingConfig(**{**recipe, **settings})
    if network.in_channels not in (1, 3):
        raise ValueError(f"in_channels must be 1 or 3, gray or RGB, got {network.in_channels}")
    if start is not None:
        _adopt(network, start)
    RunFolder(output, {}).check_unasked(resume=resume, force=force)  # before all images are read
    progress = progress or (lambda _: None)
    images = read_learning_images(
        data,
        color=network.in_channels == 3,
        crop_size=crop_size,
        num_held=validation,
        output=output,
        tell=tell or (lambda _: None),
        progress=progress,
    )
    task = Denoising(
        images.learn,
        images.held,
        sigma=sigma,
        tell_sigma=network.noise_level_input,
        crop_size=crop_size,
        crops_per_epoch=steps_per_epoch * config.batch_size,
    )
    levels = [round(255 * level, 6) for level in (task.low, task.high)]
    shown_sigma = levels[0] if levels[0] == levels[1] else levels
    result = train(
        network,
        task,
        config,
        device=device,
        folder=output,
        resume=resume,
        force=force,
        identity={
            "sigma": shown_sigma,
            "crop_size": crop_size,
            "steps_per_epoch": steps_per_epoch,
            "start": None if start is None else weights_digest(start.state_dict()),
        },
        notes={
            "task": "denoise",
            "sigma": shown_sigma,
            "color": network.in_channels == 3,
            "crop_size": crop_size,
            "steps_per_epoch": steps_per_epoch,
            "data": images.description,
            "hardware": f"{hardware_name(device)}, torch {torch.__version__}",
            **(notes or {}),
        },
        checkpoint_seconds=checkpoint_seconds,
        progress=progress,
    )
    last = result.history[-1] if result.history else {}
    figure, noisy = last.get("validation"), task.validate_noisy()
    return DenoiserReport(
        output / "model.safetensors",
        network,
        images,
        replace(result, best_epoch=last.get("epoch")),
        None if figure is None else decibels(figure),
        None if noisy is None else decibels(noisy),
    )


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """The beginning of the SHA-256 of weights."""
    sha = hashlib.sha256()
    for name, value in sorted(weights.items()):
        sha.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        sha.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()[:16]


def _adopt(network: ImageModel, start: ImageModel) -> None:
    """Take over the weights of a network of the same kind."""
    if isinstance(network, ConvCodingNetwork) and isinstance(start, ConvCodingNetwork):
        network.adopt(start)
        return
    ours, theirs = ({"model": type(one).__name__, **one.config} for one in (network, start))
    different = [name for name in ours if ours[name] != theirs.get(name)]
    if different:
        name = different[0]
        raise ValueError(
            f"the network to start from must have {name} {ours[name]!r}, got {theirs.get(name)!r}"
        )
    network.load_state_dict(start.state_dict())
