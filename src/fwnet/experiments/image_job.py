"""Trainings on images as jobs: what those of denoising and of super-resolution share."""

from __future__ import annotations

import statistics
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fwnet.experiments.runs import Job, Record
from fwnet.hardware import hardware_name
from fwnet.metrics import psnr, ssim
from fwnet.models import ImageModel, load_model
from fwnet.training import DivergedError, Task, TrainingConfig, TrainingRun, decibels, train

__all__ = ["ImageJob", "figures_of", "in_full_precision"]


@dataclass(frozen=True, kw_only=True)
class ImageJob(Job):
    """Train a network on images; test it, or validate it.

    Attributes:
        data: Which images; "small" for scikit-image's pictures.
        model: The name of a model.
        options: Its arguments.
        settings: Arguments of `TrainingConfig`.
        crop_size: The side of a crop.
        crops_per_epoch: How many crops make an epoch.
        parent: The key of the training whose network this one starts from.
    """

    data: str
    model: str
    options: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    crop_size: int = 48
    crops_per_epoch: int
    parent: str | None = None

    @abstractmethod
    def untrained(self, folder: Path | None) -> ImageModel:
        """The network with the weights it starts with, but for those of a parent."""

    @abstractmethod
    def task(self, network: ImageModel) -> Task:
        """What the network learns."""

    @abstractmethod
    def tests(self, network: ImageModel, device: torch.device) -> list[Record]:
        """Figures on test images; none of a network that chooses settings."""

    def network(self, folder: Path | None) -> ImageModel:
        """The network before training."""
        network: Any = self.untrained(folder)
        if self.parent is not None:
            if folder is None:
                raise ValueError("a training that goes on from another one needs its weights")
            network.adopt(load_model(folder / self.parent / "model.safetensors"))
        assert isinstance(network, ImageModel)
        return network

    def execute(self, device: torch.device) -> Record:
        """Train without keeping the weights."""
        return self.execute_in(None, device)

    def execute_in(self, folder: Path | None, device: torch.device) -> Record:
        """Return PSNR on held-back images and, of a network that is tested, on test images."""
        network = self.network(folder)
        record: Record = {"hardware": f"{hardware_name(device)}, torch {torch.__version__}"}
        where = None if folder is None else folder / self.key
        config = TrainingConfig(**self.settings)
        try:
            result = train(
                network,
                self.task(network),
                config,
                TrainingRun(device=device, folder=where, resume=True),
            )
        except DivergedError as error:
            return {**record, "diverged": str(error), "validation": None}
        history = result.history
        record |= {
            "validation": decibels(history[-1]["validation"]),
            "validation_by_epoch": [decibels(epoch["validation"]) for epoch in history],
            "seconds": result.seconds,
            "num_parameters": network.num_parameters,
            "multiply_adds": network.multiply_adds,
            "watched": network.watched(),
            "tests": self.tests(network, device),
        }
        if "p" in record["watched"]:
            record["p_by_epoch"] = [epoch["p"] for epoch in history]
        return record


@contextmanager
def in_full_precision(model: ImageModel) -> Iterator[None]:
    """Products of convolutions in float32, not in TF32, while a network is tested."""
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def figures_of(pairs: Iterable[tuple[Tensor, Tensor]]) -> Record:
    """PSNR and SSIM of images beside those that were wanted: their means, and PSNR by image."""
    values = [(psnr(*pair).item(), ssim(*pair).item()) for pair in pairs]
    ratios, similarities = zip(*values, strict=True)
    return {
        "psnr": statistics.fmean(ratios),
        "ssim": statistics.fmean(similarities),
        "psnr_by_image": [round(value, 3) for value in ratios],
    }
