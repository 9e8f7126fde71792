"""Learning to remove noise from images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from fwnet.data import ImageSet, keyed_generator, noisy
from fwnet.metrics import psnr
from fwnet.training.config import TrainingConfig
from fwnet.training.image_task import ImageTask, gray_levels

__all__ = ["Denoising"]

LEVELS = (15 / 255, 25 / 255, 50 / 255)  # that a network for many levels is validated at
LEAST_SIGMA = 1 / 255


class Denoising(ImageTask):
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
        super().__init__(images, validation, crop_size=crop_size, crops_per_epoch=crops_per_epoch)
        self.low, self.high, self.tell_sigma = low, high, tell_sigma

    @property
    def settings(self) -> tuple[Any, ...]:
        """Noise and crops."""
        return self.low, self.high, self.tell_sigma, self.crop_size, self.crops_per_epoch

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
        """The error in gray levels that has the mean PSNR of all images."""
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
        ratios = [
            psnr(denoise(noisy(image, sigma, index), sigma), image)
            for index, image in enumerate(self.validation_images())
            for sigma in self.levels
        ]
        return gray_levels(ratios) if ratios else None
