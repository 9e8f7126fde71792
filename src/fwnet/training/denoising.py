"""Learning to remove noise from images."""

from __future__ import annotations

import copy
from typing import Self

import torch
from torch import Tensor, nn

from fwnet.data import ImageSet, keyed_generator, noisy
from fwnet.metrics import psnr
from fwnet.training.config import TrainingConfig
from fwnet.training.task import Task

__all__ = ["Denoising"]

LOOKED_AT = 320  # of a validation image the middle, at most so many pixels a side
LEVELS = (15 / 255, 25 / 255, 50 / 255)  # that a network for many levels is validated at
LEAST_SIGMA = 1 / 255


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
        generator = keyed_generator(config.seed, "noise", step, device=device)
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
        if self.validation is None:
            return None
        levels = [self.low] if self.low == self.high else LEVELS
        values = [
            psnr(self._denoised(model, noisy(image, sigma, index), sigma), image)
            for index, image in enumerate(map(self._middle, range(len(self.validation))))
            for sigma in levels
        ]
        mean = torch.cat(values).mean().item()
        return float(255 * 10 ** (-mean / 20))

    def fingerprint(self) -> str:
        """SHA-256 of all pixels, and the settings."""
        parts = [part.digest() for part in (self.images, self.validation) if part is not None]
        settings = (self.low, self.high, self.tell_sigma, self.crop_size, self.crops_per_epoch)
        return f"{' '.join(parts)} {settings!r}"

    def _denoised(self, model: nn.Module, image: Tensor, sigma: float) -> Tensor:
        y: Tensor = model(image, sigma) if self.tell_sigma else model(image)
        return y

    def _middle(self, index: int) -> Tensor:
        assert self.validation is not None
        image = self.validation[index]
        height, width = image.shape[2:]
        top, left = max(0, height - LOOKED_AT) // 2, max(0, width - LOOKED_AT) // 2
        return image[:, :, top : top + LOOKED_AT, left : left + LOOKED_AT]
