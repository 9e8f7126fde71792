"""Sequences: `FWCell`, which the paper compares to an LSTM, beside torch's cells of equal size."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from fwnet.data import keyed_generator, small_digits
from fwnet.experiments.claims import better
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.pictures import Bars, panels
from fwnet.experiments.runs import Job, Record
from fwnet.experiments.sequence_reader import SequenceReader, hidden_size_for
from fwnet.experiments.study import Case, Settings, Tried, measure_cases, try_all
from fwnet.training import (
    Classification,
    CodeRegression,
    DivergedError,
    TrainingConfig,
    TrainingRun,
    train,
)

CELL_PARAMETERS = 5_000
GATED, PLAIN, LSTM, GRU, RNN = "gated FWCell", "FWCell", "LSTMCell", "GRUCell", "RNNCell"
CELLS = (GATED, PLAIN, LSTM, GRU, RNN)
TUNING_SEED, SEEDS = 0, (1, 2, 3)
RATES = (1e-3, 3e-3, 1e-2)
DIGITS, ADDING = "digits, row by row", "adding problem"
INPUT_SIZES = {DIGITS: 8, ADDING: 2}
QUANTITIES = {DIGITS: "test error, %", ADDING: "mean squared error"}
EPOCHS = {DIGITS: 100, ADDING: 50}
ADDING_STEPS, ADDING_TRAIN, ADDING_TEST = 50, 20_000, 2_000
QUICK_COUNT = 200
GIVEN = {"optimizer": "adam", "schedule": "cosine", "clip_norm": 1.0, "weight_decay": 0.0}
BATCHES = {DIGITS: 100, ADDING: 500}


def adding_problem(count: int, seed: int, part: str) -> tuple[Tensor, Tensor]:
    """Return sequences of pairs (number, mark), joined to rows, and the sum of the marked numbers.

    Numbers are uniform in [0, 1]; one is marked in the first half of a sequence and one in the
    second. Always answering 1 has a mean squared error of 1/6.
    """
    generator = keyed_generator(seed, "adding", part)
    numbers = torch.rand(count, ADDING_STEPS, generator=generator)
    half = ADDING_STEPS // 2
    marked = torch.randint(half, (count, 2), generator=generator) + torch.tensor([0, half])
    marks = torch.zeros_like(numbers).scatter(1, marked, 1.0)
    return torch.stack([numbers, marks], -1).flatten(1), (numbers * marks).sum(1, keepdim=True)


@lru_cache(maxsize=4)
def sequence_data(task: str, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return training inputs and targets, then those of the test."""
    if task == DIGITS:
        digits = small_digits()
        return digits.images, digits.labels, digits.test_images, digits.test_labels
    training, test = (ADDING_TRAIN, "training"), (ADDING_TEST, "test")
    return *adding_problem(training[0], seed, training[1]), *adding_problem(test[0], seed, test[1])


@dataclass(frozen=True)
class CellTraining(Job):
    """Train one cell to read sequences, and test or validate it.

    Attributes:
        task: DIGITS or ADDING.
        cell: Kind of cell; its hidden size follows from `CELL_PARAMETERS`.
        settings: Arguments of `TrainingConfig`.
        num_validation: Number of training samples that are held out to choose settings with.
        count: Number of training samples; None for all.
    """

    task: str
    cell: str
    settings: dict[str, Any] = field(default_factory=dict)
    num_validation: int = 0
    count: int | None = None

    def execute(self, device: torch.device) -> Record:
        """Return the error and the number of parameters."""
        seed, held = self.settings["seed"], self.num_validation
        x, y, test_x, test_y = sequence_data(self.task, seed)
        order = torch.randperm(len(x), generator=keyed_generator(seed, "validation"))
        order = order[: self.count]
        kept, tested = order[held:], order[:held]
        if held:
            test_x, test_y = x[tested], y[tested]
        kind = Classification if self.task == DIGITS else CodeRegression
        task = kind(x[kept], y[kept])
        inputs = INPUT_SIZES[self.task]
        network = SequenceReader(
            self.cell,  # type: ignore[arg-type]
            x.shape[1] // inputs,
            inputs,
            hidden_size_for(self.cell, inputs, CELL_PARAMETERS),
            10 if self.task == DIGITS else 1,
            generator=keyed_generator(seed, "weights"),
        )
        try:
            run = TrainingRun(device=device)
            result = train(network, task, TrainingConfig(**self.settings), run)
        except DivergedError as diverged:
            return {"diverged": str(diverged), "error": None}
        with torch.no_grad():
            error = task.figure(network(test_x.to(device)), test_y.to(device)).item()
        return {
            "error": 100 * error if self.task == DIGITS else error,
            "num_parameters": network.num_parameters,
            "seconds": result.seconds,
            **network.watched(),
        }


