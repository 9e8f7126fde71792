"""What the network learns: p by epoch, γ before and after, p by T, learned p against real p."""

import itertools
from dataclasses import replace
from statistics import fmean

from fwnet.experiments.claims import Claim, is_better, number
from fwnet.experiments.experiment import Experiment, Lab, MissingRowError, Result
from fwnet.experiments.pictures import Curves, Lines, panels
from fwnet.experiments.study import Measured, measure_cases
from fwnet.experiments.synthetic import CodeCase

REAL_P = 1.3
BY_DEPTH, BY_REAL_P = "learned p", "learned p by real p"
STEPS = ("γ before", "γ after")
SHARED = ", shared W"
SEPARATE_CASE = CodeCase(data={"p": REAL_P})
SHARED_CASE = CodeCase(name=f"F-W Net{SHARED}", options={"share_weights": True})


def measure(lab: Lab, result: Result) -> None:
    """Train at several depths, and at the largest for several real p.

    With one W for all layers, networks for other real p have the settings chosen at 1.3.
    """
    depths = (2, 4) if lab.quick else (2, 4, 6, 8)
    reals = (1.3, 1.7) if lab.quick else tuple(round(1.1 + 0.1 * i, 1) for i in range(10))
    pairs = [(depth, REAL_P) for depth in depths]
    pairs += [(depths[-1], real) for real in reals if real != REAL_P]
    cases = [replace(SEPARATE_CASE, num_layers=depth, data={"p": real}) for depth, real in pairs]
    for one in measure_cases(lab, result, cases):
        depth, real = one.case.num_layers, one.case.data["p"]
        if real == REAL_P:
            _add(result, BY_DEPTH, one)
        if depth == depths[-1]:
            _add(result, BY_REAL_P, one)
        if (depth, real) == (depths[-1], REAL_P):
            result.details["p"] = one.curve("curves", "p")
            result.details["γ before"] = one.records[0]["before"]["gamma"]
            result.details["γ after"] = one.curve("after", "gamma")
    cases = [replace(SHARED_CASE, num_layers=depth, data={"p": REAL_P}) for depth in depths[1:]]
    measured = measure_cases(lab, result, cases)
    for one in measured:
        _add(result, BY_DEPTH + SHARED, one)
    cases = [replace(SHARED_CASE, num_layers=depths[-1], data={"p": real}) for real in reals]
    for one in measure_cases(lab, result, cases, measured[-1].settings):
        _add(result, BY_REAL_P + SHARED, one)


def _add(result: Result, method: str, one: Measured[CodeCase]) -> None:
    setting = {"T": one.case.num_layers, "real p": one.case.data["p"]}
    result.add(method, setting, "p", one.values("after", "p"), one.records)


def comes_closer(result: Result) -> tuple[bool | None, str]:
    """Return whether the distance to the real p falls with every T."""
    rows = result.select(BY_DEPTH)
    far = [
        replace(row, quantity="distance", values=[abs(value - REAL_P) for value in row.values])
        for row in rows
    ]
    closer = [is_better(after, before) for before, after in itertools.pairwise(far)]
    if not closer:
        raise MissingRowError(BY_DEPTH)
    figures = ", ".join(f"{row.mean:.3f} at T = {row.setting['T']}" for row in rows)
    return all(closer), figures


def stays_above(result: Result) -> tuple[bool, str]:
    """Return whether every learned p is above the real one."""
    smallest = min(row.mean for row in result.find_all(BY_DEPTH))
    return smallest > REAL_P, f"{smallest:.3f} or more"


def first_step_stays(result: Result) -> tuple[bool, str]:
    """Return whether γ⁰ stays within 0.01."""
    before, after = (result.find_detail(name)[0] for name in STEPS)
    return abs(after - before) < 0.01, f"{before:.3f} to {after:.3f}"


def other_steps_fall(result: Result) -> tuple[bool, str]:
    """Return whether all other γ fall."""
    pairs = list(zip(*map(result.find_detail, STEPS), strict=True))[1:]
    fallen = sum(after < before for before, after in pairs)
    return fallen == len(pairs), f"{fallen} of {len(pairs)} fall"


def best_at_the_ends(result: Result) -> tuple[bool, str]:
    """Return whether the errors at the smallest and largest real p are below the mean error."""
    rows = result.find_all(BY_REAL_P)
    errors = {row.setting["real p"]: abs(row.mean - row.setting["real p"]) for row in rows}
    ends, mean = [errors[min(errors)], errors[max(errors)]], fmean(errors.values())
    figures = (
        f"off by {number(ends[0])} at {min(errors):g} and {number(ends[1])} at {max(errors):g}; "
        f"{number(mean)} on average"
    )
    return max(ends) < mean, figures


EXPERIMENT = Experiment(
    "synthetic-exponent",
    "What is learned: p by epoch, γ before and after, p by T, learned p by real p",
    "p fluctuates, then converges; as T grows it approaches the real p = 1.3 from above; γ⁰ stays "
    "and all other γ fall; the estimate is best for real p near 1 and 2.",
    measure,
    panels(
        Curves(names=["p"], title="p during training", legend=False, labels={"ylabel": "p"}),
        Curves(
            names=STEPS,
            title="step sizes",
            labels={"xlabel": "t + 1", "ylabel": "γ"},
        ),
        Lines(x="T", methods=(BY_DEPTH, BY_DEPTH + SHARED), guide=REAL_P, title="real p = 1.3"),
        Lines(
            x="real p",
            methods=(BY_REAL_P, BY_REAL_P + SHARED),
            guide="diagonal",
            title="learned p by real p",
        ),
        columns=2,
    ),
    claims=(
        Claim("p comes closer to the real p = 1.3 with every T", comes_closer),
        Claim("the learned p stays above the real p = 1.3", stays_above),
        Claim("γ⁰ stays within 0.01", first_step_stays),
        Claim("all other γ fall", other_steps_fall),
        Claim("the estimate is best for real p near 1 and 2", best_at_the_ends),
    ),
    columns="real p",
    note="Training starts at p = 2, which favors real p near it; where p ends depends on where it "
    "starts (`fwnet reproduce synthetic-initial-p`).",
)
