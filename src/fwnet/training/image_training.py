"""What trainings of networks for images have in common, from files to a report."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fwnet.hardware import hardware_name
from fwnet.models import ImageModel
from fwnet.models.conv_coding_network import ConvCodingNetwork
from fwnet.progress import ProgressCallback
from fwnet.training.checkpoint import TrainingFolder
from fwnet.training.config import TrainingConfig
from fwnet.training.image_recipe import ImageRecipe, form_of
from fwnet.training.image_task import ImageTask, decibels
from fwnet.training.learning_images import (
    ImageSource,
    LearningImages,
    read_learning_images,
)
from fwnet.training.loop import TrainingResult, train
from fwnet.training.run import TrainingRun

__all__ = ["ImageReport", "ImageTraining"]


@dataclass(frozen=True)
class ImageReport:
    """What was trained.

    Attributes:
        model_path: The file that `fwnet denoise --model` or `fwnet upscale --model` takes.
        network: The trained network.
        images: What it was trained and validated with.
        training: History, seconds, and the epoch that was kept: the last one.
        validation_psnr: The mean PSNR of held-back images in dB after it; None without such.
        input_psnr: The same without the network: of the noisy images, or of bicubic enlargement.
    """

    model_path: Path
    network: ImageModel
    images: LearningImages
    training: TrainingResult
    validation_psnr: float | None
    input_psnr: float | None


class ImageTraining:
    """A training that is prepared: what is wrong with it is told before images are read.

    Args:
        recipe: The settings where nobody says others.
        network: To be trained in place.
        output: The folder of the training.
        start: A trained network whose weights are where `network` starts.
        settings: By the names of `TrainingConfig`, where they are not the recipe's.
        crop_size: The side of a crop.
        steps_per_epoch: How many batches of crops make an epoch.
        validation: How many images are held back; None for 12, or a tenth if that is fewer.
        device: Where to train.
        resume: Go on from where an earlier run with the same arguments was stopped.
        force: Begin anew though the folder holds an earlier run.
        checkpoint_seconds: How much work a kill may cost.
        tell: Called with a line for everything that is skipped.
        progress: Called with a `Progress`, first of reading, then of training.
    """

    def __init__(
        self,
        recipe: ImageRecipe,
        network: ImageModel,
        output: str | Path,
        *,
        start: ImageModel | None,
        settings: Mapping[str, Any] | None,
        crop_size: int,
        steps_per_epoch: int,
        validation: int | None,
        device: str | torch.device,
        resume: bool,
        force: bool,
        checkpoint_seconds: float,
        tell: Callable[[str], None] | None,
        progress: ProgressCallback | None,
    ) -> None:
        if not isinstance(steps_per_epoch, int) or steps_per_epoch < 1:
            raise ValueError(f"steps_per_epoch must be an integer >= 1, got {steps_per_epoch!r}")
        if validation is not None and (not isinstance(validation, int) or validation < 0):
            raise ValueError(f"validation must be an integer >= 0, got {validation!r}")
        self.network, self.start = network, start
        self.output, self.device = Path(output), torch.device(device)
        self.crop_size, self.steps_per_epoch = crop_size, steps_per_epoch
        self.num_held, self.checkpoint_seconds = validation, checkpoint_seconds
        self.resume, self.force = resume, force
        self.tell, self.progress = tell or (lambda _: None), progress or (lambda _: None)
        given = dict(settings or {})
        own = recipe.settings_of(form_of(type(network).__name__, network.config))
        num_steps = steps_per_epoch * TrainingConfig(**{**own, **given}).num_epochs
        usual = recipe.settings_for(network, self.device, num_steps, goes_on=start is not None)
        self.config = TrainingConfig(**{**usual, **given})
        if start is not None:
            _adopt(network, start)
        TrainingFolder(self.output, {}).check_unasked(resume=resume, force=force)

    def read(self, source: ImageSource, read: Callable[[Path], np.ndarray]) -> LearningImages:
        """Read the images of files."""
        return read_learning_images(
            source,
            read,
            crop_size=self.crop_size,
            num_held=self.num_held,
            tell=self.tell,
            progress=self.progress,
        )

    @property
    def crops(self) -> dict[str, int]:
        """How many crops of which size: arguments of all tasks."""
        count = self.steps_per_epoch * self.config.batch_size
        return {"crop_size": self.crop_size, "crops_per_epoch": count}

    def train(
        self,
        task: ImageTask,
        images: LearningImages,
        validate_input: Callable[[], float | None],
        *,
        facts: Mapping[str, Any],
        notes: Mapping[str, Any],
    ) -> ImageReport:
        """Train, and say what came of it.

        Args:
            task: What is learned.
            images: What from.
            validate_input: The figure of `task.validate` without a network.
            facts: What the task depends on beside its images: σ, or a scale.
            notes: What else the file of the model should say.
        """
        facts = {**facts, "crop_size": self.crop_size, "steps_per_epoch": self.steps_per_epoch}
        start = None if self.start is None else weights_digest(self.start.state_dict())
        result = train(
            self.network,
            task,
            self.config,
            TrainingRun(
                device=self.device,
                folder=self.output,
                resume=self.resume,
                force=self.force,
                checkpoint_seconds=self.checkpoint_seconds,
                progress=self.progress,
            ),
            identity={**facts, "start": start},
            notes={
                **facts,
                "data": images.description,
                "hardware": f"{hardware_name(self.device)}, torch {torch.__version__}",
                **notes,
            },
        )
        last = result.history[-1] if result.history else {}
        figures = last.get("validation"), validate_input()
        return ImageReport(
            self.output / "model.safetensors",
            self.network,
            images,
            replace(result, best_epoch=last.get("epoch")),
            *(None if figure is None else decibels(figure) for figure in figures),
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
    ours.pop("output_gain", None)  # of weights that are not kept
    different = [name for name in ours if ours[name] != theirs.get(name)]
    if different:
        name = different[0]
        raise ValueError(
            f"the network to start from must have {name} {ours[name]!r}, got {theirs.get(name)!r}"
        )
    network.load_state_dict(start.state_dict())