@dataclass(frozen=True, kw_only=True)
class CellCase(Case):
    """A cell and what it reads.

    Attributes:
        name: Kind of cell.
        task: DIGITS or ADDING.
    """

    name: str
    task: str

    def job(self, lab: Lab, settings: Settings, seed: int, num_validation: int = 0) -> CellTraining:
        """Return the training with given settings and a seed."""
        fixed = {**GIVEN, "num_epochs": EPOCHS[self.task], "batch_size": BATCHES[self.task]}
        if lab.quick:
            fixed |= {"num_epochs": 2, "batch_size": 50}
        chosen = {**fixed, **settings, "seed": seed}
        count = QUICK_COUNT if lab.quick else None
        return CellTraining(self.task, self.name, chosen, num_validation, count)

    @property
    def search_key(self) -> dict[str, Any]:
        """The cell and its task."""
        return {"method": self.name, "task": self.task}

    def search(self, lab: Lab) -> Tried:
        """Try learning rates on held-out sequences of the tuning seed."""
        held = 50 if lab.quick else 200 if self.task == DIGITS else 2_000
        rates = [{"learning_rate": rate} for rate in (RATES[-1:] if lab.quick else RATES)]
        return try_all(lab, rates, lambda settings: self.job(lab, settings, TUNING_SEED, held))

    def seeds(self, lab: Lab) -> tuple[int, ...]:
        """Return three seeds, or one for a quick look."""
        return SEEDS[:1] if lab.quick else SEEDS


def measure(lab: Lab, result: Result) -> None:
    """Train every cell on both tasks."""
    cases = [CellCase(name=cell, task=task) for task in INPUT_SIZES for cell in CELLS]
    for measured in measure_cases(lab, result, cases):
        case, errors = measured.case, measured.values("error")
        setting = {"task": case.task}
        result.add(case.name, setting, QUANTITIES[case.task], errors, measured.records)


def compared(other: str, task: str) -> Any:
    """Return the claim that the gated cell has a smaller error than another."""
    return better(f"a gated FWCell is better than {other}: {task}", GATED, other, task=task)


EXPERIMENT = Experiment(
    "sequences",
    "Sequences: FWCell beside the cells of torch with as many parameters",
    "F-W Net can be viewed as a special LSTM, and may capture long-term dependencies better than "
    "plain RNNs; no experiment.",
    measure,
    panels(
        *(
            Bars(
                where={"task": task},
                quantity=quantity,
                title=task,
                from_zero=True,
                labels={"xlabel": quantity},
            )
            for task, quantity in QUANTITIES.items()
        ),
        columns=2,
    ),
    claims=tuple(
        compared(other, task) for task in INPUT_SIZES for other in (PLAIN, LSTM, GRU, RNN)
    ),
    columns="method",
    note=f"Cells have the hidden size that brings them nearest to {CELL_PARAMETERS:,} parameters; "
    "a linear layer reads their last state. scikit-learn's digits are 8 rows of 8 pixels. The "
    f"adding problem has {ADDING_STEPS} pairs of a number and a mark; two numbers are marked, and "
    "their sum is wanted. 1/6 is the error without memory. Learning rates are chosen on held-out "
    "sequences.",
)
