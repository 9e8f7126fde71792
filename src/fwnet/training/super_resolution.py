"""Learning to enlarge images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from fwnet.data import ImageSet, keyed_generator
from fwnet.metrics import as_displayed, psnr, shave
from fwnet.resize import enlarge, shrink
from fwnet.training.config import TrainingConfig
from fwnet.training.image_task import ImageTask, gray_levels

__all__ = ["SuperResolution", "check_crop_size", "check_scale", "degraded", "whole"]

SMALLER_COPIES = (0.9, 0.8, 0.7, 0.6)  # of the height and width


class SuperResolution(ImageTask):
    """min_W mean ‖f_W(x↓) − x‖²   or   mean ‖f_W(x↓↑) − x‖²   over crops x of images.

    ↓ and ↑ shrink and enlarge bicubically, the whole image before crops are drawn.

    Args:
        images: To learn from, their luma.
        validation: Images that are not learned from, if there are any.
        scale: How many times as high and wide an image becomes.
        low_resolution: Whether the network sees the small image; else the one that was enlarged.
        crop_size: The side of a crop of x, a multiple of the scale.
        crops_per_epoch: How many crops an epoch has.
        smaller_copies: Whether to learn from copies of the images as well, of 0.9, 0.8, 0.7 and 0.6
            of their sizes: that makes more of few images.
    """

    def __init__(
        self,
        images: ImageSet,
        validation: ImageSet | None = None,
        *,
        scale: int,
        low_resolution: bool,
        crop_size: int = 48,
        crops_per_epoch: int = 64_000,
        smaller_copies: bool = False,
    ) -> None:
        check_scale(scale)
        super().__init__(images, validation, crop_size=crop_size, crops_per_epoch=crops_per_epoch)
        check_crop_size(crop_size, scale)
        for part in (images, validation):
            if part is not None and part.channels != 1:
                raise ValueError(f"images must have one channel, their luma, got {part.channels}")
        if validation is not None:  # a border is left out of what is validated
            validation.check_sides(3 * scale, "three times the scale")
        self.scale, self.low_resolution = scale, low_resolution
        if smaller_copies:
            images = images.with_smaller_copies(SMALLER_COPIES, crop_size)
        wanted, seen = [], []
        for index in range(len(images)):  # one after the other: only what is kept is in memory
            image = whole(images[index], scale)
            wanted.append((255 * image).round().byte())
            seen.append(255 * degraded(image, scale, low_resolution))
        self.images, self.degraded_images = (_held(part, images.names) for part in (wanted, seen))

    @property
    def settings(self) -> tuple[Any, ...]:
        """Scale, what is seen, and crops."""
        return self.scale, self.low_resolution, self.crop_size, self.crops_per_epoch

    def to(self, device: torch.device) -> Self:
        """Return the task with its images on a device."""
        moved = super().to(device)
        moved.degraded_images = self.degraded_images.to(device)
        return moved

    def batch(self, step: int, rows: slice, config: TrainingConfig) -> tuple[Tensor, ...]:
        """Degraded crops, and those that they come from."""
        generator = keyed_generator(config.seed, "crops", step)
        factor = self.scale if self.low_resolution else 1
        squares = self.degraded_images.draw_squares(
            config.batch_size, self.crop_size // factor, generator
        )
        degraded_crops = self.degraded_images.cut(squares)
        return degraded_crops[rows], self.images.cut(squares.enlarged(factor))[rows]

    def loss(self, model: nn.Module, *batch: Tensor) -> Tensor:
        """The mean squared error."""
        x, wanted = batch
        error: Tensor = (model(x).float() - wanted).square().mean()
        return error

    def validate(self, model: nn.Module) -> float | None:
        """The error in gray levels that has the mean PSNR of all images."""
        return self._error(lambda x: model(degraded(x, self.scale, self.low_resolution)))

    def validate_bicubic(self) -> float | None:
        """The same figure of bicubic enlargement."""
        return self._error(lambda x: degraded(x, self.scale, low_resolution=False))

    def _error(self, restore: Callable[[Tensor], Tensor]) -> float | None:
        ratios = []
        for image in self.validation_images():
            x = whole(image, self.scale)
            pair = as_displayed(restore(x).float()), x
            ratios.append(psnr(*(shave(one, self.scale) for one in pair)))
        return gray_levels(ratios) if ratios else None


def check_scale(scale: int) -> None:
    """Raise unless images are to become larger by a whole factor."""
    if not isinstance(scale, int) or scale < 2:
        raise ValueError(f"scale must be an integer >= 2, got {scale!r}")


def check_crop_size(crop_size: int, scale: int) -> None:
    """Raise unless crops are shrunk to whole pixels."""
    if crop_size % scale:
        raise ValueError(f"crop_size must be a multiple of {scale}, the scale, got {crop_size}")


def whole(image: Tensor, scale: int) -> Tensor:
    """As much of an image, (…, h, w), as its lower right pixels leave multiples of the scale."""
    height, width = (length - length % scale for length in image.shape[-2:])
    return image[..., :height, :width]


def degraded(image: Tensor, scale: int, low_resolution: bool) -> Tensor:
    """x↓ or, without `low_resolution`, x↓↑; not rounded."""
    small = shrink(image.double(), scale)
    seen = small if low_resolution else enlarge(small, scale)
    return seen.to(image.dtype)


def _held(images: list[Tensor], names: tuple[str, ...]) -> ImageSet:
    arrays: list[np.ndarray] = [image[0].permute(1, 2, 0).numpy() for image in images]
    return ImageSet.of(arrays, names)
