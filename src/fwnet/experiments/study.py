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
BY_CHANCE = 0.03  # dB: two short trainings with the same settings differ by this much and more
MOST_THREADS = 64


class Search(ABC):
    """A way to choose settings by validation figures."""

    @abstractmethod
    def try_all(self, lab: Lab) -> list[tuple[Settings, float]]:
        """Return the settings that were tried, each with its loss; inf where it diverged."""


@dataclass(frozen=True)
class Grid(Search):
    """Try a list of settings.

    Attributes:
        candidates: The settings.
        trial: Function that returns the training that tries one of them.
        losses: Function that returns what was tried with a record, with losses. By default the
            error of the record.
    """

    candidates: Sequence[Settings]
    trial: Callable[[Settings], Job]
    losses: Callable[[Settings, Record], list[tuple[Settings, float | None]]] = (
        lambda settings, record: [(settings, record["error"])]
    )

    def try_all(self, lab: Lab) -> list[tuple[Settings, float]]:
        """Try all of them at the same time."""
        records = lab.runner.run([self.trial(settings) for settings in self.candidates])
        return [
            (tried, loss if loss is not None and math.isfinite(loss) else math.inf)
            for settings, record in zip(self.candidates, records, strict=True)
            for tried, loss in self.losses(settings, record)
        ]


@dataclass(frozen=True)
class Climb(Search):
    """Double the learning rate while that improves validation PSNR, then halve it likewise.

    It is not halved if doubling it once improves PSNR by more than chance may.

    Attributes:
        trial: Function that returns the training that tries a learning rate.
        start: First learning rate.
    """

    trial: Callable[[Settings], Job]
    start: float = 2e-3

    def try_all(self, lab: Lab) -> list[tuple[Settings, float]]:
        """Try one learning rate after the other; the loss is minus PSNR."""
        tried = {self.start: self._psnr(lab, self.start)}
        for factor in () if lab.quick else (2.0, 0.5):
            rate = self.start
            while True:
                tried[rate * factor] = self._psnr(lab, rate * factor)
                if tried[rate * factor] <= tried[rate]:
                    break
                rate *= factor
            if tried[2 * self.start] > tried[self.start] + BY_CHANCE:
                break
        return [({"learning_rate": rate}, -tried[rate]) for rate in sorted(tried)]

    def _psnr(self, lab: Lab, rate: float) -> float:
        (record,) = lab.runner.run([self.trial({"learning_rate": rate})])
        value: float | None = record["validation"]
        return -math.inf if value is None else value


class Case(ABC):
    """A network that a study trains and tests.

    Attributes:
        name: Name in the table.
    """

    name: str

    @abstractmethod
    def search(self, lab: Lab) -> tuple[dict[str, Any], Search] | None:
        """Return what the search for settings is noted under, and the search; None for none.

        Cases with the same note share the search.
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
    if settings is None:
        chosen = _choose_for_cases(lab, result, cases)
    else:
        chosen = [settings for _ in cases]
    work = [
        (case, best, [case.job(lab, best, seed) for seed in case.seeds(lab)])
        for case, best in zip(cases, chosen, strict=True)
    ]
    work = [(case, best, jobs) for case, best, jobs in work if lab.runner.finished(jobs)]
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
        found = list(threads.map(lambda entry: entry[1].try_all(lab), searches))
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


def _choose_for_cases(lab: Lab, result: Result, cases: Sequence[Case]) -> list[Settings]:
    searches = {str(found[0]): found for case in cases if (found := case.search(lab))}
    chosen = dict(zip(searches, choose(lab, result, list(searches.values())), strict=True))
    notes = [case.search(lab) for case in cases]
    return [{} if note is None else chosen[str(note[0])] for note in notes]
