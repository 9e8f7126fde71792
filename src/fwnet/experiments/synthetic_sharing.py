"""One W_t for all layers, or one a layer."""

from __future__ import annotations

from matplotlib.figure import Figure

from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.pictures import color, new_figure, plot_rows, tidy
from fwnet.experiments.synthetic import fw_net, measure_networks
from fwnet.experiments.words import is_below, number, verdict

__all__ = ["EXPERIMENT"]

SEPARATE, SHARED = "separate W_t", "shared W"
METHODS = (fw_net(SEPARATE), fw_net(SHARED, share_weights=True))


def measure(lab: Lab, result: Result) -> None:
    """Train both at real p = 1.3 and 1."""
    depths = {1.3: (4,), 1.0: (4,)} if lab.quick else {1.3: (4, 6, 8), 1.0: (4, 6)}
    cases = [
        (m, depth, {"p": p}) for m in METHODS for p, listed in depths.items() for depth in listed
    ]
    for measured in measure_networks(lab, result, cases):
        real = measured.case.data["p"]
        result.rows.append(measured.row(**{"real p": real}))
        if (real, measured.case.num_layers) == (1.3, depths[1.3][-1]):
            result.curves[measured.case.method.name] = measured.curve("training_error")
    result.findings = []
    for row in [row for row in result.rows if row.method == SEPARATE]:
        shared = result.find(SHARED, **row.setting)
        word = {True: "better", False: "worse", None: "not told apart from shared ones"}[
            is_below(row.values, shared.values)
        ]
        result.findings.append(
            f"Real p = {row.setting['real p']:g}, T = {row.setting['T']}: separate matrices are "
            f"{word} ({number(row.ours)} against {number(shared.ours)}; {row.num_parameters:,} "
            f"against {shared.num_parameters:,} parameters)."
        )
    separate = [row for row in result.rows if row.method == SEPARATE]
    always = all(
        is_below(row.values, result.find(SHARED, **row.setting).values) for row in separate
    )
    result.findings.append(verdict({"not sharing the weights always helps": always}))


def draw(result: Result) -> Figure:
    """Errors by T, and the training of the deepest."""
    figure, (left, right) = new_figure(columns=2)
    for index, name in enumerate((SEPARATE, SHARED)):
        for real, style in ((1.3, "-"), (1.0, "--")):
            rows = [r for r in result.rows if r.method == name and r.setting["real p"] == real]
            label = f"{name}, real p = {real:g}"
            plot_rows(
                left, rows, "T", color=color(2 * index, 4), linestyle=style, marker="o", label=label
            )
        curve = result.curves[name]
        right.plot(range(1, len(curve) + 1), curve, color=color(2 * index, 4), label=name)
    tidy(left, xlabel="T", ylabel="test error", title="test")
    tidy(right, xlabel="epoch", ylabel="training error", title="training, real p = 1.3, deepest")
    return figure


EXPERIMENT = Experiment(
    "synthetic-sharing",
    "One matrix W_t for all layers, or one a layer",
    "Not sharing the weights always improves the performance; sharing makes training converge "
    "fast.",
    measure,
    draw,
)
