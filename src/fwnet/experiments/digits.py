"""Networks on handwritten digits: features, structured codes, cases and jobs.

Images with pixels in [0, 1] are reduced to 128 numbers by PCA. D holds the leading 15 singular
vectors of every digit (PCA of the digit alone, not centered, so that D z rebuilds x); the code of
an image has its 15 coefficients in the place of its digit, and zeros elsewhere. Networks learn
these codes, then get a softmax layer, then learn the digits. Radius, weight decay and adversarial
radius (see `Classification`) are those with the smallest error on 10,000 training images that are
held out; learning rates and epochs were set by hand after a few trials with such errors. Then
networks are trained on all training images, with other seeds, and tested once.
"""

import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from fwnet.coding.structured_codes import leading_directions, structured_codes
from fwnet.data import Digits, keyed_generator, load_mnist, small_digits
from fwnet.experiments.experiment import Lab
from fwnet.experiments.feed_forward import FeedForward
from fwnet.experiments.runs import Job, Record
from fwnet.experiments.study import Case, Settings, Tried, try_all
from fwnet.metrics import error_rate
from fwnet.models import MODELS, CodeClassifier, CodingNetwork, Model
from fwnet.training import (
    Classification,
    CodeRegression,
    DivergedError,
    Task,
    TrainingConfig,
    TrainingRun,
    train,
)

Data = Literal["mnist", "small"]
NUM_CLASSES = 10
# Numbers of an image, and of the code of a digit.
WIDTHS: dict[str, tuple[int, int]] = {"mnist": (128, 15), "small": (40, 8)}
NUM_VALIDATION = {"mnist": 10_000, "small": 300}
TUNING_SEED, SEEDS = 0, (1, 2, 3)
# Momentum, batch size, learning rates and epochs of the paper.
SGD: dict[str, Any] = {
    "optimizer": "sgd",
    "momentum": 0.9,
    "batch_size": 100,
    "learning_rate": 0.1,
    "clip_norm": 1.0,  # not in the paper; without it p falls to 1 in the first steps
}
PRETRAINING = SGD | {
    "num_epochs": 200,
    "schedule": "step",
    "decay_at": [0.5],
    "decay_factor": 0.1,
    "weight_decay": 0.0,
}
TRAINING = SGD | {"num_epochs": 100, "weight_decay": 1e-3, "average": 0.999}
ADVERSARIAL_RADIUS = "neighbors"  # keys of stored records depend on this name
ADVERSARIAL_RADII = (0.0, 1.0, 1.5)
LONGER_EPOCHS = 200
QUICK_EPOCHS = 2
QUICK_SETTINGS = {"num_epochs": QUICK_EPOCHS, "average": 0.9}


@dataclass(frozen=True)
class DigitFeatures:
    """What networks see of digits.

    Attributes:
        digits: Images and labels.
        x: Training images after PCA, (count, n).
        test_x: Test images after PCA.
        codes: Structured codes of the training images, (count, m).
        dictionary: D, (n, m).
        axes: Matrix that turns a column of D into an image, (n, height·width).
    """

    digits: Digits
    x: Tensor
    test_x: Tensor
    codes: Tensor
    dictionary: Tensor
    axes: Tensor


@lru_cache(maxsize=2)
def digit_features(data: Data, num_validation: int = 0) -> DigitFeatures:
    """Return features by PCA; with `num_validation` the test images are not used."""
    digits = load_mnist() if data == "mnist" else small_digits()
    if num_validation:
        digits = digits.split(num_validation)
    n, per_digit = WIDTHS[data]
    pixels = digits.images.double()
    mean = pixels.mean(0)
    axes = leading_directions(pixels - mean, n)
    x = (pixels - mean) @ axes.T
    structured = structured_codes(x, digits.labels, [per_digit] * NUM_CLASSES)
    test_x = (digits.test_images.double() - mean) @ axes.T
    codes = structured.codes(x, digits.labels)
    parts = (x, test_x, codes, structured.dictionary, axes)
    return DigitFeatures(digits, *(part.float() for part in parts))


