"""A study: cases × chosen settings × seeds → records, from which rows are made."""

import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fwnet.experiments.experiment import Lab, Result
from fwnet.experiments.runs import Job, Record, UnfinishedError
from fwnet.training import DivergedError

Settings = dict[str, Any]
Tried = list[tuple[Settings, float]]  # with their validation loss; inf where a training diverged
FIRST_RATE = 2e-3
BY_CHANCE = 0.03  # dB: two short trainings with the same settings differ by this much and more
MOST_THREADS = 64


def try_all(
    lab: Lab,
    candidates: Sequence[Settings],
    trial: Callable[[Settings], Job],
    losses: Callable[[Settings, Record], list[tuple[Settings, float | None]]] = (
        lambda settings, record: [(settings, record["error"])]
    ),
) -> Tried:
    """Try a list of settings, all at the same time.

    Args:
        lab: Where to train.
        candidates: The settings.
        trial: Function that returns the training that tries one of them.
        losses: Function that returns what was tried with a record, with losses; by default the
            error of the record.
    """
    records = lab.runner.run([trial(settings) for settings in candidates])
    return [
        (tried, loss if loss is not None and math.isfinite(loss) else math.inf)
        for settings, record in zip(candidates, records, strict=True)
        for tried, loss in losses(settings, record)
    ]


def climb(lab: Lab, trial: Callable[[Settings], Job]) -> Tried:
    """Double the learning rate while that improves validation PSNR.

    Then try halving, unless the first doubling already gained more than `BY_CHANCE`. The loss is
    minus PSNR.
    """

    def psnr(rate: float) -> float:
        (record,) = lab.runner.run([trial({"learning_rate": rate})])
        value: float | None = record["validation"]
        return -math.inf if value is None else value

    tried = {FIRST_RATE: psnr(FIRST_RATE)}
    for factor in () if lab.quick else (2.0, 0.5):
        rate = FIRST_RATE
        while True:
            tried[rate * factor] = psnr(rate * factor)
            if tried[rate * factor] <= tried[rate]:
                break
            rate *= factor
        if tried[2 * FIRST_RATE] > tried[FIRST_RATE] + BY_CHANCE:
            break
    return [({"learning_rate": rate}, -tried[rate]) for rate in sorted(tried)]


class Case(ABC):
    """A network that a study trains and tests.

    Attributes:
        name: Name in the table.
    """

    name: str

    @property
    def search_key(self) -> dict[str, Any]:
        """What settings are chosen for, in the results; cases with the same key share a search."""
        return {"method": self.name}

    @abstractmethod
    def search(self, lab: Lab) -> Tried:
        """Try settings on validation data; none if there is nothing to choose."""

    @abstractmethod
    def job(self, lab: Lab, settings: Settings, seed: int) -> Job:
        """Return the training on all training data, with chosen settings."""

    @abstractmethod
    def seeds(self, lab: Lab) -> Sequence[int]:
        """Return the seeds of the trainings."""


C = TypeVar("C", bound=Case)


@dataclass(frozen=True)
class Measured(Generic[C]):
    """A case, the settings that were chosen for it, and one record per seed."""

    case: C
    settings: Settings
    records: list[Record]

    def values(self, *path: Any) -> list[Any]:
        """Return one part of every record: `values("after", "p")`."""
        found: list[Any] = self.records
        for key in path:
            found = [part[key] for part in found]
        return found

    def curve(self, *path: Any) -> list[float]:
        """Return a list of every record as its mean over the seeds."""
        return [statistics.fmean(values) for values in zip(*self.values(*path), strict=True)]


def measure_cases(
    lab: Lab, result: Result, cases: Sequence[C], settings: Settings | None = None
) -> list[Measured[C]]:
    """Choose settings for every case, train with every seed, and return the records.

    Where only finished trainings are asked for, cases without them are left out.

    settings: Settings for all cases, instead of choosing.
    """
    chosen = choose(lab, result, cases) if settings is None else [settings] * len(cases)
    work = [
        (case, best, [case.job(lab, best, seed) for seed in case.seeds(lab)])
        for case, best in zip(cases, chosen, strict=True)
    ]
    work = [(case, best, jobs) for case, best, jobs in work if lab.runner.can_run(jobs)]
    if cases and not work:
        raise UnfinishedError(f"{result.id}: no training is finished")
    lab.runner.run([job for _, _, jobs in work for job in jobs])  # all at the same time
    return [Measured(case, best, lab.runner.run(jobs)) for case, best, jobs in work]


def choose(lab: Lab, result: Result, cases: Sequence[Case]) -> list[Settings]:
    """Return the best settings for every case; all that were tried are noted in the result."""
    searches = {str(case.search_key): case for case in cases}
    count = min(len(searches), MOST_THREADS) if lab.runner.num_workers > 1 else 1
    with ThreadPoolExecutor(max(1, count)) as threads:  # each waits for its own trainings
        found = list(threads.map(lambda case: case.search(lab), searches.values()))
    chosen = {
        key: best_of(result, case.search_key, tried)
        for (key, case), tried in zip(searches.items(), found, strict=True)
    }
    return [chosen[str(case.search_key)] for case in cases]


def best_of(result: Result, search_key: dict[str, Any], tried: Tried) -> Settings:
    """Return the settings with the smallest loss, and note all that were tried."""
    if not tried:
        return {}
    best, loss = min(tried, key=lambda entry: entry[1])
    if loss == math.inf:
        raise DivergedError(f"{search_key['method']} diverged with all {len(tried)} settings")
    listed = [{**settings, "loss": loss if loss < math.inf else None} for settings, loss in tried]
    result.choices.append({**search_key, **best, "validation_loss": loss, "tried": listed})
    return best
