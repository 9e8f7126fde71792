"""What the experiments on denoising share: images, networks, trainings, tests.

The protocol: networks learn from the Berkeley images outside BSD68, a dozen of which are held back
for every choice; noise is drawn anew at every step. All networks of a table are trained by the
same loop for the same number of steps; the learning rate of each kind of network is the one with
the best PSNR on the held-back images after a shorter training. They are tested on BSD68 with the
same noise for all (one seed an image, not clipped), outputs clipped to [0, 1].
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fwnet.data import ImageSet, berkeley_files, keyed_generator, noisy, read_images
from fwnet.experiments.experiment import Lab, Result
from fwnet.experiments.image_figures import add_rows, finished
from fwnet.experiments.learning_rates import learning_rates
from fwnet.experiments.runs import Job, Record
from fwnet.hardware import hardware_name
from fwnet.metrics import psnr, ssim
from fwnet.models import (
    MODELS,
    CodingNetwork,
    ImageModel,
    PatchDenoiser,
    load_model,
    read_weights,
    write_weights,
)
from fwnet.training import (
    DENOISING_RECIPE,
    Denoising,
    DivergedError,
    TrainingConfig,
    decibels,
    train,
)

__all__ = ["DenoisingTraining", "evaluate", "images_of"]

Data = Literal["berkeley", "small"]
Start = Literal["random", "random atoms", "pca", "ksvd"]
NUM_VALIDATION = {"berkeley": 12, "small": 1}
SMALL = ("chelsea", "coffee", "rocket", "brick"), ("camera", "astronaut")  # of scikit-image


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
        learn, test = learn.middles(256), test.middles(64)
    kept, held = learn.split(NUM_VALIDATION[data])
    return kept, held if data == "berkeley" else held.middles(64), test


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
        if folder is None or self.start != "ksvd":
            return patch_atoms(self.data, self.color, self.start, size, count)
        kind = "color" if self.color else "gray"
        path = folder / f"{self.start}-{self.data}-{kind}-{size}-{count}.safetensors"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            atoms = patch_atoms(self.data, self.color, self.start, size, count)
            write_weights(path, {"atoms": atoms}, {})
        return read_weights(path)[0]["atoms"]

    def _levels(self) -> list[float]:
        return self.sigma if isinstance(self.sigma, list) else [self.sigma]


def evaluate(model: ImageModel, images: ImageSet, level: float, device: torch.device) -> Record:
    """PSNR and SSIM of a network, in full float32."""
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        return measured_on(images, level, lambda x: denoise_with(model, x, level / 255), device)
    finally:
        torch.backends.cudnn.allow_tf32 = before


def measured_on(
    images: ImageSet, level: float, method: Callable[[Tensor], Tensor], device: torch.device
) -> Record:
    """PSNR and SSIM of a method, one noisy image at a time."""
    values: list[tuple[float, float]] = []
    for index in range(len(images)):
        clean = images[index]
        denoised = method(noisy(clean, level / 255, index).to(device)).cpu()
        values.append((psnr(denoised, clean).item(), ssim(denoised, clean).item()))
    ratios, similarities = zip(*values, strict=True)
    return {
        "sigma": level,
        "psnr": statistics.fmean(ratios),
        "ssim": statistics.fmean(similarities),
        "psnr_by_image": [round(value, 3) for value in ratios],
    }


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


@dataclass(frozen=True)
class Network:
    """One of the networks that are compared.

    Attributes:
        name: As in the table.
        model: The name of a model.
        options: Its arguments.
        family: The networks that share a learning rate: the name of the one that it is chosen with.
        start: Where weights come from.
        tuning_epochs: How long a training is that helps to choose a learning rate.
    """

    name: str
    model: str
    options: dict[str, Any]
    family: str
    start: Start = "random"
    tuning_epochs: int = 3

    @property
    def on_patches(self) -> bool:
        """Whether it works on patches of 8 × 8, as the networks with full matrices do."""
        return issubclass(MODELS[self.model], CodingNetwork)

    def job(
        self,
        lab: Lab,
        sigma: float | list[float],
        learning_rate: float,
        seed: int = 0,
        *,
        num_epochs: int | None = None,
        tested_at: Sequence[float] = (),
        parent: DenoisingTraining | None = None,
        color: bool = False,
    ) -> DenoisingTraining:
        """Its training at a noise level."""
        settings = {**SETTINGS, "learning_rate": learning_rate}
        if self.on_patches:
            settings |= PATCH_SETTINGS
        if seed:
            settings["seed"] = seed
        if num_epochs is not None:
            settings["num_epochs"] = num_epochs
        steps, options = STEPS_PER_EPOCH, self.options
        if lab.quick:
            settings |= QUICK_SETTINGS
            steps = QUICK_STEPS_PER_EPOCH
            options = {**options, **({"num_atoms": 64} if self.on_patches else {"channels": 8})}
        return DenoisingTraining(
            "small" if lab.quick else "berkeley",
            self.model,
            options,
            sigma,
            settings,
            crop_size=8 if self.on_patches else 48,
            crops_per_epoch=steps * settings["batch_size"],
            start=self.start,
            parent=None if parent is None else parent.key,
            color=color,
            tested_at=list(tested_at),
        )


SETTINGS: dict[str, Any] = {
    **DENOISING_RECIPE.settings,
    "average": DENOISING_RECIPE.average,
    "precision": "bf16",
    "compile": True,
}
PATCH_SETTINGS: dict[str, Any] = {"num_epochs": 5, "batch_size": 4096, "compile": False}
QUICK_SETTINGS: dict[str, Any] = {
    "num_epochs": 1,
    "batch_size": 16,
    "average": 0.9,
    "precision": "float32",
    "compile": False,
}
STEPS_PER_EPOCH, QUICK_STEPS_PER_EPOCH = 1000, 10
LEVELS = (15, 25, 50)
MIDDLE = 25  # where learning rates are chosen
SEEDS = (1, 2, 3)


def conv_fwnet(num_layers: int) -> Network:
    """Our network, of a depth."""
    family = "Conv F-W Net (4 layers)" if num_layers <= 4 else "Conv F-W Net (16 layers)"
    return Network(
        f"Conv F-W Net ({num_layers} layers)",
        "ConvFWNet",
        {"num_layers": num_layers},
        family,
        tuning_epochs=3 if num_layers <= 4 else 2,
    )


def dncnn(num_layers: int, batch_norm: bool = True) -> Network:
    """DnCNN, of a depth."""
    shallow = f"DnCNN (5 layers{'' if batch_norm else ', w/o BN'})"
    return Network(
        f"DnCNN ({num_layers} layers{'' if batch_norm else ', w/o BN'})",
        "DnCNN",
        # With batch normalization the output would be far too large at first.
        {"num_layers": num_layers}
        | ({"output_gain": 0.1} if batch_norm else {"batch_norm": False}),
        shallow if num_layers <= 5 else "DnCNN (17 layers)",
        tuning_epochs=3 if num_layers <= 5 else 2,
    )


def fc_fwnet(num_layers: int, p: float | None = None) -> Network:
    """The network with full matrices on patches; p is learned unless it is given."""
    options: dict[str, Any] = {"num_layers": num_layers, "num_atoms": 512, "p": p or 1.5}
    if p is not None:
        options["learn_p"] = False
    name = f"FC F-W Net ({num_layers} layers)" if p is None else f"FC F-W Net, fixed p = {p:g}"
    return Network(name, "FWNet", options, "FC F-W Net (4 layers)", "ksvd", tuning_epochs=5)


def fc_lista(num_layers: int) -> Network:
    """LISTA on patches."""
    options = {"num_layers": num_layers, "num_atoms": 512, "threshold": 0.01}
    name = f"FC LISTA ({num_layers} layers)"
    return Network(name, "LISTA", options, "FC LISTA (4 layers)", "ksvd", tuning_epochs=5)


CONV_LISTA = Network(
    "Conv LISTA (4 layers)",
    "ConvLISTA",
    {"num_layers": 4, "threshold": 0.1},
    "Conv LISTA (4 layers)",
)
PLAIN = Network(
    "Conv F-W Net (4 layers), authors' form",
    "ConvFWNet",
    {"num_layers": 4, "residual": False, "eps": 0.0},
    "Conv F-W Net (4 layers), authors' form",
)
FAMILIES = {
    network.name: network
    for network in (
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


def learning_rates_of(lab: Lab, result: Result, families: Sequence[str]) -> dict[str, float]:
    """The learning rate of each family, chosen in the middle."""

    def trial(network: Network) -> Callable[[float], Job]:
        return lambda rate: network.job(lab, MIDDLE, rate, num_epochs=network.tuning_epochs)

    return learning_rates(lab, result, {name: trial(FAMILIES[name]) for name in families})


def table_networks() -> list[Network]:
    """Those of the table, and some that it should have had."""
    return [
        fc_lista(4),
        fc_lista(8),
        fc_fwnet(4),
        fc_fwnet(8),
        dncnn(4),
        dncnn(4, batch_norm=False),
        dncnn(5),
        dncnn(5, batch_norm=False),
        CONV_LISTA,
        PLAIN,
        conv_fwnet(4),
    ]


def seeds_at(lab: Lab, network: Network, sigma: float) -> tuple[int, ...]:
    """Three seeds for the networks of four layers (or five) in the middle; one elsewhere."""
    several = sigma == MIDDLE and network.options["num_layers"] in (4, 5)
    return SEEDS if several and not lab.quick else SEEDS[:1]


def final_jobs(
    lab: Lab, network: Network, sigma: float, rates: dict[str, float]
) -> list[DenoisingTraining]:
    """Trainings that are tested, one a seed."""
    return [
        network.job(lab, sigma, rates[network.family], seed, tested_at=[sigma])
        for seed in seeds_at(lab, network, sigma)
    ]


def measure_networks(
    lab: Lab,
    result: Result,
    networks: Sequence[Network],
    levels: Sequence[float],
    paper: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Choose learning rates, train every network at every level, and put what came into rows.

    paper: The printed figures of a network, one a level.
    """
    rates = learning_rates_of(lab, result, sorted({network.family for network in networks}))
    jobs = {
        (network.name, sigma): final_jobs(lab, network, sigma, rates)
        for network in networks
        for sigma in levels
    }
    if not lab.runner.finished_only:  # all at once, so that many can work on them
        lab.runner.run([job for listed in jobs.values() for job in listed])
    for network in networks:
        printed = (paper or {}).get(network.name, [None] * len(levels))
        for sigma, figure in zip(levels, printed, strict=True):
            add_rows(
                result,
                network.name,
                {"σ": sigma},
                finished(lab, jobs[network.name, sigma]),
                paper=figure,
                learns_p=network.options.get("learn_p", True),
            )
