"""Optimizer, batch size, weight decay and epochs by their validation errors."""

from __future__ import annotations

import itertools
from typing import Any

from matplotlib.figure import Figure

from fwnet.experiments.experiment import Experiment, Lab, Result, Row
from fwnet.experiments.pictures import color, new_figure, tidy
from fwnet.experiments.synthetic import (
    EPOCHS,
    LEARNING_RATES,
    NUM_VALIDATION,
    QUICK_DATA,
    SGD_RATES,
    TUNING_SEED,
    WEIGHT_DECAYS,
    Case,
    Method,
    fw_net,
)
from fwnet.experiments.words import number

__all__ = ["EXPERIMENT"]

CASES = (
    (fw_net(), 6, 1.0),
    (Method("LISTA", "LISTA"), 6, 1.0),
    (fw_net(), 8, 1.3),
    (Method("MLP, linear last layer", "MLP", {"linear_output": True}, start="random"), 8, 1.3),
)


def measure(lab: Lab, result: Result) -> None:
    """For every case and every choice of one setting, the best over the learning rates."""
    epochs = (3,) if lab.quick else EPOCHS
    held = 200 if lab.quick else NUM_VALIDATION
    choices = _choices(epochs)
    jobs, keys = [], []
    for (method, depth, real), (choice, grid) in itertools.product(CASES, choices.items()):
        data = {"p": real, **(QUICK_DATA if lab.quick else {})}
        case = Case(method, 2 if lab.quick else depth, data)
        for settings in grid[:1] if lab.quick else grid:
            jobs.append(case.job(settings, TUNING_SEED, held))
            keys.append((method.name, case.num_layers, real, choice))
    best: dict[tuple[Any, ...], float] = {}
    for key, record in zip(keys, lab.runner.run(jobs), strict=True):
        error = record["error"]
        if error is not None:
            best[key] = min(error, best.get(key, error))
    for (name, depth, real, choice), error in best.items():
        setting = {"T": depth, "real p": real, "choice": choice}
        result.rows.append(Row(name, setting, "validation error", error, values=[error]))
    result.findings = [
        f"{name}, real p = {real:g}, T = {depth}: "
        + ", ".join(
            f"{row.setting['choice']} {number(row.ours)}"
            for row in result.rows
            if (row.method, row.setting["T"], row.setting["real p"]) == (name, depth, real)
        )
        + "."
        for name, depth, real in dict.fromkeys(key[:3] for key in best)
    ]
    result.findings.append(
        "All other experiments use Adam with batches of 500 and choose the rest for every method."
    )


def _choices(epochs: tuple[int, ...]) -> dict[str, list[dict[str, Any]]]:
    """Grids of learning rates for everything else that is chosen."""

    def grid(
        rates: tuple[float, ...], counts: tuple[int, ...], **others: Any
    ) -> list[dict[str, Any]]:
        return [
            {"learning_rate": rate, "weight_decay": 2e-4, "num_epochs": count, **others}
            for rate, count in itertools.product(rates, counts)
        ]

    choices = {f"{count} epochs": grid(LEARNING_RATES, (count,)) for count in epochs}
    for decay in WEIGHT_DECAYS:
        choices[f"weight decay {decay:g}"] = grid(LEARNING_RATES, epochs, weight_decay=decay)
    choices["batch 100"] = grid(LEARNING_RATES[:3], epochs[:1], batch_size=100)
    choices["SGD"] = grid(SGD_RATES, epochs, optimizer="sgd")
    return choices


def draw(result: Result) -> Figure:
    """A panel a case."""
    cases = list(
        dict.fromkeys((r.method, r.setting["T"], r.setting["real p"]) for r in result.rows)
    )
    figure, axes = new_figure(columns=2, rows=2)
    for axis, (name, depth, real) in zip(axes.flat, cases, strict=True):
        rows = [
            row
            for row in reversed(result.rows)
            if (row.method, row.setting["T"], row.setting["real p"]) == (name, depth, real)
        ]
        axis.barh(
            [row.setting["choice"] for row in rows], [row.ours for row in rows], color=color(1, 4)
        )
        tidy(
            axis,
            legend=False,
            xlabel="validation error",
            title=f"{name}, real p = {real:g}, T = {depth}",
        )
        axis.tick_params(axis="y", labelsize=8)
    return figure


EXPERIMENT = Experiment(
    "synthetic-settings",
    "Optimizer, batch size, weight decay and epochs by their validation error",
    "Weight decay 2e-4; optimizer, epochs and batch size are not told.",
    measure,
    draw,
)
