"""Networks that enlarge: images, trainings and cases.

Networks learn from the luma of the 91 images, or of those and 199 Berkeley images; every choice is
made on twelve other Berkeley images. They are tested on Set5 and Set14: the luma, cropped to
multiples of the scale, is shrunk bicubically, and the output of the network is compared with it in
8 bits, without a border of as many pixels as the scale.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch

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
from fwnet.experiments.experiment import Lab, Result
from fwnet.experiments.image_study import (
    ImageCase,
    ImageJob,
    add_tests,
    evaluate,
    figures_of,
    small_files,
)
from fwnet.experiments.runs import Job, Record
from fwnet.experiments.study import Settings
from fwnet.models import MODELS, ImageModel
from fwnet.restoration import Upscaling

# 199: without the Berkeley image that contains "woman" of Set5.
Data = Literal["t91", "t91+berkeley199", "small"]
SETS = ("Set5", "Set14")
SMALL_OUTPUT = {"output_gain": 0.1}  # residual networks start near bicubic enlargement


@lru_cache(maxsize=2)
def learning_images(data: Data) -> tuple[ImageSet, ImageSet]:
    """Return images to learn from, and images to choose settings with."""
    if data == "small":
        return read_luma_images(small_files()[0]).middles(240).split(1)
    files = t91_files()
    if data == "t91+berkeley199":
        files = [*files, *berkeley_training_files()]
    return read_luma_images(files), read_luma_images(berkeley_validation_files())


@lru_cache(maxsize=2)
def image_sets(data: Data) -> dict[str, ImageSet]:
    """Return images to test on, by the name of their set."""
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
        data: Images to learn from; "small" for pictures of scikit-image.
        smaller_copies: Whether it also learns from smaller copies of them.
        options: Arguments of the network. With a `scale` it sees the small image, else the
            enlarged one.
        scale: Scale factor of height and width.
        tested: Whether the network is tested; those that choose settings are not.
    """

    data: Data
    smaller_copies: bool = False
    scale: int = 3
    crops_per_epoch: int = 64_000
    tested: bool = False

    def restoration(self, network: ImageModel) -> Upscaling:
        """Return enlargement by the scale."""
        return Upscaling(self.scale, network.scale > 1, self.smaller_copies)

    def learning_images(self) -> tuple[ImageSet, ImageSet]:
        """Return images to learn from, and images to choose settings with."""
        return learning_images(self.data)

    def tests(self, network: ImageModel, device: torch.device) -> list[Record]:
        """Return figures on every set."""
        return upscaling_figures(network, self.data, self.scale, device) if self.tested else []

    def untrained(self, folder: Path | None) -> ImageModel:  # noqa: ARG002
        """Return the network with random weights."""
        kind: Any = MODELS[self.model]
        generator = keyed_generator(self.settings.get("seed", 0), "weights")
        network: ImageModel = kind(**self.options, generator=generator)
        return network


def upscaling_figures(
    model: ImageModel, data: Data, scale: int, device: torch.device
) -> list[Record]:
    """Return the figures of a network on every set of test images."""
    upscaling = Upscaling(scale, model.scale > 1)
    return [
        {"images": name, **evaluate(model, upscaling, images, device)}
        for name, images in image_sets(data).items()
    ]


@dataclass(frozen=True)
class Bicubic(Job):
    """Enlarge the test images bicubically.

    Attributes:
        data: Whose test images.
        scale: Scale factor of height and width.
    """

    data: Data
    scale: int = 3

    def execute(self, device: torch.device) -> Record:  # noqa: ARG002
        """Return PSNR and SSIM."""
        upscaling = Upscaling(self.scale)
        tests = [
            {
                "images": name,
                **figures_of(upscaling, images, lambda one: upscaling.baseline(one.degraded)),
            }
            for name, images in image_sets(self.data).items()
        ]
        return {"tests": tests}


