"""Training error by epoch and test error by T at real p = 1.3."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from fwnet.experiments.experiment import Experiment, Lab, Result, row_of
from fwnet.experiments.pictures import color, marker, new_figure, plot_rows, tidy
from fwnet.experiments.synthetic import (
    SMALL_STEPS,
    Method,
    fw_net,
    measure_networks,
    require_cvxpy,
    solver_errors,
)
from fwnet.experiments.words import compare_by_depth, is_better_everywhere, number, verdict

__all__ = ["EXPERIMENT"]

REAL_P = 1.3
FIXED = {"learn_p": False, "learn_step_sizes": False}
F_W_NET, SHARED, ORIGINAL = "F-W Net", "F-W Net, shared W", "Original F-W"
WRONG, SURROGATE = "F-W fixed {wrong p = 1, γ}", "F-W fixed {wrong p = 1.01, γ}"
METHODS = (
    fw_net(F_W_NET),
    fw_net("F-W fixed γ", learn_step_sizes=False),
    fw_net("F-W fixed {p, γ}", p=REAL_P, **FIXED),
    replace(fw_net(WRONG, p=1.0, **FIXED), learns=False),
    replace(fw_net(SURROGATE, p=1.01, **FIXED), more_choices=SMALL_STEPS),
    Method("MLP", "MLP", start="random"),
    Method("MLP, linear last layer", "MLP", {"linear_output": True}, start="random"),
)
EXACT, CVX = "fwnet.solve (least norm)", "CVX"


def measure(lab: Lab, result: Result) -> None:
    """Train every method at every depth; run the algorithms for as many steps."""
    require_cvxpy()
    depths = (2, 4) if lab.quick else (2, 4, 6, 8)
    data = {"p": REAL_P}
    cases = [(method, depth, data) for method in METHODS for depth in depths]
    for measured in measure_networks(lab, result, cases):
        result.rows.append(measured.row())
        if measured.case.num_layers == depths[-1]:
            name = measured.case.method.name
            result.curves[name] = measured.curve("training_error")
    deeper = [(fw_net(SHARED, share_weights=True), depth, data) for depth in depths[1:]]
    result.rows += [measured.row() for measured in measure_networks(lab, result, deeper)]
    for depth in depths:
        records = solver_errors(lab, data, method="frank-wolfe", max_steps=depth)
        errors = [record["error"] for record in records]
        result.rows.append(row_of(ORIGINAL, {"T": depth}, "test error", errors))
    for name, method in ((EXACT, "auto"), (CVX, "cvxpy")):
        records = solver_errors(lab, data, method=method)
        errors = [record["error"] for record in records]
        for depth in depths:  # the same at every T, to compare with
            result.rows.append(row_of(name, {"T": depth}, "test error", errors))
    result.findings = _findings(result, list(depths))


def _findings(result: Result, depths: list[int]) -> list[str]:
    others = [ORIGINAL, *(method.name for method in METHODS[1:]), CVX, EXACT]
    sentences = [compare_by_depth(result, F_W_NET, other, depths) for other in others]
    last = depths[-1]
    sentences += [
        compare_by_depth(result, SHARED, other, depths[1:]) for other in (F_W_NET, CVX, EXACT)
    ]
    means = {
        name: result.find(name, T=last).ours for name in (F_W_NET, SHARED, ORIGINAL, CVX, EXACT)
    }
    errors = ", ".join(f"{name} {number(value)}" for name, value in means.items())
    sentences.append(f"Test errors at T = {last}: {errors}.")
    sentences += [
        compare_by_depth(result, name, ORIGINAL, depths)
        for name in (WRONG, SURROGATE, "MLP", "MLP, linear last layer")
    ]
    curve = result.curves[F_W_NET]
    sentences.append(
        f"At T = {last} the training error of F-W Net ends at {number(curve[-1])}, its test error "
        f"is {number(means[F_W_NET])}."
    )

    def better(ours: str, *theirs: str, at: list[int] = depths) -> bool:
        return all(is_better_everywhere(result, ours, name, at) for name in theirs)

    mlps = ("MLP", "MLP, linear last layer")
    sentences.append(
        verdict(
            {
                "F-W Net beats Original F-W at every T": better(F_W_NET, ORIGINAL),
                "it beats MLP in both forms at every T": better(F_W_NET, *mlps),
                "it beats F-W with the wrong p at every T": better(F_W_NET, WRONG, SURROGATE),
                "it beats F-W fixed {p, γ} at every T": better(F_W_NET, "F-W fixed {p, γ}"),
                "it beats F-W fixed γ at every T": better(F_W_NET, "F-W fixed γ"),
                "it beats CVX at every T": better(F_W_NET, CVX),
                "trained weights with the wrong p beat Original F-W": better(SURROGATE, ORIGINAL),
                "Original F-W beats MLP from T = 4 on": better(ORIGINAL, *mlps, at=depths[1:]),
            }
        )
    )
    return sentences


def draw(result: Result) -> Figure:
    """The two panels of the paper's figure."""
    figure, (left, right) = new_figure(columns=2, width=6.5)
    depths = sorted({row.setting["T"] for row in result.rows})
    names = list(dict.fromkeys(row.method for row in result.rows))
    for index, name in enumerate(names):
        rows = [row for row in result.rows if row.method == name]
        shade = color(index, len(names))
        line = "--" if name in (ORIGINAL, EXACT, CVX) else "-"
        plot_rows(right, rows, "T", color=shade, linestyle=line, marker=marker(index), label=name)
        curve = result.curves.get(name)
        if curve and name != WRONG:
            left.plot(range(1, len(curve) + 1), curve, color=shade)
        if name == ORIGINAL:
            left.axhline(result.find(name, T=depths[-1]).ours, color=shade, linestyle="--")
    labels: dict[str, Any] = {"ylabel": "error a sample", "yscale": "log"}
    tidy(left, legend=False, xlabel="epoch", title=f"training, T = {depths[-1]}", **labels)
    tidy(right, legend_beside=True, xlabel="T", title="test", xticks=depths, **labels)
    return figure


EXPERIMENT = Experiment(
    "synthetic-error",
    "Training error by epoch and test error by T at p = 1.3",
    "F-W Net has the smallest error at every T; Original F-W hardly improves from T = 4 on and "
    "beats MLP after 4 iterations; learning γ and p helps; a wrong p does much damage, though "
    "trained weights still beat Original F-W; CVX does not do well.",
    measure,
    draw,
)
