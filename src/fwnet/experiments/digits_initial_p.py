"""The paper's table of initial p on handwritten digits: learned against fixed."""

import statistics
from dataclasses import replace

from fwnet.experiments.claims import Claim, better
from fwnet.experiments.digits import DigitCase, outcome_of
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.pictures import Curves, Lines, panels
from fwnet.experiments.study import Settings, Tried, best_of, choose, measure_cases

STARTS = (1.1, 1.3, 1.5, 1.6, 1.8, 2.0)
LEARNED, FIXED = "learned p", "fixed p"
ACCURACY, EXPONENT, AFTER_CODES = "test accuracy, %", "p", "p after codes"
PAPER = {
    LEARNED: dict(zip(STARTS, (98.51, 98.45, 98.43, 98.66, 98.38, 98.50), strict=True)),
    FIXED: dict(zip(STARTS, (97.35, 97.70, 98.30, 98.26, 97.90, 97.78), strict=True)),
}
PAPER_P = dict(zip(STARTS, (1.601, 1.600, 1.595, 1.614, 1.601, 1.585), strict=True))
NEAR = 0.05
RADII = (12.5, 25.0, 50.0)
SHARED = DigitCase(
    name="F-W Net, shared W",
    options={"share_weights": True, "p": 1.5},
    choices=tuple({"num_layers": T, "radius": RADII[1]} for T in (3, 4)),
    decays=(1e-3,),
    radii=(0.0,),
    training={"num_epochs": 10},
    pretraining={"num_epochs": 30},
)


def starts_of(lab: Lab) -> tuple[float, ...]:
    """Return the values that p starts from."""
    return STARTS[2:4] if lab.quick else STARTS


def try_radii(lab: Lab, settings: Settings) -> Tried:
    """Try every radius; the loss is the mean error over all starts."""
    jobs = {
        radius: [
            SHARED.trial(lab, {**settings, "radius": radius, "p": start}, [0.0])
            for start in starts_of(lab)
        ]
        for radius in RADII
    }
    lab.runner.run([job for listed in jobs.values() for job in listed])  # all at the same time
    tried = []
    for radius, listed in jobs.items():
        errors = [record["outcomes"][0]["error"] for record in lab.runner.run(listed)]
        loss = statistics.fmean(100.0 if error is None else error for error in errors)
        tried.append(({**settings, "radius": radius}, loss))
    return tried


def measure(lab: Lab, result: Result) -> None:
    """Choose depth and radius, then train from every start, with p learned and fixed."""
    (first,) = choose(lab, result, [SHARED])
    chosen = best_of(result, SHARED.search_key, try_radii(lab, first))
    setting = {name: chosen[name] for name in ("num_layers", "radius")}
    cases = [
        replace(SHARED, name=name, options={**SHARED.options, "p": start, "learn_p": learn})
        for name, learn in ((LEARNED, True), (FIXED, False))
        for start in starts_of(lab)
    ]
    for measured in measure_cases(lab, result, cases, chosen):
        name, start = measured.case.name, measured.case.options["p"]
        outcomes = [outcome_of(record, 0) for record in measured.records]
        place = {"initial p": start, **setting}
        accuracies = [100 - outcome["error"] for outcome in outcomes]
        result.add(name, place, ACCURACY, accuracies, outcomes, PAPER[name][start])
        if name == LEARNED:
            ends = [outcome["p"] for outcome in outcomes]
            result.add(name, place, EXPONENT, ends, outcomes, PAPER_P[start])
            result.add(name, place, AFTER_CODES, measured.values("pretraining", "p"))
            before = measured.curve("pretraining", "p_by_epoch")
            after = measured.curve("outcomes", 0, "p_by_epoch")
            result.details[f"{start:g}"] = [start, *before, *after]


def ends_together(quantity: str, text: str) -> Claim:
    """Return the claim that p ends within `NEAR` of one value from every start."""

    def check(result: Result) -> tuple[bool, str]:
        ends = [row.mean for row in result.find_all(LEARNED, quantity)]
        half = (max(ends) - min(ends)) / 2
        return half <= NEAR, f"{', '.join(f'{p:.3f}' for p in ends)}"

    return Claim(text, check)


def near_the_paper(result: Result) -> tuple[bool, str]:
    """Return whether p ends near 1.6 from every start."""
    ends = [row.mean for row in result.find_all(LEARNED, EXPONENT)]
    held = all(abs(p - 1.6) <= NEAR for p in ends)
    return held, f"{min(ends):.3f} to {max(ends):.3f}"


EXPERIMENT = Experiment(
    "digits-initial-p",
    "Handwritten digits: initial p, learned and fixed",
    "Whatever p starts from, it converges to about 1.6; fixing p, even at the learned value, is "
    "worse.",
    measure,
    panels(
        Curves(
            names=[f"{start:g}" for start in STARTS],
            title="learned p by its start (codes, then classes)",
            labels={"ylabel": "p"},
        ),
        Lines(x="initial p", quantity=ACCURACY, title="handwritten digits"),
    ),
    claims=(
        ends_together(AFTER_CODES, f"p is within {NEAR} of one value after codes are learned"),
        ends_together(EXPONENT, f"p is within {NEAR} of one value after classes are learned"),
        Claim("p converges to about 1.6", near_the_paper),
        better(
            "a learned p is better than a fixed one from every start",
            LEARNED,
            FIXED,
            "initial p",
        ),
    ),
    columns="initial p",
    needs=("MNIST",),
    note="One W for all layers. c was chosen by the mean validation error over all starts of a "
    "learned p; networks with a fixed p have the same c.",
)
