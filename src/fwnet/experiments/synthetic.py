"""Networks and solvers on synthetic codes: cases, jobs, and how settings are chosen.

For every method and depth, learning rate, weight decay and number of epochs are those with the
smallest validation error, on data of their own seed (`TUNING_SEED`) with a tenth of its training
samples held out. Then networks are trained on all training samples of other seeds, and tested.
"""

import importlib.util
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import torch

import fwnet
from fwnet.data import SyntheticCodes, keyed_generator, synthetic_codes
from fwnet.errors import FwnetError
from fwnet.experiments.experiment import Lab, Result
from fwnet.experiments.runs import Job, Record
from fwnet.experiments.study import Case, Measured, Settings, Tried, try_all
from fwnet.metrics import code_error
from fwnet.models import MODELS, Model
from fwnet.training import CodeRegression, DivergedError, TrainingConfig, TrainingRun, train

RADIUS = 5.0
TUNING_SEED, SEEDS = 0, (1, 2, 3, 4, 5)
LEARNING_RATES = (1e-3, 3e-3, 1e-2, 3e-2)
WEIGHT_DECAYS = (0.0, 2e-5, 2e-4, 2e-3, 1e-2, 5e-2)  # the paper's is 2e-4
EPOCHS = (50, 200)
FIXED_SETTINGS = {"optimizer": "adam", "batch_size": 500, "schedule": "cosine"}
NUM_VALIDATION = 1_500
SGD_RATES = (1e-2, 3e-2, 1e-1, 3e-1)
ONE_EPOCH = {"learning_rate": LEARNING_RATES[0], "weight_decay": 0.0, "num_epochs": 1}
QUICK_DATA = {"num_train": 600, "num_test": 20}
QUICK_SETTINGS = {"weight_decay": 2e-4, "num_epochs": 3, "batch_size": 100}
ERROR = "test error"
# The problem as one writes it for CVXPY: it returns any of several optimal codes.
PLAIN_CVXPY = fwnet.solvers.CVX(least_norm=False)


def settings_grid(
    rates: Sequence[float] = LEARNING_RATES,
    decays: Sequence[float] = WEIGHT_DECAYS,
    epochs: Sequence[int] = EPOCHS,
    **others: Any,
) -> tuple[Settings, ...]:
    """Return all combinations of learning rates, weight decays and numbers of epochs."""
    return tuple(
        {"learning_rate": rate, "weight_decay": decay, "num_epochs": count, **others}
        for rate, decay, count in itertools.product(rates, decays, epochs)
    )


# With p near 1 the unit is steep: where p is fixed there, small steps train best.
WITH_SMALL_STEPS = (*settings_grid(), *settings_grid((1e-5, 1e-4, 3e-4), (0.0,), (50,)))


