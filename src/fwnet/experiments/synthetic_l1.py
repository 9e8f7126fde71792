"""The paper's table at real p = 1: CVX, F-W Net, F-W Net with fixed p, LISTA at T = 2, 4, 6."""

from dataclasses import replace
from functools import partial

from fwnet.experiments.claims import alike, better, reaches
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.pictures import Lines, panels
from fwnet.experiments.study import measure_cases
from fwnet.experiments.synthetic import (
    EPOCHS,
    ERROR,
    SGD_RATES,
    WITH_SMALL_STEPS,
    CodeCase,
    add_errors,
    require_cvxpy,
    settings_grid,
    solver_errors,
)

DATA = {"p": 1.0}
F_W_NET, LISTA = "F-W Net", "LISTA"
SHARED, SHARED_RADII = "F-W Net, shared W", "F-W Net, shared W, learned radii"
SHARED_LISTA = "LISTA, shared"
EXACT_P, SURROGATE = "F-W fixed p = 1", "F-W fixed p = 1.01"
RADII: dict[str, object] = {"learn_radius": True}
code_case = partial(CodeCase, data=DATA)
METHODS = (
    code_case(name=F_W_NET),
    # Its weights get no gradient, so nothing but weight decay would move them.
    code_case(name=EXACT_P, options={"p": 1.0, "learn_p": False}, given={"weight_decay": 0.0}),
    code_case(name=SURROGATE, options={"p": 1.01, "learn_p": False}, choices=WITH_SMALL_STEPS),
    code_case(name=LISTA, model="LISTA"),
    code_case(name="F-W Net, learned radii", options=RADII),
    code_case(name="F-W Net, learned radii, p per layer", options={**RADII, "p_per_layer": True}),
)
# With T = 2 there is one matrix, shared or not.
DEEP_METHODS = (
    code_case(name=SHARED, options={"share_weights": True}),
    code_case(name=SHARED_RADII, options={"share_weights": True, **RADII}),
    code_case(name=SHARED_LISTA, model="LISTA", options={"share_weights": True}),
)
# The optimizer that did better for this one case in `synthetic-settings`.
SGD_CHOICES = settings_grid(SGD_RATES, (2e-4,), EPOCHS, optimizer="sgd")
WITH_SGD = code_case(name="F-W Net, SGD", choices=SGD_CHOICES)
PAPER = {
    F_W_NET: {2: 0.5641, 4: 0.3480, 6: 0.1961},
    EXACT_P: {2: 1.2076, 4: 0.8604, 6: 0.7358},
    LISTA: {2: 0.4157, 4: 0.3481, 6: 0.3053},
}
PAPER_P = {2: 1.360, 4: 1.254, 6: 1.222}
PAPER_CVX = 0.0036


def measure(lab: Lab, result: Result) -> None:
    """Train every method at every depth."""
    require_cvxpy()
    depths = (2, 4) if lab.quick else (2, 4, 6)
    cases = [replace(method, num_layers=depth) for method in METHODS for depth in depths]
    cases += [replace(method, num_layers=depth) for method in DEEP_METHODS for depth in depths[1:]]
    cases.append(replace(WITH_SGD, num_layers=depths[-1]))
    for measured in measure_cases(lab, result, cases):
        name, depth = measured.case.name, measured.case.num_layers
        add_errors(result, measured, PAPER.get(name, {}).get(depth))
        if name == F_W_NET:
            values = measured.values("after", "p")
            result.add("learned p", {"T": depth}, "p", values, paper=PAPER_P[depth])
    result.add("fwnet.solve", {}, ERROR, solver_errors(lab, DATA))
    errors = solver_errors(lab, DATA, method="cvxpy")
    result.add("CVX", {}, ERROR, errors, paper=PAPER_CVX)


EXPERIMENT = Experiment(
    "synthetic-l1",
    "The table at real p = 1: CVX, F-W Net, F-W Net with fixed p, LISTA",
    "F-W Net beats F-W Net with p fixed at 1; LISTA is ahead at T = 2, level at T = 4, and far "
    "behind at T = 6.",
    measure,
    panels(
        Lines(
            x="T",
            methods=[case.name for case in (*METHODS, *DEEP_METHODS)],
            quantity=ERROR,
            title="real p = 1",
            legend="beside",
            labels={"yscale": "log"},
        ),
        Lines(x="T", quantity="p", title="learned p of F-W Net"),
        width=6.5,
    ),
    claims=(
        better("F-W Net is better than with p fixed at 1", F_W_NET, EXACT_P, "T"),
        better("F-W Net is better than with p fixed at 1.01", F_W_NET, SURROGATE, "T"),
        *(
            reaches(f"F-W Net has the paper's error or less at T = {T}", F_W_NET, T=T)
            for T in (2, 4, 6)
        ),
        better("LISTA is better than F-W Net at T = 2", LISTA, F_W_NET, "T", (2,)),
        alike("LISTA and F-W Net are level at T = 4", LISTA, F_W_NET, ERROR, T=4),
        better("F-W Net is better than LISTA at T = 6", F_W_NET, LISTA, "T", (6,)),
        better(
            "one W and learned radii make F-W Net better than LISTA with one S",
            SHARED_RADII,
            SHARED_LISTA,
            "T",
        ),
    ),
    columns="T",
    note="The rows with learned radii or one matrix for all layers, and the last claim, are not in "
    "the paper.",
)
