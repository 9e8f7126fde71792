"""The paper's table of initial p on handwritten digits: learned against fixed."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import replace

from matplotlib.figure import Figure

from fwnet.experiments.digits import (
    Choice,
    DigitTraining,
    Network,
    choose,
    seeds_of,
)
from fwnet.experiments.experiment import Experiment, Lab, Result, row_of
from fwnet.experiments.pictures import color, new_figure, plot_rows, tidy
from fwnet.experiments.words import comma_list, is_below, verdict

__all__ = ["EXPERIMENT", "table_jobs"]

STARTS = (1.1, 1.3, 1.5, 1.6, 1.8, 2.0)
LEARNED, FIXED = "learned p", "fixed p"
ACCURACY, EXPONENT, AFTER_CODES = "test accuracy, %", "p", "p after codes"
PAPER = {
    LEARNED: dict(zip(STARTS, (98.51, 98.45, 98.43, 98.66, 98.38, 98.50), strict=True)),
    FIXED: dict(zip(STARTS, (97.35, 97.70, 98.30, 98.26, 97.90, 97.78), strict=True)),
}
PAPER_P = dict(zip(STARTS, (1.601, 1.600, 1.595, 1.614, 1.601, 1.585), strict=True))
NEAR = 0.05
DEPTHS, RADII = (3, 4), (12.5, 25.0, 50.0)
SHARED = Network(
    "F-W Net, shared W",
    "FWNet",
    {"share_weights": True, "p": 1.5},
    tuple({"num_layers": T, "radius": RADII[1]} for T in DEPTHS),
    decays=(1e-3,),
    training={"num_epochs": 10},
    pretraining={"num_epochs": 30},
)


def measure(lab: Lab, result: Result) -> None:
    """Choose depth and radius, then train from every start, with p learned and fixed."""
    choice = choose_radius(lab, result, choose(lab, result, SHARED, neighbors=(0.0,)))
    jobs = table_jobs(lab, choice)
    records = iter(lab.runner.run(jobs))
    num_seeds = len(jobs) // (2 * len(STARTS))
    for name in (LEARNED, FIXED):
        for start in STARTS:
            mine = [next(records) for _ in range(num_seeds)]
            outcomes = [
                {**record["outcomes"][0], "hardware": record["hardware"]} for record in mine
            ]
            for outcome, record in zip(outcomes, mine, strict=True):
                outcome["seconds"] += record["pretraining"]["seconds"]
            accuracies = [100 - outcome["error"] for outcome in outcomes]
            setting = {"initial p": start, **choice.options}
            paper = PAPER[name][start]
            result.rows.append(row_of(name, setting, ACCURACY, accuracies, outcomes, paper))
            if name == LEARNED:
                values = [outcome["p"] for outcome in outcomes]
                result.rows.append(
                    row_of(name, setting, EXPONENT, values, outcomes, PAPER_P[start])
                )
                values = [record["pretraining"]["p"] for record in mine]
                result.rows.append(row_of(name, setting, AFTER_CODES, values))
                curves = [
                    [start, *record["pretraining"]["p_by_epoch"], *outcome["p_by_epoch"]]
                    for record, outcome in zip(mine, outcomes, strict=True)
                ]
                result.curves[f"{start:g}"] = [
                    statistics.fmean(values) for values in zip(*curves, strict=True)
                ]
                result.curves["pretraining epochs"] = len(mine[0]["pretraining"]["p_by_epoch"])
    result.findings = _findings(result)


def choose_radius(lab: Lab, result: Result, choice: Choice) -> Choice:
    """The c with the smallest validation error, the mean over all starts of a learned p."""
    records = iter(lab.runner.run(radius_jobs(lab, choice)))
    errors = []
    for _ in RADII:
        outcomes = [next(records)["outcomes"][0]["error"] for _ in STARTS]
        errors.append(statistics.fmean(100.0 if e is None else e for e in outcomes))
    best = min(range(len(RADII)), key=errors.__getitem__)
    result.choices.append(
        {
            "method": SHARED.name,
            "radius": RADII[best],
            "validation_error": errors[best],
            "all_validation_errors": [
                {"radius": radius, "error, mean over starts": error}
                for radius, error in zip(RADII, errors, strict=True)
            ],
        }
    )
    return replace(choice, options={**choice.options, "radius": RADII[best]})


def radius_jobs(lab: Lab, choice: Choice) -> list[DigitTraining]:
    """For every radius, from every start."""
    return [
        choice.network.job(
            lab,
            {**choice.options, "radius": radius, "p": start},
            choice.weight_decay,
            [0.0],
            tuning=True,
        )
        for radius in RADII
        for start in STARTS
    ]


def table_jobs(lab: Lab, choice: Choice) -> list[DigitTraining]:
    """From every start, with every seed: p learned first, then fixed."""
    return [
        replace(choice, options={**choice.options, "p": start, "learn_p": learn}).job(
            lab, [0.0], seed
        )
        for learn in (True, False)
        for start in STARTS
        for seed in seeds_of(lab)
    ]


def _rows(result: Result, name: str, quantity: str) -> dict[float, list[float]]:
    return {
        row.setting["initial p"]: row.values
        for row in result.rows
        if row.method == name and row.quantity == quantity
    }


def _findings(result: Result) -> list[str]:
    learned, fixed = (_rows(result, name, ACCURACY) for name in (LEARNED, FIXED))
    ends, after_codes = (
        {start: statistics.fmean(values) for start, values in _rows(result, LEARNED, q).items()}
        for q in (EXPONENT, AFTER_CODES)
    )
    single = [p for values in _rows(result, LEARNED, EXPONENT).values() for p in values]
    # Accuracies: the larger the better.
    better = {start: is_below(fixed[start], learned[start]) for start in STARTS}
    won = [f"{start:g}" for start, is_better in better.items() if is_better]
    level = [f"{start:g}" for start, is_better in better.items() if is_better is None]
    lost = [f"{start:g}" for start, is_better in better.items() if is_better is False]
    parts = [
        f"{word} at {comma_list(starts)}"
        for word, starts in (("better", won), ("not told apart", level), ("worse", lost))
        if starts
    ]
    means = {start: statistics.fmean(values) for start, values in learned.items()}
    return [
        f"From {', '.join(f'{p:g}' for p in STARTS)} the learned p is "
        f"{', '.join(f'{after_codes[p]:.3f}' for p in STARTS)} after codes are learned, "
        f"{_within(after_codes.values())}, and ends at "
        f"{', '.join(f'{ends[p]:.3f}' for p in STARTS)} after classes are, "
        f"{_within(ends.values())} (means over seeds; single networks {_within(single)}). The "
        "paper has 1.585 to 1.614.",
        "c was chosen by the validation error of networks that learn p, the mean over all starts; "
        "those with a fixed p have the same c.",
        f"Accuracies with a learned p lie between {min(means.values()):.2f} and "
        f"{max(means.values()):.2f}%, with a fixed one between "
        f"{min(statistics.fmean(v) for v in fixed.values()):.2f} and "
        f"{max(statistics.fmean(v) for v in fixed.values()):.2f}%.",
        f"A learned p compared with one fixed at its start: {', '.join(parts)}.",
        verdict(
            {
                f"p is within {NEAR} of one value from every start, after codes": (
                    _half_range(after_codes.values()) <= NEAR
                ),
                "and after classes, means over seeds": _half_range(ends.values()) <= NEAR,
                "a learned p beats a fixed one from every start": all(better.values()),
                "p converges to about 1.6": all(abs(p - 1.6) <= NEAR for p in ends.values()),
            }
        ),
    ]


def _half_range(values: Iterable[float]) -> float:
    """How far from one value all are."""
    known = list(values)
    return (max(known) - min(known)) / 2


def _within(values: Iterable[float]) -> str:
    known = list(values)
    middle = (max(known) + min(known)) / 2
    return f"within {_half_range(known):.3f} of {middle:.3f}"


def draw(result: Result) -> Figure:
    """p by epoch, and accuracies."""
    figure, (left, right) = new_figure(columns=2)
    for index, start in enumerate(STARTS):
        left.plot(
            result.curves[f"{start:g}"], color=color(index, len(STARTS)), label=f"from {start:g}"
        )
    left.axvline(result.curves["pretraining epochs"], color="0.6", linestyle=":", linewidth=1)
    tidy(left, xlabel="epoch (dotted: from codes to classes)", ylabel="p", title="learned p")
    for index, name in enumerate((LEARNED, FIXED)):
        rows = [row for row in result.rows if row.method == name and row.quantity == ACCURACY]
        shade = color(2 * index, 4)
        plot_rows(right, rows, "initial p", color=shade, marker="os"[index], label=name)
        places = [row.setting["initial p"] for row in rows]
        right.plot(
            places, [row.paper for row in rows], "x:", color=shade, label=f"{name}, the paper"
        )
    tidy(right, xlabel="initial p", ylabel=ACCURACY, title="handwritten digits")
    return figure


EXPERIMENT = Experiment(
    "digits-initial-p",
    "Handwritten digits: initial p, learned and fixed",
    "Whatever p starts from, it converges to about 1.6; fixing p, even at the learned value, is "
    "worse.",
    measure,
    draw,
)
