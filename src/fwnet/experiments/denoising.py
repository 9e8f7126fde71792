"""What the experiments on denoising share: images, networks, trainings, tests.

The protocol: networks learn from the Berkeley images outside BSD68, a dozen of which are held back
for every choice; noise is drawn anew at every step. All networks of a table are trained by the
same loop for the same number of steps; the learning rate of each kind of network is the one with
the best PSNR on the held-back images after a shorter training. They are tested on BSD68 with the
same noise for all (one seed an image, not clipped), outputs clipped to [0, 1].
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fwnet.data import ImageSet, berkeley_files, keyed_generator, noisy, read_images
from fwnet.experiments.runs import Job, Record
from fwnet.hardware import hardware_name
from fwnet.metrics import psnr, ssim
from fwnet.models import (
    MODELS,
    CodingNetwork,
    ConvFWNet,
    ConvLISTA,
    ImageModel,
    Model,
    PatchDenoiser,
    load_model,
    read_weights,
    write_weights,
)
from fwnet.training import Denoising, DivergedError, TrainingConfig, train

__all__ = ["DenoisingTraining", "evaluate", "images_of"]

Data = Literal["berkeley", "small"]
Start = Literal["random", "random atoms", "pca", "ksvd"]
NUM_VALIDATION = {"berkeley": 12, "small": 1}
SMALL = ("chelsea", "coffee", "rocket", "brick"), ("camera", "astronaut")  # of scikit-image
CONVOLUTIONAL = {"ConvFWNet": ConvFWNet, "ConvLISTA": ConvLISTA}


@lru_cache(maxsize=4)
def images_of(data: Data, color: bool = False) -> tuple[ImageSet, ImageSet, ImageSet]:
    """Images to learn from, to choose settings with, and to test on."""
    if data == "berkeley":
        learn, test = (read_images(files, color) for files in berkeley_files())
    else:
        import skimage.data

        folder = Path(skimage.data.__file__).parent
        learn, test = (
            read_images([next(folder.glob(f"{name}.*")) for name in names], color)
            for names in SMALL
        )
    return (*learn.split(NUM_VALIDATION[data]), test)


@dataclass(frozen=True)
class DenoisingTraining(Job):
    """Train a network to remove noise; test it, or validate it.

    Attributes:
        data: "berkeley", or "small" for scikit-image's pictures.
        model: The name of an image model, or of a coding network, which then works on patches.
        options: Its arguments.
        sigma: The noise level on the scale of 0 to 255; two numbers are an interval.
        settings: Arguments of `TrainingConfig`.
        crop_size: The side of a crop; for patches their side.
        crops_per_epoch: How many crops make an epoch.
        start: Where weights come from: drawn, or from a dictionary of patches.
        parent: The key of the training whose network this one starts from.
        color: Whether images are in color.
        tested_at: The noise levels that the network is tested at; none when it chooses settings.
    """

    data: Data
    model: str
    options: dict[str, Any]
    sigma: float | list[float]
    settings: dict[str, Any] = field(default_factory=dict)
    crop_size: int = 48
    crops_per_epoch: int = 128_000
    start: Start = "random"
    parent: str | None = None
    color: bool = False
    tested_at: list[float] = field(default_factory=list)

    def execute(self, device: torch.device) -> Record:
        """Train without keeping the weights."""
        return self.execute_in(None, device)

    def execute_in(self, folder: Path | None, device: torch.device) -> Record:
        """Return PSNR on held-back images or, of a network that is tested, on test images."""
        learn, held, test = images_of(self.data, self.color)
        sigma = [level / 255 for level in self._levels()]
        network = self.network(folder)
        task = Denoising(
            learn,
            held,
            sigma=(sigma[0], sigma[-1]),
            tell_sigma=network.noise_level_input,
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
        if self.model in ("ConvFWNet", "FWNet"):
            record["p_by_epoch"] = [epoch.get("p") for epoch in history]
        record["tests"] = [evaluate(network, test, level, device) for level in self.tested_at]
        return record

    def network(self, folder: Path | None) -> ImageModel:
        """The network before training."""
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
        if self.parent is not None:
            if folder is None:
                raise ValueError("a training that goes on from another one needs its weights")
            network.adopt(load_model(folder / self.parent / "model.safetensors"))
        assert isinstance(network, ImageModel)
        return network

    def _atoms(self, folder: Path | None, size: int, count: int) -> Tensor:
        """Atoms to start from; those of K-SVD, which take a while, are made once."""
        learn, _, _ = images_of(self.data, self.color)
        if folder is None or self.start != "ksvd":
            return patch_atoms(learn, self.start, size, count)
        path = folder / f"{self.start}-{self.data}-{learn.channels}-{size}-{count}.safetensors"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            write_weights(path, {"atoms": patch_atoms(learn, self.start, size, count)}, {})
        return read_weights(path)[0]["atoms"]

    def _levels(self) -> list[float]:
        return self.sigma if isinstance(self.sigma, list) else [self.sigma]


def decibels(gray_levels: float) -> float:
    """The PSNR of an error in gray levels."""
    return 20 * torch.tensor(255 / gray_levels, dtype=torch.float64).log10().item()


def evaluate(
    model: Model, images: ImageSet, level: float, device: torch.device, limit: int | None = None
) -> Record:
    """PSNR and SSIM on noisy images, one at a time, in full float32."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    values: list[tuple[float, float]] = []
    try:
        for index in range(len(images) if limit is None else min(limit, len(images))):
            clean = images[index]
            denoised = denoise_with(model, noisy(clean, level / 255, index), level / 255, device)
            values.append((psnr(denoised, clean).item(), ssim(denoised, clean).item()))
    finally:
        torch.backends.cudnn.allow_tf32 = before
    ratios, similarities = zip(*values, strict=True)
    return {
        "sigma": level,
        "psnr": statistics.fmean(ratios),
        "ssim": statistics.fmean(similarities),
        "psnr_by_image": [round(value, 3) for value in ratios],
    }


def denoise_with(model: Model, image: Tensor, sigma: float, device: torch.device) -> Tensor:
    """What a network makes of a noisy image."""
    with torch.inference_mode():
        x = image.to(device)
        y: Tensor = model(x, sigma) if getattr(model, "noise_level_input", False) else model(x)
        return y.cpu()


def patch_atoms(images: ImageSet, start: Start, size: int, num_atoms: int) -> Tensor:
    """Atoms of norm 1, (channel·size², m), for patches without their mean."""
    count = 20_000
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
        found = ksvd(chosen, num_atoms, sparsity, num_rounds=12, batch_size=10_000, exact=False)
        return found.dictionary
    atoms = torch.randn(n, num_atoms, generator=generator)
    if start == "pca":  # random atoms that vary as patches do
        _, scales, axes = torch.linalg.svd(patches, full_matrices=False)
        atoms = axes.T @ (scales[:, None] * atoms)
    return normalize(atoms, dim=0)


def mean_psnr(records: Sequence[Record], index: int = 0) -> list[float]:
    """One figure a seed."""
    return [record["tests"][index]["psnr"] for record in records]