@dataclass(frozen=True)
class DigitTraining(Job):
    """Train a network on codes, then as a classifier; test it, or validate several settings.

    Attributes:
        data: "mnist", or "small" for scikit-learn's digits.
        model: "FWNet", "LCoD", or "FeedForward", which sees the images and has no codes.
        options: Arguments of the model.
        trainings: Settings of each training as a classifier, all from the same learned codes;
            `ADVERSARIAL_RADIUS` is one of their names.
        pretraining: Settings of the training on codes; None for FeedForward.
        num_validation: Number of training images that are held out to choose settings with.
        logistic: Whether logistic regression on the learned codes is measured too.
        portrait: Whether to keep atoms and mean codes of the last network, for the picture.
        seed: Seed of weights and order.
    """

    data: Data
    model: str
    options: dict[str, Any]
    trainings: list[dict[str, Any]]
    pretraining: dict[str, Any] | None = None
    num_validation: int = 0
    logistic: bool = False
    portrait: bool = False
    seed: int = 0

    def execute(self, device: torch.device) -> Record:
        """Return an outcome for each training, with errors in percent."""
        features = digit_features(self.data, self.num_validation)
        record: Record = {}
        encoder = None
        if self.pretraining is not None:
            kind: Any = MODELS[self.model]
            encoder = kind.from_dictionary(features.dictionary, **self.options)
            task = CodeRegression(features.x, features.codes)
            record["pretraining"] = self._train(encoder, task, self.pretraining, device)
            if "diverged" in record["pretraining"]:
                failed = {"error": None, **record["pretraining"]}
                return {"outcomes": [failed] * len(self.trainings)}
            if self.logistic:
                record["logistic_error"] = logistic_error(encoder, features)
        record["outcomes"] = [
            self._learn_digits(encoder, features, settings, device) for settings in self.trainings
        ]
        return record

    def _learn_digits(
        self,
        encoder: CodingNetwork | None,
        features: DigitFeatures,
        settings: dict[str, Any],
        device: torch.device,
    ) -> dict[str, Any]:
        generator, digits = keyed_generator(self.seed, "weights"), features.digits
        x, test_x = features.x, features.test_x
        network: Model
        if encoder is None:
            x, test_x = digits.images, digits.test_images
            network = FeedForward(
                x.shape[1], num_classes=NUM_CLASSES, generator=generator, **self.options
            )
        else:
            network = CodeClassifier.on(encoder, NUM_CLASSES, generator=generator)
        rest = dict(settings)
        task = Classification(x, digits.labels, adversarial_radius=rest.pop(ADVERSARIAL_RADIUS))
        report = self._train(network, task, rest, device)
        if "diverged" in report:
            return {"error": None, **report}
        scores = _outputs(network, test_x)
        percent = 100 * error_rate(scores, digits.test_labels).item()
        if self.num_validation:  # trial runs need only the error
            return {"error": percent}
        outcome = {
            "error": percent,
            "num_parameters": network.num_parameters,
            "num_weights": sum(w.numel() for w in network.parameters() if w.ndim == 2),
            "predicted": "".join(str(digit) for digit in scores.argmax(-1).tolist()),
            **report,
        }
        if self.portrait and isinstance(network, CodeClassifier):
            outcome["portrait"] = _portrait(network, features)
        return outcome

    def _train(
        self, network: Model, task: Task, settings: dict[str, Any], device: torch.device
    ) -> dict[str, Any]:
        """Train, and return where the training ended and p by epoch, or that it diverged."""
        config = TrainingConfig(**settings, seed=self.seed)
        try:
            result = train(network, task, config, TrainingRun(device=device))
        except DivergedError as error:
            return {"diverged": str(error)}
        report = {
            "loss": result.history[-1]["loss"],
            "seconds": result.seconds,
            **network.watched(),
        }
        curve = [epoch["p"] for epoch in result.history if "p" in epoch]
        return {**report, "p_by_epoch": curve} if curve else report


