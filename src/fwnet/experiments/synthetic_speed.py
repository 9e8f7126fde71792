"""Speed against error: networks, first-order methods, the certified solver, CVXPY."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

import fwnet
from fwnet.data import SyntheticCodes, synthetic_codes
from fwnet.experiments.experiment import Experiment, Lab, Result, Row
from fwnet.experiments.pictures import color, marker, new_figure, tidy
from fwnet.experiments.synthetic import (
    QUICK_DATA,
    SEEDS,
    Measured,
    Method,
    cvxpy_codes,
    fw_net,
    measure_networks,
    require_cvxpy,
    scaled_data,
)
from fwnet.experiments.words import comma_list
from fwnet.functional import value_of
from fwnet.hardware import hardware_name
from fwnet.metrics import code_error

__all__ = ["EXPERIMENT"]

F_W_NETS = (fw_net("F-W Net"), fw_net("F-W Net, shared W", share_weights=True))
NETWORKS = {1.0: (*F_W_NETS, Method("LISTA", "LISTA")), 1.3: F_W_NETS}
SOLVERS = {"Frank-Wolfe": "frank-wolfe", "ISTA": "ista", "FISTA": "fista"}
STEPS = (2, 4, 6, 16, 64, 256, 1024)
SOLVE_64, SOLVE_32, CVXPY = "fwnet.solve, float64", "fwnet.solve, float32", "CVXPY"
QUANTITY = "µs a code"


def measure(lab: Lab, result: Result) -> None:
    """Errors of the trained networks as in `synthetic-l1`; times of all, one after the other.

    How long a network takes does not depend on the values of its weights, so those that are timed
    have the weights they start from.
    """
    require_cvxpy()
    for p, methods in NETWORKS.items():
        depths = (4,) if lab.quick else (2, 4, 6)
        cases = [
            (method, depth, {"p": p})
            for method in methods
            for depth in depths
            if depth > 2 or not method.options.get("share_weights")
        ]
        measured = measure_networks(lab, result, cases)
        size: dict[str, Any] = QUICK_DATA if lab.quick else {}
        data = synthetic_codes(p, seed=SEEDS[0], dtype=torch.float64, **size)
        _time_networks(result, measured, scaled_data(p=p, seed=SEEDS[0], **size))
        _time_solvers(result, data, STEPS[:3] if lab.quick else STEPS)
        result.findings += _findings(result, p)
    result.findings.append("The paper makes no claim about time.")


def _time_networks(result: Result, measured: list[Measured], data: SyntheticCodes) -> None:
    for one in measured:
        network = one.case.job(one.settings, SEEDS[0]).network(data)
        with torch.no_grad():
            seconds = _seconds(partial(network, data.test_signals))
        _add(result, one.case.method.name, one.case.num_layers, one.errors[0], seconds, data)


def _time_solvers(result: Result, data: SyntheticCodes, steps: tuple[int, ...]) -> None:
    def solve(x: Tensor, dictionary: Tensor, **options: Any) -> Tensor:
        return fwnet.solve(x, dictionary, data.ball, **options).code

    x, dictionary = data.test_signals, data.dictionary
    single = (x.float(), dictionary.float())
    for name, method in SOLVERS.items():
        for count in steps:
            options: dict[str, Any] = {"method": method, "max_steps": count, "tol": 1e-15}
            code = solve(*single, **options)
            seconds = _seconds(partial(solve, *single, **options))
            error = code_error(code, data.test_codes.float()).item()
            _add(result, name, count, error, seconds, data)
    for name, arguments in ((SOLVE_64, (x, dictionary)), (SOLVE_32, single)):
        code = solve(*arguments).double()
        seconds = _seconds(partial(solve, *arguments))
        _add(result, name, None, code_error(code, data.test_codes).item(), seconds, data)
    start = time.perf_counter()
    code = cvxpy_codes(data)
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
    """The median of several runs, after one that does not count."""
    run()
    times = []
    for _ in range(7):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _findings(result: Result, p: float) -> list[str]:
    def label(row: Row) -> str:
        steps = f" with {row.setting['steps']} steps" if "steps" in row.setting else ""
        return f"{row.method}{steps} ({row.ours:.2g} µs, {row.setting['test error']:.3g})"

    rows = [row for row in result.rows if row.setting["real p"] == p]
    front = [
        row
        for row in rows
        if not any(
            other.ours < row.ours and other.setting["test error"] < row.setting["test error"]
            for other in rows
        )
    ]
    front.sort(key=lambda row: row.ours)
    exact, cvxpy = (result.find(name, **{"real p": p}) for name in (SOLVE_32, CVXPY))
    return [
        f"Real p = {p:g}: no other method is both faster and better than these, from fast to "
        f"exact: {comma_list([label(row) for row in front])}.",
        f"Real p = {p:g}: fwnet.solve in float32 takes {exact.ours:.3g} µs a code, CVXPY "
        f"{cvxpy.ours:.3g}: "
        f"{cvxpy.ours / exact.ours:.0f} times as long.",
    ]


def draw(result: Result) -> Figure:
    """Time against error, both on a log scale."""
    figure, axes = new_figure(columns=2, width=6.5)
    names = list(dict.fromkeys(row.method for row in result.rows))
    for axis, p in zip(axes, NETWORKS, strict=True):
        for index, name in enumerate(names):
            rows = [r for r in result.rows if r.method == name and r.setting["real p"] == p]
            axis.plot(
                [row.ours for row in rows],
                [row.setting["test error"] for row in rows],
                marker=marker(index),
                color=color(index, len(names)),
                label=name,
            )
        title = f"real p = {p:g}: points of a line are layers or steps"
        labels: dict[str, Any] = {"xlabel": QUANTITY, "ylabel": "test error", "title": title}
        beside = p == list(NETWORKS)[-1]
        tidy(axis, beside, beside, xscale="log", yscale="log", **labels)
    return figure


EXPERIMENT = Experiment(
    "synthetic-speed",
    "Speed against error: networks, first-order methods, fwnet.solve, CVXPY",
    "Networks compensate for the truncation error of few iterations; the paper has no times.",
    measure,
    draw,
)
