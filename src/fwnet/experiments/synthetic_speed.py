"""Speed against error: networks, first-order methods, the certified solver, CVXPY."""

import statistics
import time
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import fwnet
from fwnet.data import SyntheticCodes, synthetic_codes
from fwnet.experiments.claims import Claim
from fwnet.experiments.experiment import Experiment, Lab, Result, Row
from fwnet.experiments.pictures import Lines, panels
from fwnet.experiments.study import measure_cases
from fwnet.experiments.synthetic import (
    PLAIN_CVXPY,
    QUICK_DATA,
    SEEDS,
    CodeCase,
    require_cvxpy,
    scaled_data,
)
from fwnet.functional import value_of
from fwnet.hardware import hardware_name
from fwnet.metrics import code_error

F_W_NETS: dict[str, dict[str, Any]] = {
    "F-W Net": {},
    "F-W Net, shared W": {"options": {"share_weights": True}},
}
NETWORKS = {1.0: {**F_W_NETS, "LISTA": {"model": "LISTA"}}, 1.3: F_W_NETS}
SOLVERS = {"Frank-Wolfe": "frank-wolfe", "ISTA": "ista", "FISTA": "fista"}
STEPS = (2, 4, 6, 16, 64, 256, 1024)
SOLVE_64, SOLVE_32, CVXPY = "fwnet.solve, float64", "fwnet.solve, float32", "CVXPY"
QUANTITY = "µs per code"


def measure(lab: Lab, result: Result) -> None:
    """Take errors from the trained networks of `synthetic-l1`, and time all methods.

    The time of a network does not depend on its weights: those that are timed are not trained.
    """
    require_cvxpy()
    for p, networks in NETWORKS.items():
        cases = [
            CodeCase(name=name, num_layers=depth, data={"p": p}, **options)
            for name, options in networks.items()
            for depth in ((4,) if lab.quick else (2, 4, 6))
            if depth > 2 or "shared" not in name
        ]
        size: dict[str, Any] = QUICK_DATA if lab.quick else {}
        scaled = scaled_data(p=p, seed=SEEDS[0], **size)
        for one in measure_cases(lab, result, cases):
            case = one.case
            network = case.job(lab, one.settings, SEEDS[0]).network(scaled)
            with torch.no_grad():
                seconds = _seconds(partial(network, scaled.test_signals))
            _add(result, case.name, case.num_layers, one.values("error")[0], seconds, scaled)
        data = synthetic_codes(p, seed=SEEDS[0], dtype=torch.float64, **size)
        _time_solvers(result, data, STEPS[:3] if lab.quick else STEPS)


def _time_solvers(result: Result, data: SyntheticCodes, steps: tuple[int, ...]) -> None:
    def solve(x: Tensor, dictionary: Tensor, **options: Any) -> Tensor:
        return fwnet.solve(x, dictionary, data.ball, **options).code

    double = (data.test_signals, data.dictionary)
    single = (data.test_signals.float(), data.dictionary.float())
    runs: list[tuple[str, int | None, tuple[Tensor, Tensor], dict[str, Any]]] = [
        (name, count, single, {"method": method, "max_steps": count, "tol": 1e-15})
        for name, method in SOLVERS.items()
        for count in steps
    ]
    runs += [(SOLVE_64, None, double, {}), (SOLVE_32, None, single, {})]
    for name, count, arguments, options in runs:
        error = code_error(solve(*arguments, **options).double(), data.test_codes).item()
        seconds = _seconds(partial(solve, *arguments, **options))
        _add(result, name, count, error, seconds, data)
    start = time.perf_counter()
    code = solve(*double, method=PLAIN_CVXPY)
    seconds = time.perf_counter() - start
    _add(result, CVXPY, None, code_error(code, data.test_codes).item(), seconds, data)


def _add(
    result: Result,
    name: str,
    steps: int | None,
    error: float,
    seconds: float,
    data: SyntheticCodes,
) -> None:
    setting: dict[str, Any] = {"real p": value_of(data.ball.p)}
    if steps is not None:
        setting["steps"] = steps
    setting["test error"] = error
    each = 1e6 * seconds / len(data.test_signals)
    hardware = hardware_name(torch.device("cpu"))
    result.rows.append(Row(name, setting, QUANTITY, each, values=[each], hardware=hardware))


def _seconds(run: Callable[[], object]) -> float:
    """Return the median of several runs, after one that is not counted."""
    return statistics.median(timeit.repeat(run, number=1, repeat=8)[1:])


def on_the_front(p: float) -> Claim:
    """Return the claim that some network is not dominated: nothing is both faster and better."""

    def check(result: Result) -> tuple[bool, str]:
        at: dict[str, Any] = {"real p": p}
        rows = result.find_all(**at)
        front = [
            row
            for row in rows
            if not any(
                other.mean < row.mean and other.setting["test error"] < row.setting["test error"]
                for other in rows
            )
        ]
        front.sort(key=lambda row: row.mean)
        listed = [
            f"{row.method}{' ' + str(row.setting['steps']) if 'steps' in row.setting else ''} "
            f"({row.mean:.3g} µs, {row.setting['test error']:.3g})"
            for row in front
        ]
        held = any(row.method.startswith("F-W Net") for row in front)
        return held, f"not dominated, with steps, time and error: {', '.join(listed)}"

    return Claim(f"at real p = {p:g} no other method is both faster and better than F-W Net", check)


def faster_than_cvxpy(p: float) -> Claim:
    """Return the claim that the solver is faster than CVXPY."""

    def check(result: Result) -> tuple[bool, str]:
        at: dict[str, Any] = {"real p": p}
        ours, theirs = (result.find(name, **at).mean for name in (SOLVE_32, CVXPY))
        return ours < theirs, f"{ours:.3g} against {theirs:.3g} µs per code"

    return Claim(f"at real p = {p:g} fwnet.solve in float32 is faster than CVXPY", check)


EXPERIMENT = Experiment(
    "synthetic-speed",
    "Speed against error: networks, first-order methods, fwnet.solve, CVXPY",
    "Networks compensate for the truncation error of few iterations; the paper has no times.",
    measure,
    panels(
        *(
            Lines(
                x="test error",
                where={"real p": p},
                quantity=QUANTITY,
                title=f"real p = {p:g}: points of a line are layers or steps",
                legend="beside",
                labels={"xscale": "log", "yscale": "log"},
            )
            for p in NETWORKS
        ),
        width=6.5,
    ),
    claims=(*map(on_the_front, NETWORKS), *map(faster_than_cvxpy, NETWORKS)),
    columns="steps",
    beside="test error",
    note="The paper makes no claim about time. Times are medians of seven runs on two CPU cores, "
    "all codes in one batch.",
)
