"""`train_denoiser`: a network learns to remove noise from a user's own images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from fwnet.data import read_pixels
from fwnet.models import ImageModel
from fwnet.progress import ProgressCallback
from fwnet.training.denoiser_recipe import DENOISING_RECIPE
from fwnet.training.denoising import Denoising
from fwnet.training.image_training import ImageReport, ImageTraining
from fwnet.training.learning_images import files_for_denoising

__all__ = ["train_denoiser"]


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
    progress: ProgressCallback | None = None,
) -> ImageReport:
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
        progress: Called with a `Progress`, first of reading, then of training.

    Raises `ValueError` (`DataError`, `ConfigError`, `TrainingError`), in one line, for what does
    not fit.
    """
    if network.in_channels not in (1, 3):
        raise ValueError(f"in_channels must be 1 or 3, gray or RGB, got {network.in_channels}")
    if network.scale != 1:
        raise ValueError(f"scale must be 1, the size of an image stays, got {network.scale}")
    training = ImageTraining(
        DENOISING_RECIPE,
        network,
        output,
        start=start,
        settings=settings,
        crop_size=crop_size,
        steps_per_epoch=steps_per_epoch,
        validation=validation,
        device=device,
        resume=resume,
        force=force,
        checkpoint_seconds=checkpoint_seconds,
        tell=tell,
        progress=progress,
    )
    color = network.in_channels == 3
    source = files_for_denoising(data, training.output, training.tell)
    images = training.read(source, partial(read_pixels, color=color))
    task = Denoising(
        images.learn,
        images.held,
        sigma=sigma,
        tell_sigma=network.noise_level_input,
        **training.crops,
    )
    levels = [round(255 * level, 6) for level in (task.low, task.high)]
    return training.train(
        task,
        images,
        task.validate_noisy,
        facts={"sigma": levels[0] if levels[0] == levels[1] else levels},
        notes={"task": "denoise", "color": color, **(notes or {})},
    )
