"""The task of learning a restoration from crops of images."""

import copy
import math
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

from fwnet.checks import check_integer
from fwnet.data import ImageSet, keyed_generator
from fwnet.metrics import psnr
from fwnet.restoration import Example, Restoration
from fwnet.training.config import TrainingConfig
from fwnet.training.task import ShownFigure, Task

VALIDATED_SIDE = 320  # pixels: only the middle of larger validation images is used


def decibels(error: float) -> float:
    """20·log₁₀(255/e): the PSNR of an error e in gray levels.

    >>> from fwnet.training import decibels
    >>> round(decibels(25.5), 6)
    20.0
    """
    return 20 * math.log10(255 / error) if error else math.inf


class RestorationTask(Task):
    """Crops of images, drawn at random, mirrored and turned; `validate` gives an error.

    The error is in gray levels, 255·10^(−PSNR/20), where PSNR is the mean over all images.

    Args:
        restoration: What to learn.
        images: Images to learn from.
        validation: Images to validate with, if any.
        crop_size: Side of a crop of the clean images; None for that of the restoration.
        crops_per_epoch: The number of crops in an epoch.

    >>> import fwnet
    >>> from skimage.data import camera
    >>> images = fwnet.data.ImageSet.of([camera()[:, :, None]], ["camera"])
    >>> restoration = fwnet.restoration.Denoising(25 / 255)
    >>> task = fwnet.training.RestorationTask(restoration, images, crops_per_epoch=640)
    >>> task.steps_per_epoch(fwnet.training.TrainingConfig(batch_size=64))
    10
    """

    shown = ShownFigure("PSNR of validation images", "dB", decibels)

    def __init__(
        self,
        restoration: Restoration,
        images: ImageSet,
        validation: ImageSet | None = None,
        *,
        crop_size: int | None = None,
        crops_per_epoch: int = 64_000,
    ) -> None:
        crop_size = restoration.crop_size if crop_size is None else crop_size
        self.crop_size = check_integer("crop_size", crop_size)
        self.crops_per_epoch = check_integer("crops_per_epoch", crops_per_epoch)
        restoration.check_crop_size(crop_size)
        channels = restoration.network_arguments.get("in_channels", 1) * (1 + restoration.pairs)
        for part in (images, validation):
            if part is not None and part.channels != channels:
                raise ValueError(f"images must have {channels} channels, got {part.channels}")
        images.check_sides(crop_size + 2 * restoration.margin, "the size of a crop")
        if validation is not None:  # the border may be left out of a comparison
            validation.check_sides(3 * restoration.scale, "three times the scale")
        self.restoration = restoration = restoration.measured(images)
        self.validation = validation
        self.images, self.degraded_images = restoration.learning_images(images, crop_size)

    def to(self, device: torch.device) -> Self:
        """Return the task with its images on a device."""
        moved = copy.copy(self)
        for name in ("images", "degraded_images", "validation"):
            part = getattr(self, name)
            setattr(moved, name, None if part is None else part.to(device))
        return moved

    def steps_per_epoch(self, config: TrainingConfig) -> int:
        """Return the number of batches that the crops of an epoch fill."""
        return max(1, self.crops_per_epoch // config.batch_size)

    def batch(self, step: int, rows: slice, config: TrainingConfig) -> tuple[Tensor, ...]:
        """Return degraded crops, clean ones, and what else the loss needs."""
        generator = keyed_generator(config.seed, "crops", step)
        if self.degraded_images is None:
            size = self.crop_size + 2 * self.restoration.margin
            seen = clean = self.images.crops(config.batch_size, size, generator)
        else:
            scale, drawn_from = self.restoration.crop_scale, self.degraded_images
            squares = drawn_from.draw_squares(config.batch_size, self.crop_size // scale, generator)
            seen, clean = drawn_from.cut(squares), self.images.cut(squares.enlarged(scale))
        batch = self.restoration.degrade_crops(seen, clean, generator, config.seed, step)
        return tuple(part[rows] for part in batch)

    def loss(self, model: nn.Module, *batch: Tensor) -> Tensor:
        """Return the loss of the restoration."""
        return self.restoration.loss(model, *batch)

    def validate(self, model: nn.Module) -> float | None:
        """Return the error of restored validation images in gray levels."""

        def restore(example: Example) -> Tensor:
            dtype = example.wanted.dtype
            return self.restoration.restore(
                lambda x, *sigma: model(x.to(dtype), *sigma), example.degraded, example.sigma
            )

        return self._error(restore)

    def validate_baseline(self) -> float | None:
        """Return the same figure without a network."""
        return self._error(
            lambda example: self.restoration.baseline(example.degraded).to(example.wanted.dtype)
        )

    def fingerprint(self) -> str:
        """Return the SHA-256 of all pixels, and the settings."""
        parts = [part.digest() for part in (self.images, self.validation) if part is not None]
        settings = (*self.restoration.data_fingerprint, self.crop_size, self.crops_per_epoch)
        return f"{' '.join(parts)} {settings!r}"

    def _error(self, restore: Callable[[Example], Tensor]) -> float | None:
        if self.validation is None:
            return None
        middles = self.validation.middles(VALIDATED_SIDE)
        ratios = [
            psnr(*self.restoration.compared(restore(example), example.wanted))
            for index in range(len(middles))
            for example in self.restoration.examples(middles[index], index)
        ]
        return float(255 * 10 ** (-torch.cat(ratios).mean().item() / 20))
