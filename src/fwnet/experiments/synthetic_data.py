"""Which laws of y and D? Those under which the exact solution has the error the paper prints."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.figure import Figure

from fwnet.experiments.experiment import Experiment, Lab, Result, row_of
from fwnet.experiments.pictures import color, new_figure, tidy
from fwnet.experiments.synthetic import Method, fw_net, measure_networks, solver_errors
from fwnet.experiments.words import comma_list, number, verdict

__all__ = ["EXPERIMENT"]

PAPER_CVX = 0.0036
CHOSEN = "y ~ N(0, 1), D ~ N(0, 10²)"
LAWS: dict[str, dict[str, Any]] = {
    CHOSEN: {},
    "y ~ N(0, 1), D ~ N(0, 1)": {"dictionary_scale": 1.0},
    "y ~ N(0, 1), D ~ N(0, 3²)": {"dictionary_scale": 3.0},
    "y ~ N(0, 1), D ~ N(0, 100²)": {"dictionary_scale": 100.0},
    "y ~ N(0, 1), D with unit atoms": {"dictionary_scale": 1.0, "unit_atoms": True},
    "y ~ N(0, 1), D ~ U(−1, 1)": {"dictionary_scale": 1.0, "dictionary_law": "uniform"},
    "y ~ N(0, 1), D ~ U(−10, 10)": {"dictionary_law": "uniform"},
    "y ~ N(0, 1), D ~ U(0, 1)": {"dictionary_scale": 1.0, "dictionary_law": "positive-uniform"},
    "y ~ N(0, 2²), D ~ N(0, 1)": {"dictionary_scale": 1.0, "code_scale": 2.0},
    "y ~ N(0, 10²), D ~ N(0, 1)": {"dictionary_scale": 1.0, "code_scale": 10.0},
    "y ~ U(−1, 1), D ~ N(0, 1)": {"dictionary_scale": 1.0, "code_law": "uniform"},
    "y ~ U(−1, 1), D ~ N(0, 10²)": {"code_law": "uniform"},
    "y ~ U(0, 1), D ~ N(0, 10²)": {"code_law": "positive-uniform"},
}
TRAINED = (
    CHOSEN,
    "y ~ N(0, 1), D ~ N(0, 1)",
    "y ~ N(0, 1), D with unit atoms",
    "y ~ N(0, 10²), D ~ N(0, 1)",
)
METHODS = (fw_net(), Method("LISTA", "LISTA"))


def measure(lab: Lab, result: Result) -> None:
    """Solve under every law; then, to see what the choice does, train under some."""
    depth = 2 if lab.quick else 6
    trained = TRAINED[:2] if lab.quick else TRAINED
    for name, law in LAWS.items():
        records = solver_errors(lab, {"p": 1.0, **law})
        errors = [record["error"] for record in records]
        paper = PAPER_CVX if name == CHOSEN else None
        result.rows.append(
            row_of("exact solution", {"law": name}, "test error", errors, paper=paper)
        )
    cases = [(method, depth, {"p": 1.0, **LAWS[name]}) for name in trained for method in METHODS]
    names = [name for name in trained for _ in METHODS]
    for name, measured in zip(names, measure_networks(lab, result, cases), strict=True):
        result.rows.append(measured.row(law=name))
    result.findings = _findings(result, trained, depth)


def _findings(result: Result, trained: tuple[str, ...], depth: int) -> list[str]:
    exact = {row.setting["law"]: row for row in result.rows if row.method == "exact solution"}
    nearest = sorted(exact, key=lambda name: abs(math.log(exact[name].ours / PAPER_CVX)))
    chosen = exact[CHOSEN]
    order = [
        f"{number(result.find('F-W Net', law=name).ours)} against "
        f"{number(result.find('LISTA', law=name).ours)} with {name}"
        for name in trained
    ]
    return [
        f"The paper's CVX error at p = 1 is {PAPER_CVX}. Nearest to it are "
        f"{comma_list([f'{name} ({number(exact[name].ours)})' for name in nearest[:3]])}.",
        f"With {CHOSEN} the seeds give {number(min(chosen.values))} to "
        f"{number(max(chosen.values))}; of the laws near the figure it is the simplest. It is "
        "the same problem as D ~ N(0, 1) with noise of deviation (instead of variance) 0.01.",
        f"F-W Net against LISTA at T = {depth}: {'; '.join(order)}.",
        verdict(
            {"the CVX error can be met": min(chosen.values) <= PAPER_CVX <= max(chosen.values)}
        ),
    ]


def draw(result: Result) -> Figure:
    """Errors under every law, with the paper's."""
    figure, axis = new_figure(width=8)
    rows = [row for row in result.rows if row.method == "exact solution"]
    for index, row in enumerate(reversed(rows)):
        chosen = row.setting["law"] == CHOSEN
        axis.barh(index, row.ours, xerr=row.spread, color=color(0 if chosen else 2, 4))
    axis.axvline(PAPER_CVX, color="0.2", linestyle="--", label="the paper's CVX")
    labels = [row.setting["law"] for row in reversed(rows)]
    axis.set_yticks(range(len(rows)), labels, fontsize=8)
    tidy(axis, xscale="log", xlabel="error of the exact solution at p = 1")
    return figure


EXPERIMENT = Experiment(
    "synthetic-data",
    "The laws of y and D, which the paper leaves open, by its CVX error",
    "CVX has an error of 0.0036 at p = 1 (noise variance 0.01, m = 100, n = 50, c = 5).",
    measure,
    draw,
)
