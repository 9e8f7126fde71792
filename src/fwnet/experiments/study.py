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
# Returns the settings that were tried, each with its loss; inf where a training diverged.
Search = Callable[[Lab], list[tuple[Settings, float]]]
FIRST_RATE = 2e-3
BY_CHANCE = 0.03  # dB: two short trainings with the same settings differ by this much and more
MOST_THREADS = 64


def grid(
    candidates: Sequence[Settings],
    trial: Callable[[Settings], Job],
    losses: Callable[[Settings, Record], list[tuple[Settings, float | None]]] = (
        lambda settings, record: [(settings, record["error"])]
    ),
) -> Search:
    """Return a search that tries a list of settings, all at the same time.

    Args:
        candidates: The settings.
        trial: Function that returns the training that tries one of them.
        losses: Function that returns what was tried with a record, with losses; by default the
            error of the record.
    """

    def search(lab: Lab) -> list[tuple[Settings, float]]:
        records = lab.runner.run([trial(settings) for settings in candidates])
        return [
            (tried, loss if loss is not None and math.isfinite(loss) else math.inf)
            for settings, record in zip(candidates, records, strict=True)
            for tried, loss in losses(settings, record)
        ]

    return search


def climb(trial: Callable[[Settings], Job]) -> Search:
    """Return a search that doubles the learning rate while that improves validation PSNR.

    Then it tries halving, unless the first doubling already gained more than `BY_CHANCE`. The loss
    is minus PSNR.
    """

    def search(lab: Lab) -> list[tuple[Settings, float]]:
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

    return search


class Case(ABC):
    """A network that a study trains and tests.

    Attributes:
        name: Name in the table.
    """

    name: str

    @abstractmethod
    def search(self, lab: Lab) -> tuple[dict[str, Any], Search] | None:
        """Return the key of the search in the results and the search function.

        None if nothing is chosen. Cases with the same key share the search.
        """

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
    chosen = [settings or {} for _ in cases]
    if settings is None:
        found = [case.search(lab) for case in cases]
        searches = {str(one[0]): one for one in found if one}
        best_of = dict(zip(searches, choose(lab, result, list(searches.values())), strict=True))
        chosen = [best_of[str(one[0])] if one else {} for one in found]
    work = [
        (case, best, [case.job(lab, best, seed) for seed in case.seeds(lab)])
        for case, best in zip(cases, chosen, strict=True)
    ]
    work = [(case, best, jobs) for case, best, jobs in work if lab.runner.can_run(jobs)]
    if cases and not work:
        raise UnfinishedError(f"{result.id}: no training is finished")
    lab.runner.run([job for _, _, jobs in work for job in jobs])  # all at the same time
    return [Measured(case, best, lab.runner.run(jobs)) for case, best, jobs in work]


def choose(
    lab: Lab, result: Result, searches: Sequence[tuple[dict[str, Any], Search]]
) -> list[Settings]:
    """Return the settings with the smallest loss of each search; all that were tried are noted."""
    count = min(len(searches), MOST_THREADS) if lab.runner.num_workers > 1 else 1
    with ThreadPoolExecutor(max(1, count)) as threads:  # each waits for its own trainings
        found = list(threads.map(lambda entry: entry[1](lab), searches))
    chosen = []
    for (about, _), tried in zip(searches, found, strict=True):
        best, loss = min(tried, key=lambda entry: entry[1])
        if loss == math.inf:
            raise DivergedError(f"{about['method']} diverged with all {len(tried)} settings")
        listed = [
            {**settings, "loss": loss if loss < math.inf else None} for settings, loss in tried
        ]
        result.choices.append({**about, **best, "validation_loss": loss, "tried": listed})
        chosen.append(best)
    return chosen
