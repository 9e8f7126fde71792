"""What the experiments on super-resolution share: images, networks, trainings, tests.

The protocol: networks learn from the luma of the 91 images, or of those and 200 Berkeley images;
every choice is made on twelve other Berkeley images. They are tested on Set5 and Set14: the luma,
cropped to multiples of the scale, is shrunk bicubically, and the network's output, rounded to 8
bits, is compared with it where its border, as many pixels as the scale, is left out.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from matplotlib.figure import Figure
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
from fwnet.experiments.experiment import Lab, Result, row_of
from fwnet.experiments.image_figures import PSNR, SSIM, add_rows, is_above, psnr_row
from fwnet.experiments.learning_rates import learning_rates
from fwnet.experiments.pictures import bars, new_figure
from fwnet.experiments.runs import Job, Record
from fwnet.hardware import hardware_name
from fwnet.metrics import as_displayed, psnr, shave, ssim
from fwnet.models import MODELS, ImageModel, load_model
from fwnet.training import (
    UPSCALING_RECIPE,
    DivergedError,
    SuperResolution,
    TrainingConfig,
    decibels,
    train,
)
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


@dataclass(frozen=True)
class Network:
    """One of the networks that are compared.

    Attributes:
        name: As in the table.
        model: The name of a model.
        options: Its arguments.
        family: The networks that share a learning rate: the name of the one that it is chosen with.
    """

    name: str
    model: str
    options: dict[str, Any]
    family: str

    def job(
        self,
        lab: Lab,
        learning_rate: float,
        seed: int = 0,
        *,
        data: Data = "t91",
        scale: int = 3,
        num_epochs: int | None = None,
        crop_size: int = 48,
        parent: UpscalingTraining | None = None,
        tested: bool = False,
    ) -> UpscalingTraining:
        """Its training."""
        settings = {**SETTINGS, "learning_rate": learning_rate}
        if seed:
            settings["seed"] = seed
        if num_epochs is not None:
            settings["num_epochs"] = num_epochs
        steps, options = STEPS_PER_EPOCH, self.options
        if "scale" in options:
            options = {**options, "scale": scale}
        if lab.quick:
            settings |= QUICK_SETTINGS
            steps, data = QUICK_STEPS_PER_EPOCH, "small"
            options = {**options, "channels": [8, 4] if self.model == "SRCNN" else 8}
        return UpscalingTraining(
            data,
            self.model,
            options,
            scale,
            settings,
            crop_size=crop_size,
            crops_per_epoch=steps * settings["batch_size"],
            parent=None if parent is None else parent.key,
            tested=tested,
        )


SETTINGS: dict[str, Any] = {
    **UPSCALING_RECIPE.settings,
    "average": UPSCALING_RECIPE.average,
    "precision": "bf16",
    "compile": True,
}
QUICK_SETTINGS: dict[str, Any] = {
    "num_epochs": 1,
    "batch_size": 8,
    "average": 0.9,
    "precision": "float32",
    "compile": False,
}
STEPS_PER_EPOCH, QUICK_STEPS_PER_EPOCH = 1000, 10
TUNING_EPOCHS = 2
SEEDS = (1, 2, 3)
SETS = ("Set5", "Set14")
SMALL_OUTPUT = {"output_gain": 0.1}  # residual networks begin near bicubic enlargement


def conv_fwnet(name: str, **options: Any) -> Network:
    """Our network of four layers, or one that differs from it."""
    title = f"Conv F-W Net (4 layers){name}"
    return Network(title, "ConvFWNet", {"num_layers": 4, **SMALL_OUTPUT, **options}, title)


def fixed_exponent(p: float) -> Network:
    """Our network with a p that is not learned; its learning rate is that of the learned one."""
    options = {**OURS.options, "p": p, "learn_p": False}
    return Network(f"Conv F-W Net, fixed p = {p:g}", "ConvFWNet", options, OURS.name)


def vdsr(num_layers: int, batch_norm: bool = False) -> Network:
    """VDSR, of a depth."""
    suffix = " + BN" if batch_norm else ""
    options = {"num_layers": num_layers, **SMALL_OUTPUT}
    options |= {"batch_norm": True} if batch_norm else {}
    return Network(
        f"VDSR ({num_layers} layers){suffix}", "VDSR", options, f"VDSR (5 layers){suffix}"
    )


def srcnn(*kernel_sizes: int) -> Network:
    """SRCNN, of kernel sizes."""
    sizes = "-".join(map(str, kernel_sizes))
    options = {"kernel_sizes": list(kernel_sizes)}
    return Network(f"SRCNN ({sizes})", "SRCNN", options, "SRCNN (9-5-5)")


OURS = conv_fwnet("")
PLAIN = conv_fwnet(", authors' form", residual=False, eps=0.0, output_gain=1.0)
SUB_PIXEL = conv_fwnet(", sub-pixel", scale=3)
NO_SKIP = conv_fwnet(", no skip", skip=False)
FULL_STEPS = conv_fwnet(", γ = 1", step_sizes=[1.0] * 4, learn_step_sizes=False)
RELU = conv_fwnet(", ReLU", activation="relu")
FIXED = [fixed_exponent(p) for p in (1.3, 1.5, 1.8, 2.3, 2.5)]
DEEP = Network(
    "Conv F-W Net (19 layers), sub-pixel",
    "ConvFWNet",
    {"num_layers": 19, **SMALL_OUTPUT, "scale": 3},
    "Conv F-W Net (19 layers), sub-pixel",
)
FAMILIES = {
    network.name: network
    for network in (
        OURS,
        PLAIN,
        SUB_PIXEL,
        NO_SKIP,
        FULL_STEPS,
        RELU,
        vdsr(5),
        vdsr(5, batch_norm=True),
        srcnn(9, 5, 5),
        DEEP,
    )
}


def learning_rates_of(lab: Lab, result: Result, families: Sequence[str]) -> dict[str, float]:
    """The learning rate of each family."""

    def trial(network: Network) -> Callable[[float], Job]:
        data: Data = "t91+berkeley" if network is DEEP else "t91"
        return lambda rate: network.job(lab, rate, data=data, num_epochs=TUNING_EPOCHS)

    return learning_rates(lab, result, {name: trial(FAMILIES[name]) for name in families})


def final_jobs(lab: Lab, network: Network, rates: dict[str, float]) -> list[UpscalingTraining]:
    """Trainings that are tested, one a seed."""
    seeds = SEEDS[:1] if lab.quick else SEEDS
    return [network.job(lab, rates[network.family], seed, tested=True) for seed in seeds]


def measure_networks(
    lab: Lab,
    result: Result,
    networks: Sequence[Network],
    paper: Mapping[str, Sequence[float | None]] | None = None,
) -> None:
    """Choose learning rates, train every network on 91 images, and put what came into rows.

    paper: The printed figures of a network, one a set of test images.
    """
    rates = learning_rates_of(lab, result, sorted({network.family for network in networks}))
    jobs = {network.name: final_jobs(lab, network, rates) for network in networks}
    lab.runner.run([job for listed in jobs.values() for job in listed])  # many work on them
    for network in networks:
        printed = (paper or {}).get(network.name, [None] * len(SETS))
        records = lab.runner.run(jobs[network.name])
        for index, name in enumerate(test_sets(lab)):
            add_rows(
                result,
                network.name,
                {"images": name},
                records,
                test=index,
                paper=printed[index],
                learns_p=network.options.get("learn_p", True),
            )


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
        tests = [
            {
                "images": name,
                **measured_on(images, self.scale, lambda x: degraded(x, self.scale, False)),
            }
            for name, images in test_images(self.data).items()
        ]
        return {"tests": tests}


def add_bicubic(lab: Lab, result: Result, scale: int = 3) -> None:
    """The figures of bicubic enlargement."""
    (record,) = lab.runner.run([Bicubic("small" if lab.quick else "t91", scale)])
    for test in record["tests"]:
        for quantity, key in ((PSNR, "psnr"), (SSIM, "ssim")):
            setting = {"images": test["images"]}
            result.rows.append(row_of("bicubic", setting, quantity, [test[key]]))


def draw_bars(result: Result) -> Figure:
    """PSNR of all methods, a panel a set of images."""
    names = list(dict.fromkeys(row.setting["images"] for row in result.rows))
    figure, axes = new_figure(columns=len(names), width=5.6)
    for axis, name in zip(axes if len(names) > 1 else [axes], names, strict=True):
        rows = [r for r in result.rows if r.quantity == PSNR and r.setting["images"] == name]
        bars(
            axis,
            rows,
            lambda row: "F-W" in row.method,
            xlabel="PSNR in dB (crosses: the paper)",
            title=f"{name} × 3",
        )
    return figure


def psnr_of(result: Result, name: str) -> str:
    """The PSNR of a method on every set, with its spread."""
    parts = []
    for images in dict.fromkeys(row.setting["images"] for row in result.rows):
        row = psnr_row(result, name, images=images)
        if row is not None:
            spread = "" if row.spread is None else f" ± {row.spread:.2f}"
            parts.append(f"{row.ours:.2f}{spread}")
    return " / ".join(parts)


def is_better(result: Result, ours: str, theirs: str) -> bool:
    """Whether one network has a higher PSNR than another on every set."""
    sets = dict.fromkeys(row.setting["images"] for row in result.rows)
    pairs = [[psnr_row(result, name, images=one) for name in (ours, theirs)] for one in sets]
    return all(is_above(*pair) for pair in pairs)


def test_sets(lab: Lab) -> Sequence[str]:
    """What networks are tested on."""
    return ("small",) if lab.quick else SETS
