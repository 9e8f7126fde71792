"""The learning rate of every kind of network, chosen on images that are held back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from fwnet.experiments.experiment import Lab, Result
from fwnet.experiments.runs import Job

__all__ = ["climb", "learning_rates"]

BY_CHANCE = 0.03  # dB: as much and more lies between two short trainings with the same settings


def learning_rates(
    lab: Lab, result: Result, trials: Mapping[str, Callable[[float], Job]]
) -> dict[str, float]:
    """The best learning rate of each kind; all that were tried are noted.

    trials: By the name of a kind, the short training that tries a learning rate.
    """
    count = len(trials) if lab.runner.num_workers > 1 else 1
    with ThreadPoolExecutor(count) as threads:  # each waits for its own trainings
        found = list(threads.map(lambda trial: climb(lab, trial), trials.values()))
    rates = {}
    for name, tried in zip(trials, found, strict=True):
        best = rates[name] = max(tried, key=tried.__getitem__)
        result.choices.append(
            {
                "method": name,
                "learning_rate": best,
                "validation_psnr": tried[best],
                "all_validation_psnr": {f"{rate:g}": tried[rate] for rate in sorted(tried)},
            }
        )
    return rates


def climb(lab: Lab, trial: Callable[[float], Job], rate: float = 2e-3) -> dict[float, float]:
    """PSNR by learning rate: doubled as long as that helps, and halved as long as that helps.

    It is not halved if doubling it once helps by more than chance may.
    """

    def figure(rate: float) -> float:
        (record,) = lab.runner.run([trial(rate)])
        value: float | None = record["validation"]
        return -math.inf if value is None else value

    tried = {rate: figure(rate)}
    if lab.quick:
        return tried
    for factor in (2.0, 0.5):
        current = rate
        while True:
            tried[current * factor] = figure(current * factor)
            if tried[current * factor] <= tried[current]:
                break
            current *= factor
        if tried[2 * rate] > tried[rate] + BY_CHANCE:
            break
    return tried
