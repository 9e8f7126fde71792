"""Trainings and tests of networks on images, for denoising and for super-resolution.

Denoising: networks learn from the Berkeley images outside BSD68, a dozen of which are held out for
every choice; new noise is drawn at every step. They are tested on BSD68 with the same noise for all
(one seed per image, not clipped), and outputs are clipped to [0, 1].

Super-resolution: networks learn from the luma of the 91 images, or of those and 199 Berkeley
images; every choice is made on twelve other Berkeley images. They are tested on Set5 and Set14: the
luma, cropped to multiples of the scale, is shrunk bicubically, and the output of the network is
compared with it in 8 bits, without a border of as many pixels as the scale.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fwnet.data import (
    ImageSet,
    berkeley_files,
    berkeley_training_files,
    berkeley_validation_files,
    keyed_generator,
    read_images,
    read_luma_images,
    set5_files,
    set14_files,
    t91_files,
)
from fwnet.experiments.patches import PatchDenoiser
from fwnet.experiments.runs import Job, Record
from fwnet.hardware import full_precision
from fwnet.metrics import psnr, ssim
from fwnet.models import MODELS, CodingNetwork, ImageModel
from fwnet.restoration import Denoising, Example, Restoration, Upscaling
from fwnet.solvers import ksvd
from fwnet.training import (
    DivergedError,
    RestorationTask,
    TrainingConfig,
    TrainingRun,
    decibels,
    train,
)

# 199: without the Berkeley image that contains "woman" of Set5.
Data = Literal["berkeley", "t91", "t91+berkeley199", "small"]
Start = Literal["random", "random atoms", "pca", "ksvd"]
Task = dict[str, int]  # {"sigma": 25} on the scale 0 to 255, or {"scale": 3}
NUM_VALIDATION = 12
LEARN, TEST = ("chelsea", "coffee", "rocket", "brick"), ("camera", "astronaut")  # if "small"


@lru_cache(maxsize=4)
def learning_images(data: Data, luma: bool) -> tuple[ImageSet, ImageSet]:
    """Return images to learn from, and images to choose settings with; as luma or as gray."""
    read = read_luma_images if luma else read_images
    if data == "small":
        learn, held = read(small_files(LEARN)).middles(240).split(1)
        return learn, held.middles(60)
    if data == "berkeley":
        return read(berkeley_files()[0]).split(NUM_VALIDATION)
    more = berkeley_training_files() if data == "t91+berkeley199" else []
    return read([*t91_files(), *more]), read(berkeley_validation_files())


@lru_cache(maxsize=4)
def images_to_test(data: Data, luma: bool, color: bool = False) -> dict[str, ImageSet]:
    """Return images to test on, by the name of their set."""
    if data == "small":
        files = small_files(TEST)
        images = read_luma_images(files) if luma else read_images(files, color)
        return {"small": images.middles(60)}
    if data == "berkeley":
        return {"BSD68": read_images(berkeley_files()[1], color)}
    return {"Set5": read_luma_images(set5_files()), "Set14": read_luma_images(set14_files())}


def small_files(names: tuple[str, ...]) -> list[Path]:
    """Return pictures of scikit-image, for quick versions."""
    import skimage.data

    folder = Path(skimage.data.__file__).parent
    return [next(folder.glob(f"{name}.*")) for name in names]


@dataclass(frozen=True, kw_only=True)
class ImageTraining(Job):
    """Train a network on images; test it, or validate it.

    Attributes:
        task: Noise level on the scale 0 to 255, or scale factor.
        data: Images to learn from; "small" for pictures of scikit-image.
        model: Name of an image model, or of a coding network, which then works on patches.
        options: Its arguments. With a `scale` it sees the small image, else the enlarged one.
        settings: Arguments of `TrainingConfig`.
        crops_per_epoch: Number of crops of an epoch.
        crop_size: Side of a crop or of a patch.
        start: Initial weights: random, or from a dictionary of patches.
        smaller_copies: Whether it also learns from smaller copies of the images.
        tested: Whether the network is tested; those that choose settings are not.
    """

    task: Task
    data: Data
    model: str
    options: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    crops_per_epoch: int
    crop_size: int = 48
    start: Start = "random"
    smaller_copies: bool = False
    tested: bool = False

    def execute(self, device: torch.device) -> Record:
        """Train without keeping the weights."""
        return self.execute_in(None, device)

    def execute_in(self, folder: Path | None, device: torch.device) -> Record:
        """Return PSNR on held-out images and, of a network that is tested, on test images."""
        network = self.network()
        task = RestorationTask(
            restoration_for(self.task, network, self.smaller_copies),
            *learning_images(self.data, "scale" in self.task),
            crop_size=self.crop_size,
            crops_per_epoch=self.crops_per_epoch,
        )
        where = None if folder is None else folder / self.key
        run = TrainingRun(device=device, folder=where, resume=True)
        try:
            result = train(network, task, TrainingConfig(**self.settings), run)
        except DivergedError as error:
            return {"diverged": str(error), "validation": None}
        by_epoch = [decibels(epoch["validation"]) for epoch in result.history]
        return {
            "validation": by_epoch[-1],
            "validation_by_epoch": by_epoch,
            "seconds": result.seconds,
            "num_parameters": network.num_parameters,
            "multiply_adds": network.multiply_adds,
            "watched": network.watched(),
            "tests": network_tests(network, self.task, self.data, device) if self.tested else [],
        }

    def network(self) -> ImageModel:
        """Return the network before training."""
        kind: Any = MODELS[self.model]
        options = dict(self.options)
        if issubclass(kind, CodingNetwork):
            atoms = patch_atoms(self.data, self.start, self.crop_size, options.pop("num_atoms"))
            coder = kind.from_dictionary(atoms, reconstruct=True, **options)
            return PatchDenoiser.on(coder, patch_size=self.crop_size)
        generator = keyed_generator(self.settings.get("seed", 0), "weights")
        network: ImageModel
        if self.start == "random":
            network = kind(**options, generator=generator)
        else:
            channels, size = options.pop("channels", 64), options.get("kernel_size", 3)
            atoms = patch_atoms(self.data, self.start, size, channels)
            network = kind.from_dictionary(atoms, generator=generator, **options)
        return network


def restoration_for(task: Task, network: ImageModel, smaller_copies: bool = False) -> Restoration:
    """Return what a network learns, or is tested with."""
    if "sigma" in task:
        color = network.in_channels == 3
        return Denoising(task["sigma"] / 255, network.noise_level_input, color)
    return Upscaling(task["scale"], network.scale > 1, smaller_copies)


def network_tests(
    network: ImageModel, task: Task, data: Data, device: torch.device
) -> list[Record]:
    """Return the figures of a network on every set of test images."""
    restoration = restoration_for(task, network)

    def apply(x: Tensor, *sigma: float) -> Tensor:
        y: Tensor = network(x.to(device, torch.float32), *sigma)
        return y.cpu()

    network.to(memory_format=torch.channels_last)
    with full_precision(), torch.inference_mode():
        return figures_by_set(
            restoration,
            images_to_test(data, restoration.luma, network.in_channels == 3),
            lambda example: restoration.restore(apply, example.degraded, example.sigma),
        )


def figures_by_set(
    restoration: Restoration, images: dict[str, ImageSet], restore: Callable[[Example], Tensor]
) -> list[Record]:
    """Return mean PSNR and SSIM of restored images for every set."""
    tests = []
    for name, images_of_set in images.items():
        values = []
        for index in range(len(images_of_set)):
            for example in restoration.examples(images_of_set[index], index):
                pair = restoration.compared(restore(example).float(), example.wanted)
                values.append((psnr(*pair).item(), ssim(*pair).item()))
        ratios, similarities = zip(*values, strict=True)
        figures = {"psnr": statistics.fmean(ratios), "ssim": statistics.fmean(similarities)}
        tests.append({"images": name, **figures})
    return tests


@lru_cache(maxsize=4)
def patch_atoms(data: Data, start: Start, size: int, num_atoms: int) -> Tensor:
    """Return atoms of norm 1, (size², m), for gray patches without their mean."""
    images, _ = learning_images(data, luma=False)
    count, rounds = (1_000, 2) if data == "small" else (20_000, 12)
    patches = images.crops(4 * count, size, keyed_generator(0, "patches")).flatten(1)
    patches = patches - patches.mean(1, keepdim=True)
    patches = patches[patches.square().sum(1).argsort(descending=True)[:count]]  # no flat ones
    generator = keyed_generator(0, "atoms")
    if start == "ksvd":
        chosen = patches[torch.randperm(count, generator=generator)]
        sparsity = 3 if size <= 3 else 6
        options: dict[str, Any] = {"num_rounds": rounds, "batch_size": count // 2, "exact": False}
        return ksvd(chosen, num_atoms, sparsity, **options).dictionary
    atoms = torch.randn(patches.shape[1], num_atoms, generator=generator)
    if start == "pca":  # random atoms with the covariance of patches
        _, scales, axes = torch.linalg.svd(patches, full_matrices=False)
        atoms = axes.T @ (scales[:, None] * atoms)
    return normalize(atoms, dim=0)
