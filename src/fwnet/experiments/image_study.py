"""Studies of networks on images: cases, trainings, tests and rows, for any restoration.

All networks of a table are trained by the same loop for the same number of steps. The learning rate
of each family of networks is the one with the best PSNR on held-back images after a shorter
training.
"""

from __future__ import annotations

import statistics
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from fwnet.data import ImageSet
from fwnet.experiments.experiment import Lab, Result
from fwnet.experiments.runs import Job, Record
from fwnet.experiments.study import Case, Climb, Measured, Settings, measure_cases
from fwnet.hardware import hardware_name
from fwnet.metrics import as_displayed, psnr, shave, ssim
from fwnet.models import ImageModel, load_model
from fwnet.restoration import Example, Recipe, Restoration
from fwnet.training import (
    DivergedError,
    RestorationTask,
    TrainingConfig,
    TrainingRun,
    decibels,
    train,
)

PSNR, SSIM, LEARNED_P = "PSNR in dB", "SSIM", "learned p"
QUANTITIES = {PSNR: "psnr", SSIM: "ssim"}
SEEDS = (1, 2, 3)
QUICK_SETTINGS: dict[str, Any] = {
    "num_epochs": 1,
    "batch_size": 8,
    "average": 0.9,
    "precision": "float32",
    "compile": False,
}
LEARN, TEST = ("chelsea", "coffee", "rocket", "brick"), ("camera", "astronaut")


@dataclass(frozen=True, kw_only=True)
class ImageJob(Job):
    """Train a network on images; test it, or validate it.

    Attributes:
        data: Which images; "small" for pictures of scikit-image.
        model: Name of a model.
        options: Its arguments.
        settings: Arguments of `TrainingConfig`.
        crop_size: Side of a crop.
        crops_per_epoch: Number of crops of an epoch.
        parent: Key of the training whose network this one starts from.
    """

    data: str
    model: str
    options: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    crop_size: int = 48
    crops_per_epoch: int
    parent: str | None = None

    @abstractmethod
    def untrained(self, folder: Path | None) -> ImageModel:
        """Return the network with its initial weights, without those of a parent."""

    @abstractmethod
    def restoration(self, network: ImageModel) -> Restoration:
        """Return what the network learns."""

    @abstractmethod
    def learning_images(self) -> tuple[ImageSet, ImageSet]:
        """Return images to learn from, and images to choose settings with."""

    @abstractmethod
    def tests(self, network: ImageModel, device: torch.device) -> list[Record]:
        """Return figures on test images; none for a network that chooses settings."""

    def task(self, network: ImageModel) -> RestorationTask:
        """Return the task of the training."""
        return RestorationTask(
            self.restoration(network),
            *self.learning_images(),
            crop_size=self.crop_size,
            crops_per_epoch=self.crops_per_epoch,
        )

    def network(self, folder: Path | None) -> ImageModel:
        """Return the network before training."""
        network: Any = self.untrained(folder)
        if self.parent is not None:
            if folder is None:
                raise ValueError("a training that starts from another one needs its weights")
            network.adopt(load_model(folder / self.parent / "model.safetensors"))
        assert isinstance(network, ImageModel)
        return network

    def execute(self, device: torch.device) -> Record:
        """Train without keeping the weights."""
        return self.execute_in(None, device)

    def execute_in(self, folder: Path | None, device: torch.device) -> Record:
        """Return PSNR on held-back images and, of a network that is tested, on test images."""
        network = self.network(folder)
        record: Record = {"hardware": f"{hardware_name(device)}, torch {torch.__version__}"}
        where = None if folder is None else folder / self.key
        config = TrainingConfig(**self.settings)
        run = TrainingRun(device=device, folder=where, resume=True)
        try:
            result = train(network, self.task(network), config, run)
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
            "tests": self.tests(network, device),
        }
        if "p" in record["watched"]:
            record["p_by_epoch"] = [epoch["p"] for epoch in history]
        return record


@dataclass(frozen=True, kw_only=True)
class ImageCase(Case):
    """A network that restores images.

    Attributes:
        name: Name in the table.
        model: Name of a model.
        options: Its arguments.
        family: Name of the case that the learning rate is chosen with.
        tuning_epochs: Epochs of a training that helps to choose a learning rate.
        given: Settings of the training that differ from the recipe.
        paper: Figures of the paper, by noise level or by set of images.
        recipe: Recipe of the restoration.
    """

    name: str
    model: str
    options: dict[str, Any]
    family: str
    tuning_epochs: int = 2
    given: Settings = field(default_factory=dict)
    paper: dict[Any, float] = field(default_factory=dict)
    recipe: ClassVar[Recipe]

    @abstractmethod
    def training(
        self, lab: Lab, learning_rate: float, seed: int = 0, num_epochs: int | None = None
    ) -> ImageJob:
        """Return the training, without tests."""

    @abstractmethod
    def family_case(self) -> ImageCase:
        """Return the case that the learning rate is chosen with."""

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

    def search(self, lab: Lab) -> tuple[dict[str, Any], Climb]:
        """Return the search for the learning rate of the family."""
        case = self.family_case()

        def trial(settings: Settings) -> ImageJob:
            return case.training(lab, settings["learning_rate"], num_epochs=case.tuning_epochs)

        return {"method": self.family}, Climb(trial)

    def seeds(self, lab: Lab) -> Sequence[int]:
        """Return three seeds, or one for a quick look."""
        return SEEDS[:1] if lab.quick else SEEDS