def logistic_error(encoder: CodingNetwork, features: DigitFeatures) -> float:
    """Return the error, in percent, of logistic regression on fixed codes."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    regression = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    codes, test_codes = (_outputs(encoder, part).numpy() for part in (features.x, features.test_x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        regression.fit(codes, features.digits.labels.numpy())
    wrong: np.ndarray = regression.predict(test_codes) != features.digits.test_labels.numpy()
    return 100 * float(wrong.mean())


def _outputs(network: Model, x: Tensor) -> Tensor:
    where = next(network.parameters()).device
    with torch.no_grad():
        return torch.cat([network(part.to(where)).cpu() for part in x.split(10_000)])


def _portrait(network: CodeClassifier, features: DigitFeatures) -> dict[str, Any]:
    """Return rows of −W_0 as images, some for every digit, and mean magnitudes of codes."""
    per_digit = features.dictionary.shape[1] // NUM_CLASSES
    shown = [digit * per_digit + k for digit in range(NUM_CLASSES) for k in range(4)]
    learned = -network.encoder.first.weight.detach().cpu()[shown]
    images = learned @ features.axes
    codes = network.encode(features.test_x.to(next(network.parameters()).device)).detach().cpu()
    means = torch.stack(
        [codes[features.digits.test_labels == k].abs().mean(0) for k in range(NUM_CLASSES)]
    )
    largest = images.abs().amax(1, keepdim=True)
    return {
        "atoms": shown,
        "images": (99 * images / largest).round().int().tolist(),
        "mean_codes": means.tolist(),
    }


@dataclass(frozen=True, kw_only=True)
class DigitCase(Case):
    """A network on handwritten digits.

    Attributes:
        name: Name in the table.
        model: Name of a model.
        options: Arguments of the model.
        choices: Arguments of the model to choose from.
        decays: Weight decays of the training as a classifier to choose from.
        radii: Adversarial radii to choose from.
        training: Settings that differ from `TRAINING`.
        pretraining: Settings that differ from `PRETRAINING`.
    """

    name: str
    model: str = "FWNet"
    options: dict[str, Any] = field(default_factory=dict)
    choices: tuple[Settings, ...] = ({},)
    decays: tuple[float, ...] = (1e-3, 2e-3)
    radii: tuple[float, ...] = ADVERSARIAL_RADII
    training: dict[str, Any] = field(default_factory=dict)
    pretraining: dict[str, Any] = field(default_factory=dict)

    def job(self, lab: Lab, settings: Settings, seed: int) -> DigitTraining:
        """Return the training on all training images, without and with adversarial training."""
        radii = sorted({0.0, settings.get("adversarial_radius", 0.0)})
        logistic = self.model == "FWNet" and len(self.radii) > 1
        return replace(self._job(lab, settings, radii, seed), logistic=logistic)

    def longer_job(self, lab: Lab, settings: Settings) -> DigitTraining:
        """Return a longer training with the chosen settings and one seed."""
        longer = replace(self, training={**self.training, "num_epochs": LONGER_EPOCHS})
        radii = [settings["adversarial_radius"]]
        return replace(longer._job(lab, settings, radii, SEEDS[0]), portrait=True)

    def trial(self, lab: Lab, settings: Settings, radii: Sequence[float]) -> DigitTraining:
        """Return a training that helps to choose settings: half the epochs, a quarter on codes."""
        return self._job(lab, settings, radii, TUNING_SEED, tuning=True)

    def _job(
        self,
        lab: Lab,
        settings: Settings,
        radii: Sequence[float],
        seed: int,
        tuning: bool = False,
    ) -> DigitTraining:
        training = {**TRAINING, **self.training, "weight_decay": settings["weight_decay"]}
        pretraining = {**PRETRAINING, **self.pretraining}
        if lab.quick:
            training |= QUICK_SETTINGS
            pretraining["num_epochs"] = QUICK_EPOCHS
        if tuning:
            training["num_epochs"] //= 2
            pretraining["num_epochs"] = max(1, pretraining["num_epochs"] // 4)
        chosen = {
            name: value
            for name, value in settings.items()
            if name not in ("weight_decay", "adversarial_radius")
        }
        data: Data = "small" if lab.quick else "mnist"
        return DigitTraining(
            data,
            self.model,
            {**self.options, **chosen},
            [{**training, ADVERSARIAL_RADIUS: radius} for radius in radii],
            None if self.model == "FeedForward" else pretraining,
            NUM_VALIDATION[data] if tuning else 0,
            seed=seed,
        )

    def search(self, lab: Lab) -> Tried:
        """Try arguments of the model, weight decays and adversarial radii."""
        candidates = [
            {**choice, "weight_decay": decay}
            for choice, decay in itertools.product(self.choices, self.decays)
        ]
        radii = self.radii[:2] if lab.quick else self.radii
        return try_all(
            lab,
            candidates[:1] if lab.quick else candidates,
            lambda settings: self.trial(lab, settings, radii),
            lambda settings, record: [
                ({**settings, "adversarial_radius": radius}, outcome["error"])
                for radius, outcome in zip(radii, record["outcomes"], strict=True)
            ],
        )

    def seeds(self, lab: Lab) -> tuple[int, ...]:
        """Return three seeds, or two for a quick look."""
        return SEEDS[:2] if lab.quick else SEEDS


def outcome_of(record: Record, index: int) -> Record:
    """Return one outcome with the hardware, and the seconds of both its trainings."""
    outcome = record["outcomes"][index]
    if outcome["error"] is None:
        raise DivergedError(f"a network that was to be tested diverged: {outcome['diverged']}")
    before = record.get("pretraining", {}).get("seconds", 0.0)
    return {**outcome, "hardware": record["hardware"], "seconds": outcome["seconds"] + before}
