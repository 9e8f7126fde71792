"""What tasks that learn from crops of images have in common."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from fwnet.data import ImageSet
from fwnet.training.config import TrainingConfig
from fwnet.training.task import ShownFigure, Task

__all__ = ["ImageTask", "decibels", "gray_levels"]

LOOKED_AT = 320  # of a validation image the middle, at most so many pixels a side


def decibels(error: float) -> float:
    """20·log₁₀(255/e), the PSNR of an error e in gray levels."""
    return 20 * math.log10(255 / error) if error else math.inf


def gray_levels(ratios: Sequence[Tensor]) -> float:
    """255·10^(−PSNR/20): the error in gray levels that has the mean PSNR of all images."""
    return float(255 * 10 ** (-torch.cat(list(ratios)).mean().item() / 20))


class ImageTask(Task):
    """Crops of images, drawn at random, mirrored and turned; the figure is an error in gray levels.

    Args:
        images: To learn from.
        validation: Images that are not learned from, if there are any.
        crop_size: The side of a crop.
        crops_per_epoch: How many crops an epoch has.
    """

    shown = ShownFigure("PSNR of validation images", "dB", decibels)

    def __init__(
        self,
        images: ImageSet,
        validation: ImageSet | None,
        *,
        crop_size: int,
        crops_per_epoch: int,
    ) -> None:
        for name, count in (("crop_size", crop_size), ("crops_per_epoch", crops_per_epoch)):
            if not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} must be an integer >= 1, got {count!r}")
        images.check_sides(crop_size, "the size of a crop")
        self.images, self.validation = images, validation
        self.crop_size, self.crops_per_epoch = crop_size, crops_per_epoch

    @property
    @abstractmethod
    def settings(self) -> tuple[Any, ...]:
        """All that the task depends on beside its images."""

    def to(self, device: torch.device) -> Self:
        """Return the task with its images on a device."""
        moved = copy.copy(self)
        moved.images = self.images.to(device)
        moved.validation = self.validation and self.validation.to(device)
        return moved

    def steps_per_epoch(self, config: TrainingConfig) -> int:
        """As many steps as the crops of an epoch fill."""
        return max(1, self.crops_per_epoch // config.batch_size)

    def fingerprint(self) -> str:
        """SHA-256 of all pixels, and the settings."""
        parts = [part.digest() for part in (self.images, self.validation) if part is not None]
        return f"{' '.join(parts)} {self.settings!r}"

    def validation_images(self) -> list[Tensor]:
        """The middles of the images that are validated with."""
        if self.validation is None:
            return []
        middles = self.validation.middles(LOOKED_AT)
        return [middles[index] for index in range(len(middles))]
