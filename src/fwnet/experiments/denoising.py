"""Denoising as the experiments have it: images, trainings, tests.

The protocol: networks learn from the Berkeley images outside BSD68, a dozen of which are held back
for every choice; noise is drawn anew at every step. They are tested on BSD68 with the same noise
for all (one seed an image, not clipped), outputs clipped to [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fwnet.data import ImageSet, berkeley_files, keyed_generator, noisy, read_images
from fwnet.experiments.image_job import ImageJob, figures_of, in_full_precision
from fwnet.experiments.runs import Record
from fwnet.experiments.small_images import small_files
from fwnet.models import (
    MODELS,
    CodingNetwork,
    ImageModel,
    PatchDenoiser,
    read_weights,
    write_weights,
)
from fwnet.restoration import Denoising
from fwnet.training import RestorationTask

__all__ = ["DenoisingTraining", "evaluate", "images_of", "measured_on", "patch_atoms"]

Data = Literal["berkeley", "small"]
Start = Literal["random", "random atoms", "pca", "ksvd"]
NUM_VALIDATION = {"berkeley": 12, "small": 1}


@lru_cache(maxsize=4)
def images_of(data: Data, color: bool = False) -> tuple[ImageSet, ImageSet, ImageSet]:
    """Images to learn from, to choose settings with, and to test on."""
    files = berkeley_files() if data == "berkeley" else small_files()
    learn, test = (read_images(part, color) for part in files)
    if data == "small":
        learn, test = learn.middles(256), test.middles(64)
    kept, held = learn.split(NUM_VALIDATION[data])
    return kept, held if data == "berkeley" else held.middles(64), test


@dataclass(frozen=True, kw_only=True)
class DenoisingTraining(ImageJob):
    """Train a network to remove noise; test it, or validate it.

    Attributes:
        data: "berkeley", or "small" for scikit-image's pictures.
        model: The name of an image model, or of a coding network, which then works on patches.
        sigma: The noise level on the scale of 0 to 255; two numbers are an interval.
        crop_size: The side of a crop; for patches their side.
        start: Where weights come from: drawn, or from a dictionary of patches.
        color: Whether images are in color.
        tested_at: The noise levels that the network is tested at; none when it chooses settings.
    """

    data: Data
    sigma: float | list[float]
    crops_per_epoch: int = 128_000
    start: Start = "random"
    color: bool = False
    tested_at: list[float] = field(default_factory=list)

    def task(self, network: ImageModel) -> RestorationTask:
        """Noise of the level, or of all levels between two, is to be removed."""
        learn, held, _ = images_of(self.data, self.color)
        levels = self.sigma if isinstance(self.sigma, list) else [self.sigma]
        noise = (levels[0] / 255, levels[-1] / 255)
        return RestorationTask(
            Denoising(noise, network.noise_level_input, self.color),
            learn,
            held,
            crop_size=self.crop_size,
            crops_per_epoch=self.crops_per_epoch,
        )

    def tests(self, network: ImageModel, device: torch.device) -> list[Record]:
        """Figures at every level that it is tested at."""
        _, _, test = images_of(self.data, self.color)
        return [evaluate(network, test, level, device) for level in self.tested_at]

    def untrained(self, folder: Path | None) -> ImageModel:
        """With drawn weights, or with those of a dictionary."""
        generator = keyed_generator(self.settings.get("seed", 0), "weights")
        learn, _, _ = images_of(self.data, self.color)
        kind: Any = MODELS[self.model]
        if issubclass(kind, CodingNetwork):
            atoms = self._atoms(folder, self.crop_size, self.options["num_atoms"])
            options = {name: value for name, value in self.options.items() if name != "num_atoms"}
            coder = kind.from_dictionary(atoms, reconstruct=True, **options)
            return PatchDenoiser.on(coder, patch_size=self.crop_size)
        options = {"in_channels": learn.channels, **self.options}
        if self.start == "random":
            network = kind(**options, generator=generator)
        else:
            channels = options.pop("channels", 64)
            size = options.get("kernel_size", 3)
            atoms = self._atoms(folder, size, channels)
            network = kind.from_dictionary(atoms, generator=generator, **options)
        assert isinstance(network, ImageModel)
        return network

    def _atoms(self, folder: Path | None, size: int, count: int) -> Tensor:
        """Atoms to start from; those of K-SVD, which take a while, are made once."""
        if folder is None or self.start != "ksvd":
            return patch_atoms(self.data, self.color, self.start, size, count)
        kind = "color" if self.color else "gray"
        path = folder / f"{self.start}-{self.data}-{kind}-{size}-{count}.safetensors"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            atoms = patch_atoms(self.data, self.color, self.start, size, count)
            write_weights(path, {"atoms": atoms}, {})
        return read_weights(path)[0]["atoms"]


def evaluate(model: ImageModel, images: ImageSet, level: float, device: torch.device) -> Record:
    """PSNR and SSIM of a network."""
    with in_full_precision(model):
        return measured_on(images, level, lambda x: denoise_with(model, x, level / 255), device)


def measured_on(
    images: ImageSet, level: float, method: Callable[[Tensor], Tensor], device: torch.device
) -> Record:
    """PSNR and SSIM of a method, one noisy image at a time."""

    def pairs() -> Iterator[tuple[Tensor, Tensor]]:
        for index in range(len(images)):
            clean = images[index]
            yield method(noisy(clean, level / 255, index).to(device)).cpu(), clean

    return {"sigma": level, **figures_of(pairs())}


def denoise_with(model: ImageModel, image: Tensor, sigma: float) -> Tensor:
    """What a network makes of a noisy image."""
    with torch.inference_mode():
        y: Tensor = model(image, sigma) if model.noise_level_input else model(image)
        return y


@lru_cache(maxsize=4)
def patch_atoms(data: Data, color: bool, start: Start, size: int, num_atoms: int) -> Tensor:
    """Atoms of norm 1, (channel·size², m), for patches without their mean."""
    images, _, _ = images_of(data, color)
    count, rounds = (20_000, 12) if data == "berkeley" else (1_000, 2)
    crops = images.crops(4 * count, size, keyed_generator(0, "patches"))
    patches = crops.flatten(1)
    patches = patches - patches.mean(1, keepdim=True)
    rough = patches.square().sum(1).argsort(descending=True)[:count]  # flat ones teach nothing
    patches = patches[rough]
    generator = keyed_generator(0, "atoms")
    n = patches.shape[1]
    if start == "ksvd":
        from fwnet.solvers import ksvd

        sparsity = 3 if size <= 3 else 6
        chosen = patches[torch.randperm(count, generator=generator)]
        found = ksvd(
            chosen, num_atoms, sparsity, num_rounds=rounds, batch_size=count // 2, exact=False
        )
        return found.dictionary
    atoms = torch.randn(n, num_atoms, generator=generator)
    if start == "pca":  # random atoms that vary as patches do
        _, scales, axes = torch.linalg.svd(patches, full_matrices=False)
        atoms = axes.T @ (scales[:, None] * atoms)
    return normalize(atoms, dim=0)