@dataclass(frozen=True)
class CodeTraining(Job):
    """Train one network on synthetic codes, and test or validate it.

    Attributes:
        data: Arguments of `synthetic_codes`, including seed and real p.
        model: Name of a model.
        num_layers: T.
        options: Other arguments of the model.
        settings: Arguments of `TrainingConfig`.
        start: Whether weights start from the dictionary of the data, or at random.
        num_validation: Number of training samples that are held out to choose settings with.
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
        x, z = data.signals, data.codes
        task = CodeRegression(x, z)
        if held:
            task = CodeRegression(x[:-held], z[:-held], x[-held:], z[-held:])
        try:
            result = train(
                network, task, TrainingConfig(**self.settings), TrainingRun(device=device)
            )
        except DivergedError as error:
            return {"diverged": str(error), "error": None}
        history = result.history
        if held:  # trial runs are not tested
            return {"error": history[-1]["validation"], "seconds": result.seconds}
        curves = {"training_error": [2 * epoch["loss"] for epoch in history]}  # the loss is half
        if "p" in before:
            curves["p"] = [epoch["p"] for epoch in history]
        with torch.no_grad():
            codes = network(data.test_signals.to(device))
        return {
            "error": code_error(codes, data.test_codes.to(device)).item(),
            "before": before,
            "after": network.watched(),
            "num_parameters": network.num_parameters,
            "seconds": result.seconds,
            "curves": curves,
        }

    def network(self, data: SyntheticCodes) -> Model:
        """Return the network before training."""
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


@dataclass(frozen=True)
class SolverCodes(Job):
    """Solve for the codes of the test signals, with the D and p that they were made with.

    Attributes:
        data: Arguments of `synthetic_codes`.
        method: A method of `fwnet.solve`, or "cvxpy" for `PLAIN_CVXPY`.
        max_steps: Largest number of steps; None for no limit.
    """

    data: dict[str, Any]
    method: str = "auto"
    max_steps: int | None = None

    def execute(self, device: torch.device) -> Record:  # noqa: ARG002
        """Return the error; everything is computed in float64 on a CPU."""
        data = synthetic_codes(**{**self.data, "num_train": 0}, dtype=torch.float64)
        solution = fwnet.solve(
            data.test_signals,
            data.dictionary,
            data.ball,
            method=PLAIN_CVXPY if self.method == "cvxpy" else self.method,
            max_steps=self.max_steps,
            tol=1e-15 if self.max_steps else None,  # take all the steps
        )
        return {"error": code_error(solution.code, data.test_codes).item()}


@dataclass(frozen=True, kw_only=True)
class CodeCase(Case):
    """A network at a depth, on data of a kind.

    Attributes:
        name: Name in the table.
        num_layers: T.
        data: Arguments of `synthetic_codes` without the seed.
        model: Name of a model.
        options: Arguments of the model; FWNet has the radius of the data unless they say another.
        start: Whether weights start from the dictionary of the data, or at random.
        given: Settings of the training that are not chosen.
        choices: Settings to choose from; "options" in them are arguments of the model.
        learns: Whether there is anything to learn; p fixed at 1 passes no gradient to the weights.
        setting: Setting of the rows, beside T.
    """

    name: str = "F-W Net"
    num_layers: int = 0
    data: dict[str, Any] = field(default_factory=dict)
    model: str = "FWNet"
    options: dict[str, Any] = field(default_factory=dict)
    start: Literal["dictionary", "random"] = "dictionary"
    given: dict[str, Any] = field(default_factory=dict)
    choices: tuple[Settings, ...] = settings_grid()
    learns: bool = True
    setting: dict[str, Any] = field(default_factory=dict)

    def job(self, lab: Lab, settings: Settings, seed: int, num_validation: int = 0) -> CodeTraining:
        """Return the training with given settings on the data of a seed."""
        size = QUICK_DATA if lab.quick else {}
        settings = dict(settings or ONE_EPOCH)
        options = {**self.options, **settings.pop("options", {})}
        return CodeTraining(
            {**self.data, **size, "seed": seed},
            self.model,
            self.num_layers,
            {"radius": RADIUS, **options} if self.model == "FWNet" else options,
            {**FIXED_SETTINGS, **settings, **self.given, "seed": seed},
            self.start,
            num_validation,
        )

    @property
    def search_key(self) -> dict[str, Any]:
        """The method, its depth and its data."""
        return {"method": self.name, "T": self.num_layers, "data": self.data}

    def search(self, lab: Lab) -> Tried:
        """Try the settings to choose from, on the data of the tuning seed."""
        if not self.learns:
            return []
        choices, held = self.choices, NUM_VALIDATION
        if lab.quick:
            choices, held = ({**QUICK_SETTINGS, "learning_rate": 1e-2},), 200
        return try_all(lab, choices, lambda settings: self.job(lab, settings, TUNING_SEED, held))

    def seeds(self, lab: Lab) -> tuple[int, ...]:
        """Return five seeds, or one for a quick look."""
        return SEEDS[:1] if lab.quick else SEEDS


def add_errors(result: Result, measured: Measured[CodeCase], paper: float | None = None) -> None:
    """Append the test errors of a case as a row."""
    case = measured.case
    setting = {"T": case.num_layers, **case.setting}
    result.add(case.name, setting, ERROR, measured.values("error"), measured.records, paper)


def solver_errors(lab: Lab, data: dict[str, Any], **arguments: Any) -> list[float]:
    """Return the error of `SolverCodes` for every seed."""
    size, seeds = (QUICK_DATA, SEEDS[:1]) if lab.quick else ({}, SEEDS)
    jobs = [SolverCodes({**data, **size, "seed": seed}, **arguments) for seed in seeds]
    return [record["error"] for record in lab.runner.run(jobs)]


@lru_cache(maxsize=8)
def scaled_data(**arguments: Any) -> SyntheticCodes:
    """Return the samples, with D and x scaled to ‖D‖₂ = 1 for all methods."""
    return synthetic_codes(**arguments).scaled()


def require_cvxpy() -> None:
    """Raise before the work if CVXPY is not installed."""
    if importlib.util.find_spec("cvxpy") is None:
        raise FwnetError("this experiment needs CVXPY: pip install '.[cvx]' in the clone")
