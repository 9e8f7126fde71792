"""A step size for every sample: F-W Net with a line search beside every form of LISTA."""

from dataclasses import replace
from functools import partial
from typing import Any

from fwnet.experiments.alista import ALISTA
from fwnet.experiments.claims import better, reaches
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.pictures import Lines, panels
from fwnet.experiments.study import Settings, measure_cases
from fwnet.experiments.synthetic import ERROR, CodeCase, add_errors, settings_grid, solver_errors

RATES, DECAYS, EPOCHS = (3e-3, 1e-2), (0.0, 2e-5), (100,)
DEPTHS = (2, 4, 6, 8)
FREE = (0, 2)
GRID = settings_grid(RATES, DECAYS, EPOCHS)
# For the two networks with free entries: their number in place of the weight decay.
FREE_GRID: tuple[Settings, ...] = tuple(
    {**settings, "options": {"free_entries": count}}
    for settings in settings_grid(RATES, (0.0,), EPOCHS)
    for count in FREE
)
CONJUGATE, EXACT, SHARED = "F-W Net, conjugate steps", "F-W Net, exact steps", "F-W Net, shared W"
LISTA, COUPLED, SELECTION = "LISTA", "LISTA, coupled", "LISTA, coupled, support selection"
ANALYTIC = ALISTA.__name__
REAL: dict[float, dict[str, Any]] = {p: {"real p": p} for p in (1.0, 1.3)}
RADII: dict[str, Any] = {"learn_radius": True}
code_case = partial(CodeCase, choices=GRID)
conjugate = code_case(
    name=CONJUGATE,
    options={"line_search": "conjugate", "activation": "shrink", **RADII},
    choices=FREE_GRID,
)
exact = code_case(name=EXACT, options={"line_search": "exact", "p_per_layer": True, **RADII})
shared = code_case(name=SHARED, options={"share_weights": True, **RADII})
selection = code_case(name=SELECTION, model="LISTA", options={"coupled": True}, choices=FREE_GRID)
SPARSE_METHODS = (
    conjugate,
    code_case(name=LISTA, model="LISTA"),
    code_case(name=COUPLED, model="LISTA", options={"coupled": True}),
    selection,
    code_case(name=ANALYTIC, model=ANALYTIC, choices=FREE_GRID),
)
METHODS = {1.0: SPARSE_METHODS, 1.3: (conjugate, exact, shared, selection)}
METHODS |= dict.fromkeys((1.6, 2.0), (exact, shared, selection))


def measure(lab: Lab, result: Result) -> None:
    """Train every method, at real p = 1 at every depth, at other p at T = 4."""
    cases = []
    for real, methods in METHODS.items():
        depths = (2,) if lab.quick else DEPTHS if real == 1 else (4,)
        cases += [
            replace(method, num_layers=T, data={"p": real}, setting={"real p": real})
            for method in methods
            for T in depths
        ]
    for measured in measure_cases(lab, result, cases):
        add_errors(result, measured)
    for real in METHODS:
        errors = solver_errors(lab, {"p": real})
        result.add("fwnet.solve", {"real p": real}, ERROR, errors)


EXPERIMENT = Experiment(
    "synthetic-steps",
    "A step size for every sample: F-W Net with a line search, and forms of LISTA",
    "(Not in the paper.) F-W Net has one γ per layer; LISTA is ahead of it at real p = 1.",
    measure,
    panels(
        Lines(
            x="T",
            methods=[case.name for case in SPARSE_METHODS],
            where={"real p": 1.0},
            quantity=ERROR,
            title="real p = 1",
            legend="beside",
            labels={"yscale": "log"},
        ),
        width=8.0,
    ),
    claims=(
        *(
            better(
                f"conjugate steps make F-W Net better than every form of LISTA at T = {T}",
                CONJUGATE,
                [case.name for case in SPARSE_METHODS[1:]],
                "T",
                (T,),
                **REAL[1.0],
            )
            for T in DEPTHS
        ),
        better(
            "exact steps are better than a learned γ at real p above 1",
            EXACT,
            SHARED,
            "real p",
            (1.3, 1.6, 2.0),
            T=4,
        ),
        reaches(
            "exact steps have an error of 1.45 or less at real p = 1.3",
            EXACT,
            1.45,
            T=4,
            **REAL[1.3],
        ),
        better(
            "a form of F-W Net is better than coupled LISTA with support selection at real p = 1.3",
            CONJUGATE,
            SELECTION,
            T=4,
            **REAL[1.3],
        ),
    ),
    columns="T",
    note="F-W Net with a line search and coupled LISTA have one W_0 and one D for all layers. "
    "Networks with free entries choose their number per layer (0 or 2) on validation data, the "
    "others a weight decay (0 or 2e-5), and all a learning rate (0.003 or 0.01).",
)
