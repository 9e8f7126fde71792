"""Learning to remove noise from images."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

from fwnet.data import ImageSet, keyed_generator, noisy
from fwnet.metrics import psnr
from fwnet.training.config import TrainingConfig
from fwnet.training.task import ShownFigure, Task

__all__ = ["Denoising", "decibels"]

LOOKED_AT = 320  # of a validation image the middle, at most so many pixels a side
LEVELS = (15 / 255, 25 / 255, 50 / 255)  # that a network for many levels is validated at
LEAST_SIGMA = 1 / 255


def decibels(gray_levels: float) -> float:
    """20·log₁₀(255/e), the PSNR of an error e in gray levels."""
    return 20 * math.log10(255 / gray_levels) if gray_levels else math.inf


class Denoising(Task):
    """min_W mean ‖f_W(x + n) − x‖² / max(σ, 1/255),   n ~ N(0, σ²), over crops x of images.

    Crops are drawn at random, mirrored and turned, and noise is drawn anew for every step. For one
    σ its factor is a constant; where σ is drawn from an interval, the best error possible grows
    about as σ does, and dividing by σ gives all levels the same say.

    Args:
        images: To learn from.
        validation: Images that are not learned from, if there are any.
        sigma: σ on the scale of [0, 1], or the interval it is drawn from, one an image.
        tell_sigma: Whether the network is told σ (a noise-level input).
        crop_size: The side of a crop.
        crops_per_epoch: How many crops an epoch has.

    `validate` looks at 15, 25 and 50 gray levels of noise, as far as they are in the interval.
    """

    shown = ShownFigure("PSNR of validation images", "dB", decibels)

    def __init__(
        self,
        images: ImageSet,
        validation: ImageSet | None = None,
        *,
        sigma: float | tuple[float, float],
        tell_sigma: bool = False,
        crop_size: int = 48,
        crops_per_epoch: int = 128_000,
    ) -> None:
        low, high = (sigma, sigma) if isinstance(sigma, float | int) else sigma
        if not 0 <= low <= high <= 1 or high == 0:
            raise ValueError(
                f"sigma must be in (0, 1], or an interval in there, got {sigma!r} "
                "(a level of 25 is sigma=25/255)"
            )
        for name, count in (("crop_size", crop_size), ("crops_per_epoch", crops_per_epoch)):
            if not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} must be an integer >= 1, got {count!r}")
        images.check_crops(crop_size)
        self.images, self.validation = images, validation
        self.low, self.high, self.tell_sigma = low, high, tell_sigma
        self.crop_size, self.crops_per_epoch = crop_size, crops_per_epoch

    def to(self, device: torch.device) -> Self:
        """Return the task with its images on a device."""
        moved = copy.copy(self)
        moved.images = self.images.to(device)
        moved.validation = self.validation and self.validation.to(device)
        return moved

    def steps_per_epoch(self, config: TrainingConfig) -> int:
        """As many steps as the crops of an epoch fill."""
        return max(1, self.crops_per_epoch // config.batch_size)

    def batch(self, step: int, rows: slice, config: TrainingConfig) -> tuple[Tensor, ...]:
        """Noisy crops, clean ones, and the σ of each."""
        device = self.images.pixels.device
        generator = keyed_generator(config.seed, "crops", step)
        clean = self.images.crops(config.batch_size, self.crop_size, generator)
        levels = torch.rand(config.batch_size, generator=generator)
        sigma = (self.low + (self.high - self.low) * levels).to(device, non_blocking=True)
        # Another word than that of `noisy`, or seed 0 would learn the noise of the tests.
        generator = keyed_generator(config.seed, "training noise", step, device=device)
        noise = torch.randn(clean.shape, generator=generator, device=device)
        noisy_crops = clean + sigma[:, None, None, None] * noise
        return noisy_crops[rows], clean[rows], sigma[rows]

    def loss(self, model: nn.Module, *batch: Tensor) -> Tensor:
        """The mean squared error, by σ."""
        x, clean, sigma = batch
        y = model(x, sigma) if self.tell_sigma else model(x)
        errors = (y.float() - clean).square().flatten(1).mean(1)
        relative: Tensor = errors / sigma.clamp(min=LEAST_SIGMA)
        return relative.mean()

    def validate(self, model: nn.Module) -> float | None:
        """255·10^(−PSNR/20): the error in gray levels that has the mean PSNR of all images."""
        return self._error(lambda x, sigma: model(x, sigma) if self.tell_sigma else model(x))

    def validate_noisy(self) -> float | None:
        """The same figure of the noisy images as they are."""
        return self._error(lambda x, _: x)

    @property
    def levels(self) -> list[float]:
        """The σ that `validate` looks at."""
        if self.low == self.high:
            return [self.low]
        inside = [level for level in LEVELS if self.low <= level <= self.high]
        return inside or [(self.low + self.high) / 2]

    def _error(self, denoise: Callable[[Tensor, float], Tensor]) -> float | None:
        if self.validation is None:
            return None
        values = [
            psnr(denoise(noisy(image, sigma, index), sigma), image)
            for index, image in enumerate(map(self._middle, range(len(self.validation))))
            for sigma in self.levels
        ]
        mean = torch.cat(values).mean().item()
        return float(255 * 10 ** (-mean / 20))

    def fingerprint(self) -> str:
        """SHA-256 of all pixels, and the settings."""
        parts = [part.digest() for part in (self.images, self.validation) if part is not None]
        settings = (self.low, self.high, self.tell_sigma, self.crop_size, self.crops_per_epoch)
        return f"{' '.join(parts)} {settings!r}"

    def _middle(self, index: int) -> Tensor:
        assert self.validation is not None
        image = self.validation[index]
        height, width = image.shape[2:]
        top, left = max(0, height - LOOKED_AT) // 2, max(0, width - LOOKED_AT) // 2
        return image[:, :, top : top + LOOKED_AT, left : left + LOOKED_AT]