def image_study(
    cases: Sequence[ImageCase], extra: Callable[[Lab, Result], None] | None = None
) -> Callable[[Lab, Result], None]:
    """Return a function that trains and tests cases, and measures what else there is.

    A quick version has one case per name, and no deep networks.
    """

    def measure(lab: Lab, result: Result) -> None:
        shallow = [case for case in cases if case.options.get("num_layers", 0) <= 5]
        first = {case.name: case for case in reversed(shallow)}
        wanted = list(first.values())[::-1] if lab.quick else cases
        for measured in measure_cases(lab, result, wanted):
            add_figures(result, measured, with_paper=not lab.quick)
        if extra is not None:
            extra(lab, result)

    return measure


def add_figures(result: Result, measured: Measured[Any], with_paper: bool = True) -> None:
    """Append PSNR and SSIM of a case on all test images, and the p that it learned."""
    case, records = measured.case, measured.records
    for record in records:
        if record["validation"] is None:
            raise DivergedError(f"{case.name} diverged: {record['diverged']}")
    for index, test in enumerate(records[0]["tests"]):
        tests = [record["tests"][index] for record in records]
        place = place_of(test)
        paper = case.paper.get(next(iter(place.values()))) if with_paper else None
        add_tests(result, case.name, place, tests, records, paper)
        exponents = [record["watched"].get("p") for record in records]
        learns_p = case.options.get("learn_p", True) and None not in exponents
        if learns_p and index == 0:
            result.add(case.name, place, LEARNED_P, exponents)
    counts = ("num_parameters", "multiply_adds")
    result.curves[case.name] = {key: records[0][key] for key in counts}


def add_tests(
    result: Result,
    name: str,
    place: dict[str, Any],
    tests: Sequence[Record],
    records: Sequence[Record] = (),
    paper: float | None = None,
) -> None:
    """Append PSNR and SSIM of a method."""
    for quantity, key in QUANTITIES.items():
        printed = paper if quantity == PSNR else None
        result.add(name, dict(place), quantity, [test[key] for test in tests], records, printed)


def place_of(test: Record) -> dict[str, Any]:
    """Return what a test depends on: the set of images, or the noise level."""
    return {"images": test["images"]} if "images" in test else {"σ": test["sigma"]}


@contextmanager
def in_full_precision(model: ImageModel) -> Iterator[None]:
    """Multiply in float32, not in TF32, while a network is tested."""
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def evaluate(
    model: ImageModel, restoration: Restoration, images: ImageSet, device: torch.device
) -> Record:
    """Return the figures of a network on test images."""

    def network(x: Tensor, *sigma: float) -> Tensor:
        y: Tensor = model(x.to(device, torch.float32), *sigma)
        return y.cpu()

    with in_full_precision(model), torch.inference_mode():
        return figures_of(
            restoration,
            images,
            lambda example: restoration.restore(network, example.degraded, example.sigma),
        )


def figures_of(
    restoration: Restoration, images: ImageSet, restore: Callable[[Example], Tensor]
) -> Record:
    """Return mean PSNR and SSIM of restored images, and PSNR by image.

    Enlarged images are compared with 8 bits, without a border of as many pixels as the scale.
    """
    values = []
    for index in range(len(images)):
        for example in restoration.examples(images[index], index):
            pair = restore(example).float(), example.wanted
            if restoration.scale > 1:
                restored, wanted = as_displayed(pair[0]), pair[1]
                pair = shave(restored, restoration.scale), shave(wanted, restoration.scale)
            values.append((psnr(*pair).item(), ssim(*pair).item()))
    ratios, similarities = zip(*values, strict=True)
    return {
        "psnr": statistics.fmean(ratios),
        "ssim": statistics.fmean(similarities),
        "psnr_by_image": [round(value, 3) for value in ratios],
    }


def small_files() -> tuple[list[Path], list[Path]]:
    """Return pictures of scikit-image, to learn from and to test on, for quick versions."""
    import skimage.data

    folder = Path(skimage.data.__file__).parent
    learn, test = ([next(folder.glob(f"{name}.*")) for name in part] for part in (LEARN, TEST))
    return learn, test
