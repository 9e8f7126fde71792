"""Super-resolution as the experiments have it: images, trainings, tests.

The protocol: networks learn from the luma of the 91 images, or of those and 199 Berkeley images;
every choice is made on twelve other Berkeley images. They are tested on Set5 and Set14: the luma,
cropped to multiples of the scale, is shrunk bicubically, and the network's output, rounded to 8
bits, is compared with it where its border, as many pixels as the scale, is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from fwnet.data import (
    ImageSet,
    berkeley_training_files,
    berkeley_validation_files,
    keyed_generator,
    read_luma_images,
    set5_files,
    set14_files,
    t91_files,
)
from fwnet.experiments.image_job import ImageJob, figures_of, in_full_precision
from fwnet.experiments.runs import Job, Record
from fwnet.experiments.small_images import small_files
from fwnet.metrics import as_displayed, shave
from fwnet.models import MODELS, ImageModel
from fwnet.restoration import Upscaling
from fwnet.training import RestorationTask

__all__ = ["Bicubic", "UpscalingTraining", "evaluate", "learning_images", "test_images"]

# 199: without the Berkeley image that has woman of Set5 in it.
Data = Literal["t91", "t91+berkeley199", "small"]


@lru_cache(maxsize=2)
def learning_images(data: Data) -> tuple[ImageSet, ImageSet]:
    """Images to learn from, and images to choose settings with."""
    if data == "small":
        return read_luma_images(small_files()[0]).middles(240).split(1)
    files = t91_files()
    if data == "t91+berkeley199":
        files = [*files, *berkeley_training_files()]
    return read_luma_images(files), read_luma_images(berkeley_validation_files())


@lru_cache(maxsize=2)
def test_images(data: Data) -> dict[str, ImageSet]:
    """Images to test on, by the name of their set."""
    if data == "small":
        return {"small": read_luma_images(small_files()[1]).middles(60)}
    return {
        "Set5": read_luma_images(set5_files()),
        "Set14": read_luma_images(set14_files()),
    }


@dataclass(frozen=True, kw_only=True)
class UpscalingTraining(ImageJob):
    """Train a network to enlarge images; test it, or validate it.

    Attributes:
        data: What it learns from; "small" for scikit-image's pictures.
        smaller_copies: Whether it learns from smaller copies of them as well.
        options: Of the network. With a `scale` it sees the small image, else the enlarged one.
        scale: How many times as high and wide an image becomes.
        tested: Whether the network is tested; those that choose settings are not.
    """

    data: Data
    smaller_copies: bool = False
    scale: int = 3
    crops_per_epoch: int = 64_000
    tested: bool = False

    def task(self, network: ImageModel) -> RestorationTask:
        """Images are to be made what they were before they were shrunk."""
        learn, held = learning_images(self.data)
        return RestorationTask(
            Upscaling(self.scale, network.scale > 1, self.smaller_copies),
            learn,
            held,
            crop_size=self.crop_size,
            crops_per_epoch=self.crops_per_epoch,
        )

    def tests(self, network: ImageModel, device: torch.device) -> list[Record]:
        """Figures on every set."""
        if not self.tested:
            return []
        return [
            {"images": name, **evaluate(network, images, self.scale, device)}
            for name, images in test_images(self.data).items()
        ]

    def untrained(self, folder: Path | None) -> ImageModel:  # noqa: ARG002
        """With weights that are drawn."""
        kind: Any = MODELS[self.model]
        generator = keyed_generator(self.settings.get("seed", 0), "weights")
        network: ImageModel = kind(**self.options, generator=generator)
        return network


def evaluate(model: ImageModel, images: ImageSet, scale: int, device: torch.device) -> Record:
    """PSNR and SSIM of a network."""
    with in_full_precision(model):
        return measured_on(images, scale, lambda x: upscale_with(model, x, scale, device))


def upscale_with(model: ImageModel, image: Tensor, scale: int, device: torch.device) -> Tensor:
    """What a network makes of an image after it was shrunk."""
    with torch.inference_mode():
        upscaling = Upscaling(scale, model.scale > 1)
        y: Tensor = model(upscaling.seen(upscaling.degrade(image)).to(device, image.dtype))
        return y.cpu()


def measured_on(images: ImageSet, scale: int, restore: Callable[[Tensor], Tensor]) -> Record:
    """PSNR and SSIM of a method that is given the image and degrades it itself."""

    def pairs() -> Iterator[tuple[Tensor, Tensor]]:
        for index in range(len(images)):
            wanted = Upscaling(scale).usable(images[index])
            yield shave(as_displayed(restore(wanted)), scale), shave(wanted, scale)

    return figures_of(pairs())


@dataclass(frozen=True)
class Bicubic(Job):
    """Enlarge the test images bicubically.

    Attributes:
        data: Whose test images.
        scale: How many times as high and wide they become.
    """

    data: Data
    scale: int = 3

    def execute(self, device: torch.device) -> Record:  # noqa: ARG002
        """Return PSNR and SSIM."""
        upscaling = Upscaling(self.scale)

        def bicubic(image: Tensor) -> Tensor:
            return upscaling.baseline(upscaling.degrade(image)).to(image.dtype)

        tests = [
            {
                "images": name,
                **measured_on(images, self.scale, bicubic),
            }
            for name, images in test_images(self.data).items()
        ]
        return {"tests": tests}
