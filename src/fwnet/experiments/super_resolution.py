"""What the experiments on super-resolution share: images, networks, trainings, tests.

The protocol: networks learn from the luma of the 91 images, or of those and 200 Berkeley images;
every choice is made on twelve other Berkeley images. They are tested on Set5 and Set14: the luma,
cropped to multiples of the scale, is shrunk bicubically, and the network's output, rounded to 8
bits, is compared with it where its border, as many pixels as the scale, is left out.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
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
from fwnet.experiments.runs import Job, Record
from fwnet.hardware import hardware_name
from fwnet.metrics import as_displayed, psnr, shave, ssim
from fwnet.models import MODELS, ImageModel, load_model
from fwnet.training import DivergedError, SuperResolution, TrainingConfig, decibels, train
from fwnet.training.super_resolution import degraded, whole

__all__ = ["UpscalingTraining", "evaluate", "learning_images", "test_images"]

Data = Literal["t91", "t91+berkeley", "small"]
SMALL = ("chelsea", "coffee", "rocket", "brick"), ("camera", "astronaut")  # of scikit-image


@lru_cache(maxsize=2)
def learning_images(data: Data) -> tuple[ImageSet, ImageSet]:
    """Images to learn from, and images to choose settings with."""
    if data == "small":
        learn = _small(SMALL[0], 240)
        kept, held = learn.split(1)
        return kept, held
    files = t91_files()
    if data == "t91+berkeley":
        files = [*files, *berkeley_training_files()]
    return read_luma_images(files), read_luma_images(berkeley_validation_files())


@lru_cache(maxsize=2)
def test_images(data: Data) -> dict[str, ImageSet]:
    """Images to test on, by the name of their set."""
    if data == "small":
        return {"small": _small(SMALL[1], 60)}
    return {
        "Set5": read_luma_images(set5_files()),
        "Set14": read_luma_images(set14_files()),
    }


def _small(names: tuple[str, ...], side: int) -> ImageSet:
    """The middles of pictures of scikit-image."""
    import skimage.data

    folder = Path(skimage.data.__file__).parent
    images = read_luma_images([next(folder.glob(f"{name}.*")) for name in names])
    return images.middles(side)


@dataclass(frozen=True)
class UpscalingTraining(Job):
    """Train a network to enlarge images; test it, or validate it.

    Attributes:
        data: What it learns from; "small" for scikit-image's pictures.
        model: The name of an image model.
        options: Its arguments. With a `scale` it sees the small image, else the enlarged one.
        scale: How many times as high and wide an image becomes.
        settings: Arguments of `TrainingConfig`.
        crop_size: The side of a crop.
        crops_per_epoch: How many crops make an epoch.
        parent: The key of the training whose network this one starts from.
        tested: Whether the network is tested; those that choose settings are not.
    """

    data: Data
    model: str
    options: dict[str, Any]
    scale: int = 3
    settings: dict[str, Any] = field(default_factory=dict)
    crop_size: int = 48
    crops_per_epoch: int = 64_000
    parent: str | None = None
    tested: bool = False

    def execute(self, device: torch.device) -> Record:
        """Train without keeping the weights."""
        return self.execute_in(None, device)

    def execute_in(self, folder: Path | None, device: torch.device) -> Record:
        """Return PSNR on held-back images or, of a network that is tested, on test images."""
        network = self.network(folder)
        learn, held = learning_images(self.data)
        task = SuperResolution(
            learn,
            held,
            scale=self.scale,
            low_resolution=network.scale > 1,
            crop_size=self.crop_size,
            crops_per_epoch=self.crops_per_epoch,
        )
        record: Record = {"hardware": f"{hardware_name(device)}, torch {torch.__version__}"}
        where = None if folder is None else folder / self.key
        config = TrainingConfig(**self.settings)
        try:
            result = train(network, task, config, device=device, folder=where, resume=True)
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
        }
        if self.model == "ConvFWNet":
            record["p_by_epoch"] = [epoch.get("p") for epoch in history]
        if self.tested:
            record["tests"] = [
                {"images": name, **evaluate(network, images, self.scale, device)}
                for name, images in test_images(self.data).items()
            ]
        return record

    def network(self, folder: Path | None) -> ImageModel:
        """The network before training."""
        generator = keyed_generator(self.settings.get("seed", 0), "weights")
        kind: Any = MODELS[self.model]
        network: ImageModel = kind(**self.options, generator=generator)
        if self.parent is not None:
            if folder is None:
                raise ValueError("a training that goes on from another one needs its weights")
            parent: Any = load_model(folder / self.parent / "model.safetensors")
            network.adopt(parent)  # type: ignore[operator]
        return network


def evaluate(model: ImageModel, images: ImageSet, scale: int, device: torch.device) -> Record:
    """PSNR and SSIM of a network, in full float32."""
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        return measured_on(images, scale, lambda x: upscale_with(model, x, scale, device))
    finally:
        torch.backends.cudnn.allow_tf32 = before


def upscale_with(model: ImageModel, image: Tensor, scale: int, device: torch.device) -> Tensor:
    """What a network makes of an image after it was shrunk."""
    with torch.inference_mode():
        y: Tensor = model(degraded(image, scale, model.scale > 1).to(device))
        return y.cpu()


def measured_on(images: ImageSet, scale: int, restore: Callable[[Tensor], Tensor]) -> Record:
    """PSNR and SSIM of a method that is given the image and degrades it itself."""
    values: list[tuple[float, float]] = []
    for index in range(len(images)):
        wanted = whole(images[index], scale)
        ours = shave(as_displayed(restore(wanted)), scale)
        theirs = shave(wanted, scale)
        values.append((psnr(ours, theirs).item(), ssim(ours, theirs).item()))
    ratios, similarities = zip(*values, strict=True)
    return {
        "psnr": statistics.fmean(ratios),
        "ssim": statistics.fmean(similarities),
        "psnr_by_image": [round(value, 3) for value in ratios],
    }
