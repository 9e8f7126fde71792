"""`train_upscaler`: a network learns to enlarge images from a user's own ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from fwnet.data import read_luma
from fwnet.models import ImageModel
from fwnet.progress import ProgressCallback
from fwnet.training.image_training import ImageReport, ImageTraining
from fwnet.training.learning_images import files_for_upscaling
from fwnet.training.super_resolution import SuperResolution, check_crop_size, check_scale
from fwnet.training.upscaler_recipe import UPSCALING_RECIPE

__all__ = ["train_upscaler"]

CROP_SIZE = 48  # a multiple of 2, 3 and 4
LEAST_CROP = 3  # times the scale: of the smallest image something is left without its border


def train_upscaler(
    network: ImageModel,
    data: str | Path | None,
    output: str | Path,
    *,
    scale: int,
    start: ImageModel | None = None,
    settings: Mapping[str, Any] | None = None,
    crop_size: int | None = None,
    steps_per_epoch: int = 1000,
    smaller_copies: bool = True,
    validation: int | None = None,
    device: str | torch.device = "cpu",
    resume: bool = False,
    force: bool = False,
    checkpoint_seconds: float = 30.0,
    notes: Mapping[str, Any] | None = None,
    tell: Callable[[str], None] | None = None,
    progress: ProgressCallback | None = None,
) -> ImageReport:
    """min_W mean ‖f_W(x↓) − x‖²   or   mean ‖f_W(x↓↑) − x‖²   over crops x of images' luma.

    ↓ and ↑ shrink and enlarge bicubically. The first is for a network of this scale, the second for
    one that keeps the size of images.

    Args:
        network: f, for one channel; trained in place.
        data: A folder of images, with those below it; None for the 91 images (T91) and 199 that
            Berkeley trains with. What cannot be read is skipped, and the history.png of trainings.
        output: A folder for model.safetensors, the history and checkpoints.
        scale: How many times as high and wide images become.
        start: A trained network whose weights are where `network` starts; of one for another scale
            all but the last convolution.
        settings: Of the training, by the names of `TrainingConfig`, where they are not the recipe's
            (`upscaler_settings`).
        crop_size: The side of a crop x, a multiple of the scale; 48, or the largest one below.
        steps_per_epoch: How many batches of crops make an epoch.
        smaller_copies: Whether to learn from copies of the images as well, of 0.9, 0.8, 0.7 and 0.6
            of their sizes. That makes more of few images; it takes 3.3 times the memory for them.
        validation: How many images are held back, to see after every epoch how good it is: by
            default 12, or a tenth of a folder if that is fewer. Without a folder they are images
            that Berkeley tests with. The weights of the last epoch are kept.
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
    check_scale(scale)
    if network.scale not in (1, scale):
        raise ValueError(f"scale must be {network.scale}, that of the network, got {scale}")
    if network.in_channels != 1:
        raise ValueError(f"in_channels must be 1, for luma, got {network.in_channels}")
    if network.noise_level_input:
        raise ValueError("the network must not be told a noise level, got one that is")
    if crop_size is None:
        crop_size = max(CROP_SIZE // scale, LEAST_CROP) * scale
    check_crop_size(crop_size, scale)
    if crop_size < LEAST_CROP * scale:
        raise ValueError(f"crop_size must be at least {LEAST_CROP * scale}, got {crop_size}")
    training = ImageTraining(
        UPSCALING_RECIPE,
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
    images = training.read(files_for_upscaling(data, training.output, validation), read_luma)
    task = SuperResolution(
        images.learn,
        images.held,
        scale=scale,
        low_resolution=network.scale > 1,
        smaller_copies=smaller_copies,
        **training.crops,
    )
    return training.train(
        task,
        images,
        task.validate_bicubic,
        facts={"scale": scale, "smaller_copies": smaller_copies},
        notes={"task": "upscale", **(notes or {})},
    )
