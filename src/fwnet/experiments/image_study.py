"""Studies of networks on images: cases, and rows of PSNR, SSIM and learned p.

All networks of a table are trained by the same loop for the same number of steps. The learning rate
of each family of networks is the one with the best PSNR on held-out images after a shorter
training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fwnet.experiments.experiment import Lab, Result
from fwnet.experiments.image_training import Data, ImageTraining, Start, Task, network_tests
from fwnet.experiments.runs import Job, Record
from fwnet.experiments.study import Case, Measured, Settings, Tried, climb, measure_cases
from fwnet.models import ImageModel
from fwnet.restoration import Denoising, Recipe, Upscaling
from fwnet.training import DivergedError
from fwnet.zoo import load_model

PSNR, SSIM, LEARNED_P = "PSNR in dB", "SSIM", "learned p"
QUANTITIES = {PSNR: "psnr", SSIM: "ssim"}
Paper = dict[str, dict[Any, float]]  # PSNR by method, and by noise level or set of images
MIDDLE = 25  # the noise level at which learning rates are chosen
SEEDS = (1, 2, 3)
QUICK_SETTINGS: dict[str, Any] = {
    "num_epochs": 1,
    "batch_size": 8,
    "average": 0.9,
    "precision": "float32",
    "compile": False,
}


@dataclass(frozen=True, kw_only=True)
class ImageCase(Case):
    """A network that restores images.

    Attributes:
        name: Name in the table.
        task: Noise level on the scale 0 to 255, or scale factor.
        data: Images to learn from.
        model: Name of a model.
        options: Its arguments. Networks with `num_atoms` work on patches of 8 × 8.
        family: Case that the learning rate is chosen with; by default this one.
        tuning_epochs: Epochs of a training that helps to choose a learning rate.
        given: Settings of the training that differ from the recipe.
        start: Initial weights.
    """

    name: str
    task: Task
    data: Data
    model: str
    options: dict[str, Any]
    family: ImageCase | None = None
    tuning_epochs: int = 2
    given: Settings = field(default_factory=dict)
    start: Start = "random"

    @property
    def recipe(self) -> Recipe:
        """The recipe of the restoration."""
        return (Denoising if "sigma" in self.task else Upscaling).recipe

    def settings(
        self, lab: Lab, learning_rate: float, seed: int, num_epochs: int | None
    ) -> Settings:
        """Return the settings of a training, by the names of `TrainingConfig`."""
        config = {**self.recipe.networks.get(self.model, {}), **self.options}
        settings = {
            **self.recipe.fixed_settings(self.model, config),
            "average": self.recipe.average,
            "precision": "bf16",
            "compile": True,
            "learning_rate": learning_rate,
            **self.given,
        }
        if seed:
            settings["seed"] = seed
        if num_epochs is not None:
            settings["num_epochs"] = num_epochs
        return settings | QUICK_SETTINGS if lab.quick else settings

    def training(
        self, lab: Lab, learning_rate: float, seed: int = 0, num_epochs: int | None = None
    ) -> ImageTraining:
        """Return the training, without smaller copies and without tests."""
        settings = self.settings(lab, learning_rate, seed, num_epochs)
        on_patches = "num_atoms" in self.options
        small: dict[str, Any] = {"num_atoms": 64} if on_patches else {"channels": 8}
        if self.model == "SRCNN":
            small = {"channels": [8, 4]}
        return ImageTraining(
            task=self.task,
            data="small" if lab.quick else self.data,
            model=self.model,
            options={**self.options, **small} if lab.quick else self.options,
            settings=settings,
            crops_per_epoch=(4 if lab.quick else 1000) * settings["batch_size"],
            crop_size=8 if on_patches else 48,
            start=self.start,
        )

    def job(self, lab: Lab, settings: Settings, seed: int) -> ImageTraining:
        """Return the training with tests; with smaller copies for networks that enlarge."""
        training = self.training(lab, settings["learning_rate"], seed)
        return replace(training, smaller_copies="scale" in self.task, tested=True)

    @property
    def search_key(self) -> dict[str, Any]:
        """The method whose learning rate is chosen."""
        return {"method": (self.family or self).name}

    def search(self, lab: Lab) -> Tried:
        """Try learning rates of the family."""
        return climb(lab, lambda settings: (self.family or self).trial(lab, settings))

    def trial(self, lab: Lab, settings: Settings) -> ImageTraining:
        """Return a short training that helps to choose a learning rate."""
        return self.training(lab, settings["learning_rate"], num_epochs=self.tuning_epochs)

    def seeds(self, lab: Lab) -> Sequence[int]:
        """Return three seeds for four or five layers at the middle noise level, else one."""
        middle = self.task.get("sigma", MIDDLE) == MIDDLE
        several = middle and self.options.get("num_layers", 4) in (4, 5) and not lab.quick
        return SEEDS if several else SEEDS[:1]


@dataclass(frozen=True)
class ShippedTest(Job):
    """Test a network of the zoo.

    Attributes:
        name: Name of the network.
        sha256: Checksum of its file.
        task: Noise level on the scale 0 to 255, or scale factor.
        data: Whose test images.
    """

    name: str
    sha256: str
    task: Task
    data: Data

    def execute(self, device: torch.device) -> Record:
        """Return PSNR and SSIM on every set."""
        model = load_model(self.name, device)
        assert isinstance(model, ImageModel)
        return {"tests": network_tests(model, self.task, self.data, device)}


def image_study(
    cases: Sequence[ImageCase],
    paper: Paper | None = None,
    extra: Callable[[Lab, Result], None] | None = None,
) -> Callable[[Lab, Result], None]:
    """Return a function that trains and tests cases, then calls `extra`.

    A quick version has one case per name, and neither deep networks nor figures of the paper.
    """

    def measure(lab: Lab, result: Result) -> None:
        shallow = [case for case in cases if case.options.get("num_layers", 0) <= 5]
        first = {case.name: case for case in reversed(shallow)}
        wanted = list(first.values())[::-1] if lab.quick else cases
        for measured in measure_cases(lab, result, wanted):
            add_figures(result, measured, {} if lab.quick else paper)
        if extra is not None:
            extra(lab, result)

    return measure


def add_figures(result: Result, measured: Measured[ImageCase], paper: Paper | None = None) -> None:
    """Append PSNR and SSIM of a case on all test images, and the p that it learned."""
    case, records = measured.case, measured.records
    for record in records:
        if record["validation"] is None:
            raise DivergedError(f"{case.name} diverged: {record['diverged']}")
    add_tests(result, case.name, case.task, records, paper)
    exponents = [record["watched"].get("p") for record in records]
    if case.options.get("learn_p", True) and None not in exponents:
        place = place_of(case.task, records[0]["tests"][0])
        result.add(case.name, place, LEARNED_P, exponents)
    counts = ("num_parameters", "multiply_adds")
    result.details[case.name] = {key: records[0][key] for key in counts}


def add_tests(
    result: Result,
    name: str,
    task: Task,
    records: Sequence[Record],
    paper: Paper | None = None,
) -> None:
    """Append PSNR and SSIM of a method on every set of test images.

    Args:
        result: Where to append them.
        name: Name of the method.
        task: Noise level or scale factor.
        records: Records with tests, one per seed.
        paper: PSNR in the paper.
    """
    printed_here = (paper or {}).get(name, {})
    for tests in zip(*(record["tests"] for record in records), strict=True):
        place = place_of(task, tests[0])
        printed = printed_here.get(next(iter(place.values())))
        for quantity, key in QUANTITIES.items():
            values = [test[key] for test in tests]
            known = printed if quantity == PSNR else None
            result.add(name, dict(place), quantity, values, records, known)


def place_of(task: Task, test: Record) -> dict[str, Any]:
    """Return what a row depends on: the noise level, or the set of images."""
    return {"σ": task["sigma"]} if "sigma" in task else {"images": test["images"]}