@dataclass(frozen=True, kw_only=True)
class UpscalingCase(ImageCase):
    """A network that enlarges.

    Attributes:
        data: Images to learn from.
    """

    data: Data = "t91"
    recipe = Upscaling.recipe

    def training(
        self, lab: Lab, learning_rate: float, seed: int = 0, num_epochs: int | None = None
    ) -> UpscalingTraining:
        """Return the training by a factor of 3, without smaller copies and without tests."""
        settings = self.settings(lab, learning_rate, seed, num_epochs)
        small = {"channels": [8, 4] if self.model == "SRCNN" else 8}
        return UpscalingTraining(
            data="small" if lab.quick else self.data,
            model=self.model,
            options={**self.options, **small} if lab.quick else self.options,
            settings=settings,
            crops_per_epoch=(10 if lab.quick else 1000) * settings["batch_size"],
        )

    def job(self, lab: Lab, settings: Settings, seed: int) -> UpscalingTraining:
        """Return the training with smaller copies, and with tests."""
        training = self.training(lab, settings["learning_rate"], seed)
        return replace(training, smaller_copies=True, tested=True)

    def family_case(self) -> ImageCase:
        """Return the case that the learning rate is chosen with."""
        return FAMILIES[self.family]


def conv_fwnet(suffix: str, **options: Any) -> UpscalingCase:
    """Return our network of four layers, or one that differs from it."""
    name = f"Conv F-W Net (4 layers){suffix}"
    options = {"num_layers": 4, **SMALL_OUTPUT, **options}
    return UpscalingCase(name=name, model="ConvFWNet", options=options, family=name)


def fixed_exponent(p: float) -> UpscalingCase:
    """Return our network with a fixed p; it has the learning rate of the learned p."""
    options = {**OURS.options, "p": p, "learn_p": False}
    return replace(OURS, name=f"Conv F-W Net, fixed p = {p:g}", options=options)


def vdsr(num_layers: int, batch_norm: bool = False) -> UpscalingCase:
    """Return VDSR of a depth."""
    suffix = " + BN" if batch_norm else ""
    options = {"num_layers": num_layers, **SMALL_OUTPUT}
    return UpscalingCase(
        name=f"VDSR ({num_layers} layers){suffix}",
        model="VDSR",
        options=options | ({"batch_norm": True} if batch_norm else {}),
        family=f"VDSR (5 layers){suffix}",
    )


def srcnn(*kernel_sizes: int) -> UpscalingCase:
    """Return SRCNN with kernel sizes."""
    name = f"SRCNN ({'-'.join(map(str, kernel_sizes))})"
    options = {"kernel_sizes": list(kernel_sizes)}
    return UpscalingCase(name=name, model="SRCNN", options=options, family=name)


OURS = conv_fwnet("")
PLAIN = conv_fwnet(", authors' form", residual=False, eps=0.0, output_gain=1.0)
SUB_PIXEL = conv_fwnet(", sub-pixel", scale=3)
NO_SKIP = conv_fwnet(", no skip", skip=False)
FULL_STEPS = conv_fwnet(", γ = 1", step_sizes=[1.0] * 4, learn_step_sizes=False)
RELU = conv_fwnet(", ReLU", activation="relu")
DEEP = UpscalingCase(
    name="Conv F-W Net (19 layers), sub-pixel",
    model="ConvFWNet",
    options={"num_layers": 19, **SMALL_OUTPUT, "scale": 3},
    family="Conv F-W Net (19 layers), sub-pixel",
    data="t91+berkeley199",
)
FAMILIES = {
    case.name: case
    for case in (
        OURS,
        PLAIN,
        SUB_PIXEL,
        NO_SKIP,
        FULL_STEPS,
        RELU,
        vdsr(5),
        vdsr(5, batch_norm=True),
        srcnn(9, 1, 5),
        srcnn(9, 5, 5),
        DEEP,
    )
}


def with_paper(
    cases: list[UpscalingCase], paper: dict[str, tuple[float, ...]]
) -> list[UpscalingCase]:
    """Return cases with the figures of the paper on every set."""
    return [
        replace(case, paper=dict(zip(SETS, paper.get(case.name, ()), strict=False)))
        for case in cases
    ]


def add_bicubic(lab: Lab, result: Result) -> None:
    """Add the figures of bicubic enlargement."""
    (record,) = lab.runner.run([Bicubic("small" if lab.quick else "t91")])
    for test in record["tests"]:
        add_tests(result, "bicubic", {"images": test["images"]}, [test])
