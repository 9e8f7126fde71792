"""Optimizer, batch size, weight decay and epochs by their validation errors."""

import itertools

from fwnet.experiments.experiment import Experiment, Lab, Result, Row
from fwnet.experiments.pictures import Bars, panels
from fwnet.experiments.study import Settings
from fwnet.experiments.synthetic import (
    EPOCHS,
    LEARNING_RATES,
    NUM_VALIDATION,
    SGD_RATES,
    TUNING_SEED,
    WEIGHT_DECAYS,
    CodeCase,
    settings_grid,
)

QUANTITY = "validation error"
LINEAR_MLP = "MLP, linear last layer"
CASES = (
    CodeCase(num_layers=6, data={"p": 1.0}),
    CodeCase(name="LISTA", model="LISTA", num_layers=6, data={"p": 1.0}),
    CodeCase(num_layers=8, data={"p": 1.3}),
    CodeCase(
        name=LINEAR_MLP,
        model="MLP",
        options={"linear_output": True},
        start="random",
        num_layers=8,
        data={"p": 1.3},
    ),
)


def measure(lab: Lab, result: Result) -> None:
    """Find the best error over the learning rates for every case and every choice of a setting."""
    grids, held = grids_of((1,) if lab.quick else EPOCHS), 200 if lab.quick else NUM_VALIDATION
    for case, (choice, grid) in itertools.product(CASES, grids.items()):
        jobs = [case.job(lab, settings, TUNING_SEED, held) for settings in grid]
        records = lab.runner.run(jobs[:1] if lab.quick else jobs)
        errors = [record["error"] for record in records if record["error"] is not None]
        if errors:
            setting = {"T": case.num_layers, "real p": case.data["p"], "choice": choice}
            result.rows.append(Row(case.name, setting, QUANTITY, min(errors), values=[min(errors)]))


def grids_of(epochs: tuple[int, ...]) -> dict[str, tuple[Settings, ...]]:
    """Return the grid of learning rates for every choice of another setting."""
    grids = {f"{count} epochs": settings_grid(decays=(2e-4,), epochs=(count,)) for count in epochs}
    for decay in WEIGHT_DECAYS:
        grids[f"weight decay {decay:g}"] = settings_grid(decays=(decay,), epochs=epochs)
    grids["batch 100"] = settings_grid(LEARNING_RATES[:3], (2e-4,), epochs[:1], batch_size=100)
    grids["SGD"] = settings_grid(SGD_RATES, (2e-4,), epochs, optimizer="sgd")
    return grids


EXPERIMENT = Experiment(
    "synthetic-settings",
    "Optimizer, batch size, weight decay and epochs by their validation error",
    "Weight decay 2e-4; optimizer, epochs and batch size are not stated.",
    measure,
    panels(
        *(
            Bars(
                methods=(case.name,),
                where={"real p": case.data["p"]},
                quantity=QUANTITY,
                label="choice",
                from_zero=True,
                title=f"{case.name}, real p = {case.data['p']:g}, T = {case.num_layers}",
                labels={"xlabel": QUANTITY},
            )
            for case in CASES
        ),
        columns=2,
    ),
    columns="choice",
    note="All other experiments use Adam with batches of 500 and choose the rest for every method.",
)
