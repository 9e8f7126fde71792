"""Networks that remove noise: images, trainings and cases.

Networks learn from the Berkeley images outside BSD68, a dozen of which are held back for every
choice; new noise is drawn at every step. They are tested on BSD68 with the same noise for all (one
seed per image, not clipped), and outputs are clipped to [0, 1].
"""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fwnet.data import ImageSet, berkeley_files, keyed_generator, read_images
from fwnet.experiments.experiment import Lab
from fwnet.experiments.image_study import SEEDS, ImageCase, ImageJob, evaluate, small_files
from fwnet.experiments.patch_denoiser import PatchDenoiser
from fwnet.experiments.runs import Record
from fwnet.experiments.study import Settings
from fwnet.models import MODELS, CodingNetwork, ImageModel, read_weights, write_weights
from fwnet.restoration import Denoising
from fwnet.solvers import ksvd

Data = Literal["berkeley", "small"]
Start = Literal["random", "random atoms", "pca", "ksvd"]
NUM_VALIDATION = {"berkeley": 12, "small": 1}
LEVELS = (15, 25, 50)
MIDDLE = 25  # the level at which learning rates are chosen
PATCH_SETTINGS: dict[str, Any] = {"num_epochs": 5, "batch_size": 4096, "compile": False}


@lru_cache(maxsize=4)
def images_of(data: Data, color: bool = False) -> tuple[ImageSet, ImageSet, ImageSet]:
    """Return images to learn from, to choose settings with, and to test on."""
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
        data: "berkeley", or "small" for pictures of scikit-image.
        model: Name of an image model, or of a coding network, which then works on patches.
        sigma: Noise level on the scale 0 to 255; two numbers are an interval.
        crop_size: Side of a crop or of a patch.
        start: Initial weights: random, or from a dictionary of patches.
        color: Whether images are in color.
        tested_at: Noise levels of the tests; none for a network that chooses settings.
    """

    data: Data
    sigma: float | list[float]
    crops_per_epoch: int = 128_000
    start: Start = "random"
    color: bool = False
    tested_at: list[float] = field(default_factory=list)

    def restoration(self, network: ImageModel) -> Denoising:
        """Return noise of the level, or of all levels between two."""
        levels = self.sigma if isinstance(self.sigma, list) else [self.sigma]
        noise = (levels[0] / 255, levels[-1] / 255)
        return Denoising(noise, network.noise_level_input, self.color)

    def learning_images(self) -> tuple[ImageSet, ImageSet]:
        """Return images to learn from, and images to choose settings with."""
        return images_of(self.data, self.color)[:2]

    def tests(self, network: ImageModel, device: torch.device) -> list[Record]:
        """Return figures at every noise level of the tests."""
        return [
            denoising_figures(network, self.data, level, device, self.color)
            for level in self.tested_at
        ]

    def untrained(self, folder: Path | None) -> ImageModel:
        """Return the network with random weights, or with those of a dictionary."""
        kind: Any = MODELS[self.model]
        if issubclass(kind, CodingNetwork):
            options = dict(self.options)
            atoms = self._atoms(folder, self.crop_size, options.pop("num_atoms"))
            coder = kind.from_dictionary(atoms, reconstruct=True, **options)
            return PatchDenoiser.on(coder, patch_size=self.crop_size)
        generator = keyed_generator(self.settings.get("seed", 0), "weights")
        options = {"in_channels": self.learning_images()[0].channels, **self.options}
        if self.start == "random":
            network = kind(**options, generator=generator)
        else:
            channels, size = options.pop("channels", 64), options.get("kernel_size", 3)
            atoms = self._atoms(folder, size, channels)
            network = kind.from_dictionary(atoms, generator=generator, **options)
        assert isinstance(network, ImageModel)
        return network

    def _atoms(self, folder: Path | None, size: int, count: int) -> Tensor:
        """Return the initial atoms; those of K-SVD take long and are kept in the folder."""
        if folder is None or self.start != "ksvd":
            return patch_atoms(self.data, self.color, self.start, size, count)
        kind = "color" if self.color else "gray"
        path = folder / f"{self.start}-{self.data}-{kind}-{size}-{count}.safetensors"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            atoms = patch_atoms(self.data, self.color, self.start, size, count)
            write_weights(path, {"atoms": atoms}, {})
        return read_weights(path)[0]["atoms"]


def denoising_figures(
    model: ImageModel, data: Data, level: float, device: torch.device, color: bool = False
) -> Record:
    """Return the figures of a network at a noise level on the scale 0 to 255."""
    noise = Denoising(level / 255, model.noise_level_input, color)
    return {"sigma": level, **evaluate(model, noise, images_of(data, color)[2], device)}


@lru_cache(maxsize=4)
def patch_atoms(data: Data, color: bool, start: Start, size: int, num_atoms: int) -> Tensor:
    """Return atoms of norm 1, (channel·size², m), for patches without their mean."""
    images, _, _ = images_of(data, color)
    count, rounds = (20_000, 12) if data == "berkeley" else (1_000, 2)
    patches = images.crops(4 * count, size, keyed_generator(0, "patches")).flatten(1)
    patches = patches - patches.mean(1, keepdim=True)
    patches = patches[patches.square().sum(1).argsort(descending=True)[:count]]  # no flat ones
    generator = keyed_generator(0, "atoms")
    if start == "ksvd":
        chosen, sparsity = (
            patches[torch.randperm(count, generator=generator)],
            3 if size <= 3 else 6,
        )
        options: dict[str, Any] = {"num_rounds": rounds, "batch_size": count // 2, "exact": False}
        return ksvd(chosen, num_atoms, sparsity, **options).dictionary
    atoms = torch.randn(patches.shape[1], num_atoms, generator=generator)
    if start == "pca":  # random atoms with the covariance of patches
        _, scales, axes = torch.linalg.svd(patches, full_matrices=False)
        atoms = axes.T @ (scales[:, None] * atoms)
    return normalize(atoms, dim=0)


@dataclass(frozen=True, kw_only=True)
class DenoisingCase(ImageCase):
    """A network at a noise level.

    Attributes:
        sigma: Noise level on the scale 0 to 255.
        start: Initial weights.
    """

    sigma: int = MIDDLE
    start: Start = "random"
    tuning_epochs: int = 3
    recipe = Denoising.recipe

    @property
    def on_patches(self) -> bool:
        """Whether it works on patches of 8 × 8, like the networks with full matrices."""
        return "num_atoms" in self.options

    def training(
        self, lab: Lab, learning_rate: float, seed: int = 0, num_epochs: int | None = None
    ) -> DenoisingTraining:
        """Return the training, without tests."""
        settings = self.settings(lab, learning_rate, seed, num_epochs)
        small = {"num_atoms": 64} if self.on_patches else {"channels": 8}
        return DenoisingTraining(
            data="small" if lab.quick else "berkeley",
            model=self.model,
            options={**self.options, **small} if lab.quick else self.options,
            sigma=self.sigma,
            settings=settings,
            crop_size=8 if self.on_patches else 48,
            crops_per_epoch=(10 if lab.quick else 1000) * settings["batch_size"],
            start=self.start,
        )

    def job(self, lab: Lab, settings: Settings, seed: int) -> DenoisingTraining:
        """Return the training, with a test at its noise level."""
        training = self.training(lab, settings["learning_rate"], seed)
        return replace(training, tested_at=[self.sigma])

    def family_case(self) -> ImageCase:
        """Return the case of the family at the middle level."""
        return FAMILIES[self.family]

    def seeds(self, lab: Lab) -> tuple[int, ...]:
        """Return three seeds for networks of four or five layers in the middle, else one."""
        several = self.sigma == MIDDLE and self.options["num_layers"] in (4, 5)
        return SEEDS if several and not lab.quick else SEEDS[:1]


def conv_fwnet(num_layers: int) -> DenoisingCase:
    """Return our network of a depth."""
    return DenoisingCase(
        name=f"Conv F-W Net ({num_layers} layers)",
        model="ConvFWNet",
        options={"num_layers": num_layers},
        family=f"Conv F-W Net ({4 if num_layers <= 4 else 16} layers)",
        tuning_epochs=3 if num_layers <= 4 else 2,
    )


def dncnn(num_layers: int, batch_norm: bool = True) -> DenoisingCase:
    """Return DnCNN of a depth."""
    suffix = "" if batch_norm else ", w/o BN"
    # With batch normalization the first outputs would be far too large.
    changes = {"output_gain": 0.1} if batch_norm else {"batch_norm": False}
    return DenoisingCase(
        name=f"DnCNN ({num_layers} layers{suffix})",
        model="DnCNN",
        options={"num_layers": num_layers, **changes},
        family=f"DnCNN (5 layers{suffix})" if num_layers <= 5 else "DnCNN (17 layers)",
        tuning_epochs=3 if num_layers <= 5 else 2,
    )


def fc_network(model: str, name: str, num_layers: int = 4, **options: Any) -> DenoisingCase:
    """Return a network with full matrices on patches."""
    return DenoisingCase(
        name=name,
        model=model,
        options={"num_layers": num_layers, "num_atoms": 512, **options},
        family=f"FC {'LISTA' if model == 'LISTA' else 'F-W Net'} (4 layers)",
        start="ksvd",
        tuning_epochs=5,
        given=PATCH_SETTINGS,
    )


def fc_fwnet(num_layers: int) -> DenoisingCase:
    """Return F-W Net on patches."""
    return fc_network("FWNet", f"FC F-W Net ({num_layers} layers)", num_layers, p=1.5)


def fc_fixed(p: float) -> DenoisingCase:
    """Return F-W Net of four layers on patches with a fixed p."""
    return fc_network("FWNet", f"FC F-W Net, fixed p = {p:g}", p=p, learn_p=False)


def fc_lista(num_layers: int) -> DenoisingCase:
    """Return LISTA on patches."""
    return fc_network("LISTA", f"FC LISTA ({num_layers} layers)", num_layers, threshold=0.01)


CONV_LISTA = DenoisingCase(
    name="Conv LISTA (4 layers)",
    model="ConvLISTA",
    options={"num_layers": 4, "threshold": 0.1},
    family="Conv LISTA (4 layers)",
)
PLAIN = DenoisingCase(
    name="Conv F-W Net (4 layers), authors' form",
    model="ConvFWNet",
    options={"num_layers": 4, "residual": False, "eps": 0.0},
    family="Conv F-W Net (4 layers), authors' form",
)
FAMILIES = {
    case.name: case
    for case in (
        conv_fwnet(4),
        conv_fwnet(16),
        PLAIN,
        CONV_LISTA,
        dncnn(5),
        dncnn(5, batch_norm=False),
        dncnn(17),
        fc_fwnet(4),
        fc_lista(4),
    )
}


def at_levels(
    cases: list[DenoisingCase], paper: dict[str, tuple[float, ...]] | None = None
) -> list[DenoisingCase]:
    """Return cases at all noise levels, with the figures of the paper."""
    return [
        replace(
            case,
            sigma=sigma,
            paper=dict(zip(LEVELS, (paper or {}).get(case.name, ()), strict=False)),
        )
        for case in cases
        for sigma in LEVELS
    ]
