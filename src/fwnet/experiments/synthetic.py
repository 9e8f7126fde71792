"""What the experiments on synthetic codes share: methods, how settings are chosen, and jobs.

The protocol: for every method and depth, learning rate, weight decay and number of epochs are those
with the smallest validation error, on data of their own seed (`TUNING_SEED`) with a tenth of its
training samples held back. Then networks are trained on all training samples of other seeds, and
tested.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import torch

import fwnet
from fwnet.data import SyntheticCodes, keyed_generator, synthetic_codes
from fwnet.experiments.experiment import Lab, Result, Row, row_of
from fwnet.experiments.runs import Job, Record
from fwnet.functional import value_of
from fwnet.hardware import hardware_name
from fwnet.metrics import code_error
from fwnet.models import MODELS, Model
from fwnet.training import CodeRegression, DivergedError, TrainingConfig, TrainingRun, train

__all__ = ["CodeTraining", "Measured", "Method", "SolverCodes", "fw_net", "measure_networks"]

RADIUS = 5.0
TUNING_SEED, SEEDS = 0, (1, 2, 3, 4, 5)
LEARNING_RATES = (1e-3, 3e-3, 1e-2, 3e-2)
WEIGHT_DECAYS = (0.0, 2e-5, 2e-4, 2e-3, 1e-2, 5e-2)  # the paper's is 2e-4
EPOCHS = (50, 200)
FIXED_SETTINGS = {"optimizer": "adam", "batch_size": 500, "schedule": "cosine"}
NUM_VALIDATION = 1_500
SGD_RATES = (1e-2, 3e-2, 1e-1, 3e-1)
SGD_CHOICES = tuple(
    {"learning_rate": rate, "weight_decay": 2e-4, "num_epochs": epochs, "optimizer": "sgd"}
    for rate, epochs in itertools.product(SGD_RATES, EPOCHS)
)
# With p near 1 the unit is steep: what is fixed there is trained best with small steps.
SMALL_STEPS = tuple(
    {"learning_rate": rate, "weight_decay": 0.0, "num_epochs": 50} for rate in (1e-5, 1e-4, 3e-4)
)
QUICK_DATA = {"num_train": 1_200, "num_test": 200}
QUICK_SETTINGS = {"weight_decay": 2e-4, "num_epochs": 6, "batch_size": 100}


@dataclass(frozen=True)
class Method:
    """A network as one of the paper's methods.

    Attributes:
        name: As in the paper.
        model: The name of a model.
        options: Arguments of the model.
        start: Whether weights start from the dictionary that the data is made with, or at random.
        settings: Settings of the training that are not chosen but given.
        more_choices: Settings to choose from beside the common ones.
        choices: Settings to choose from instead of the common ones.
        learns: Whether there is anything to learn; p fixed at exactly 1 passes weights no gradient.
    """

    name: str
    model: str = "FWNet"
    options: dict[str, Any] = field(default_factory=dict)
    start: Literal["dictionary", "random"] = "dictionary"
    settings: dict[str, Any] = field(default_factory=dict)
    more_choices: tuple[dict[str, Any], ...] = ()
    choices: tuple[dict[str, Any], ...] = ()
    learns: bool = True


def fw_net(name: str = "F-W Net", **options: Any) -> Method:
    """The Frank-Wolfe network at the radius that codes are made with, p from 2."""
    return Method(name, "FWNet", {"radius": RADIUS, **options})


@dataclass(frozen=True)
class CodeTraining(Job):
    """Train one network on synthetic codes, and test or validate it.

    Attributes:
        data: Arguments of `synthetic_codes`, seed and real p included.
        model: The name of a model.
        num_layers: T.
        options: Other arguments of the model.
        settings: Arguments of `TrainingConfig`.
        start: Whether weights start from the dictionary that the data is made with, or at random.
        num_validation: How many training samples are held back, to choose settings with.
    """

    data: dict[str, Any]
    model: str
    num_layers: int
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    start: Literal["dictionary", "random"] = "dictionary"
    num_validation: int = 0

    def execute(self, device: torch.device) -> Record:
        """Return the error and, of a network that is tested, what it learned and its curves."""
        data = scaled_data(**self.data)
        network = self.network(data)
        before, held = network.watched(), self.num_validation
        try:
            result = train(
                network,
                self._task(data),
                TrainingConfig(**self.settings),
                TrainingRun(device=device),
            )
        except DivergedError as error:
            return {"diverged": str(error), "error": None}
        history = result.history
        if held:  # a network that chooses settings is not tested
            return {"error": history[-1]["validation"], "seconds": result.seconds}
        curves = {"training_error": [2 * epoch["loss"] for epoch in history]}  # the loss is half
        if "p" in before:
            curves["p"] = [epoch["p"] for epoch in history]
        return {
            "error": test_error(network, data, device),
            "before": before,
            "after": network.watched(),
            "num_parameters": network.num_parameters,
            "seconds": result.seconds,
            "hardware": f"{hardware_name(device)}, torch {torch.__version__}",
            "curves": {name: _short(values) for name, values in curves.items()},
        }

    def network(self, data: SyntheticCodes) -> Model:
        """Make the network as it is before training."""
        kind: Any = MODELS[self.model]
        if self.start == "dictionary":
            made = kind.from_dictionary(data.dictionary, self.num_layers, **self.options)
        else:
            generator = keyed_generator(self.settings.get("seed", 0), "weights")
            made = kind(
                *data.dictionary.shape, self.num_layers, generator=generator, **self.options
            )
        assert isinstance(made, Model)
        return made

    def _task(self, data: SyntheticCodes) -> CodeRegression:
        x, z, held = data.signals, data.codes, self.num_validation
        if not held:
            return CodeRegression(x, z)
        return CodeRegression(x[:-held], z[:-held], x[-held:], z[-held:])


@dataclass(frozen=True)
class SolverCodes(Job):
    """Solve for the codes of the test signals, with the D and p that they were made with.

    Attributes:
        data: Arguments of `synthetic_codes`.
        method: A method of `fwnet.solve`, or "cvxpy": the problem as one writes it for CVXPY, which
            among several optimal codes gives any, not the shortest.
        max_steps: How many steps it may take; None lets it finish.
    """

    data: dict[str, Any]
    method: str = "auto"
    max_steps: int | None = None

    def execute(self, device: torch.device) -> Record:  # noqa: ARG002
        """Return the error; all is computed in float64, on a CPU."""
        data = synthetic_codes(**{**self.data, "num_train": 0}, dtype=torch.float64)
        if self.method == "cvxpy":
            code = cvxpy_codes(data)
        else:
            code = fwnet.solve(
                data.test_signals,
                data.dictionary,
                data.ball,
                method=self.method,
                max_steps=self.max_steps,
                tol=1e-15 if self.max_steps else None,  # all the steps
            ).code
        return {
            "error": code_error(code, data.test_codes).item(),
            "inside": (data.ball.gauge(code) < 1 - 1e-6).double().mean().item(),
        }


@dataclass(frozen=True)
class Case:
    """A method at a depth, on data of a kind (arguments of `synthetic_codes` without the seed)."""

    method: Method
    num_layers: int
    data: dict[str, Any]

    def job(self, settings: dict[str, Any], seed: int, num_validation: int = 0) -> CodeTraining:
        """The training with given settings on the data of a seed."""
        return CodeTraining(
            {**self.data, "seed": seed},
            self.method.model,
            self.num_layers,
            self.method.options,
            {**FIXED_SETTINGS, **settings, **self.method.settings, "seed": seed},
            self.method.start,
            num_validation,
        )


@dataclass(frozen=True)
class Measured:
    """A case, the settings that were chosen for it, and one record a seed."""

    case: Case
    settings: dict[str, Any]
    records: list[Record]

    @property
    def errors(self) -> list[float]:
        """The test errors."""
        return [record["error"] for record in self.records]

    def after(self, name: str) -> list[Any]:
        """What became of a learned number."""
        return [record["after"][name] for record in self.records]

    def curve(self, name: str) -> list[float]:
        """The mean over seeds, by epoch."""
        curves = [record["curves"][name] for record in self.records]
        return [sum(values) / len(values) for values in zip(*curves, strict=True)]

    def row(self, paper: float | None = None, **setting: Any) -> Row:
        """The test error as a row."""
        setting = {"T": self.case.num_layers, **setting}
        return row_of(
            self.case.method.name, setting, "test error", self.errors, self.records, paper
        )


def measure_networks(
    lab: Lab,
    result: Result,
    cases: Sequence[tuple[Method, int, dict[str, Any]]],
    settings: dict[str, Any] | None = None,
) -> list[Measured]:
    """Choose settings for every (method, T, data), train with every seed, and test.

    settings: Used for all of them, instead of choosing.
    """
    size = QUICK_DATA if lab.quick else {}
    listed = [Case(method, layers, {**data, **size}) for method, layers, data in cases]
    if settings is None:
        chosen = choose_settings(lab, result, listed)
    else:
        chosen = [settings for _ in listed]
    pairs = list(zip(listed, chosen, strict=True))
    seeds = SEEDS[:1] if lab.quick else SEEDS
    records = lab.runner.run([case.job(best, seed) for case, best in pairs for seed in seeds])
    grouped = [records[i : i + len(seeds)] for i in range(0, len(records), len(seeds))]
    return [Measured(case, best, group) for (case, best), group in zip(pairs, grouped, strict=True)]


def choose_settings(lab: Lab, result: Result, cases: Sequence[Case]) -> list[dict[str, Any]]:
    """For every case, the settings with the smallest validation error; noted in the result."""
    grid = [
        {"learning_rate": rate, "weight_decay": decay, "num_epochs": epochs}
        for rate, decay, epochs in itertools.product(LEARNING_RATES, WEIGHT_DECAYS, EPOCHS)
    ]
    held = NUM_VALIDATION
    if lab.quick:
        grid = [{**QUICK_SETTINGS, "learning_rate": rate} for rate in (3e-3, 1e-2)]
        held = 200
    grids = {
        index: grid if lab.quick else [*(case.method.choices or grid), *case.method.more_choices]
        for index, case in enumerate(cases)
        if case.method.learns
    }
    records = iter(
        lab.runner.run(
            [
                cases[index].job(settings, TUNING_SEED, held)
                for index, settings_of_case in grids.items()
                for settings in settings_of_case
            ]
        )
    )
    # What has nothing to learn must not decay, either.
    chosen = [{**grid[0], "weight_decay": 0.0, "num_epochs": 1} for _ in cases]
    for index, tried in grids.items():
        errors = [_finite(next(records)["error"]) for _ in tried]
        best = min(range(len(tried)), key=errors.__getitem__)
        chosen[index] = tried[best]
        case = cases[index]
        result.choices.append(
            {
                "method": case.method.name,
                "T": case.num_layers,
                "data": {k: v for k, v in case.data.items() if k not in QUICK_DATA},
                **tried[best],
                "validation_error": errors[best],
                "all_validation_errors": [e if math.isfinite(e) else None for e in errors],
            }
        )
    return chosen


def solver_errors(lab: Lab, data: dict[str, Any], **arguments: Any) -> list[Record]:
    """One record of `SolverCodes` a seed."""
    size = QUICK_DATA if lab.quick else {}
    seeds = SEEDS[:1] if lab.quick else SEEDS
    jobs = [SolverCodes({**data, **size, "seed": seed}, **arguments) for seed in seeds]
    return lab.runner.run(jobs)


def test_error(network: Model, data: SyntheticCodes, device: torch.device) -> float:
    """The error on the test samples."""
    with torch.no_grad():
        return code_error(network(data.test_signals.to(device)), data.test_codes.to(device)).item()


@lru_cache(maxsize=8)
def scaled_data(**arguments: Any) -> SyntheticCodes:
    """Samples are the same for every method; D and x are scaled to ‖D‖₂ = 1 for all alike."""
    return synthetic_codes(**arguments).scaled()


def require_cvxpy() -> None:
    """Raise before the work, not after it, if CVXPY is not installed."""
    if importlib.util.find_spec("cvxpy") is None:
        raise ImportError("this experiment needs CVXPY: pip install 'fwnet[cvx]'")


def cvxpy_codes(data: SyntheticCodes) -> torch.Tensor:
    """The codes of the test signals as CVXPY finds them, one problem with x as a parameter."""
    import cvxpy

    cp: Any = cvxpy  # carries no annotations
    p, radius = value_of(data.ball.p), value_of(data.ball.radius)
    n, m = data.dictionary.shape
    x, z = cp.Parameter(n), cp.Variable(m)
    norm = cp.norm1(z) if p == 1 else cp.pnorm(z, p, approx=False)
    squares = cp.sum_squares(x - data.dictionary.numpy() @ z)
    problem = cp.Problem(cp.Minimize(0.5 * squares), [norm <= radius])
    codes = []
    for signal in data.test_signals.numpy():
        x.value = signal
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "may be inaccurate": it is what it gives
            problem.solve(solver=cp.CLARABEL)
        codes.append(torch.from_numpy(z.value))
    return torch.stack(codes)


def _finite(error: float | None) -> float:
    return math.inf if error is None or not math.isfinite(error) else error


def _short(values: list[float]) -> list[float]:
    return [float(f"{value:.5g}") for value in values] if isinstance(values[0], float) else values
