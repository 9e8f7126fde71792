"""Training error by epoch and test error by T at real p = 1.3."""

from dataclasses import replace
from functools import partial
from typing import Any

from fwnet.experiments.claims import better
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.pictures import Curves, Lines, panels
from fwnet.experiments.study import measure_cases
from fwnet.experiments.synthetic import (
    ERROR,
    WITH_SMALL_STEPS,
    CodeCase,
    add_errors,
    require_cvxpy,
    solver_errors,
)

DATA = {"p": 1.3}
FIXED: dict[str, Any] = {"learn_p": False, "learn_step_sizes": False}
F_W_NET, SHARED, ORIGINAL = "F-W Net", "F-W Net, shared W", "Original F-W"
FIXED_STEPS, FIXED_BOTH = "F-W fixed γ", "F-W fixed {p, γ}"
WRONG, SURROGATE = "F-W fixed {wrong p = 1, γ}", "F-W fixed {wrong p = 1.01, γ}"
MLP, LINEAR_MLP = "MLP", "MLP, linear last layer"
EXACT, CVX = "fwnet.solve (least norm)", "CVX"
code_case = partial(CodeCase, data=DATA)
METHODS = (
    code_case(name=F_W_NET),
    code_case(name=FIXED_STEPS, options={"learn_step_sizes": False}),
    code_case(name=FIXED_BOTH, options={"p": 1.3, **FIXED}),
    code_case(name=WRONG, options={"p": 1.0, **FIXED}, learns=False),
    code_case(name=SURROGATE, options={"p": 1.01, **FIXED}, choices=WITH_SMALL_STEPS),
    code_case(name=MLP, model="MLP", start="random"),
    code_case(name=LINEAR_MLP, model="MLP", options={"linear_output": True}, start="random"),
)
SHARED_CASE = code_case(name=SHARED, options={"share_weights": True})


def measure(lab: Lab, result: Result) -> None:
    """Train every method at every depth; run the algorithms for as many steps."""
    require_cvxpy()
    depths = (2, 4) if lab.quick else (2, 4, 6, 8)
    cases = [replace(method, num_layers=depth) for method in METHODS for depth in depths]
    cases += [replace(SHARED_CASE, num_layers=depth) for depth in depths[1:]]
    for measured in measure_cases(lab, result, cases):
        add_errors(result, measured)
        case = measured.case
        if case.num_layers == depths[-1] and case.name != SHARED:
            result.details[case.name] = measured.curve("curves", "training_error")
    for depth in depths:
        errors = solver_errors(lab, DATA, method="frank-wolfe", max_steps=depth)
        result.add(ORIGINAL, {"T": depth}, ERROR, errors)
    for name, method in ((EXACT, "auto"), (CVX, "cvxpy")):
        errors = solver_errors(lab, DATA, method=method)
        for depth in depths:  # the same at every T, for comparison
            result.add(name, {"T": depth}, ERROR, errors)


EXPERIMENT = Experiment(
    "synthetic-error",
    "Training error by epoch and test error by T at p = 1.3",
    "F-W Net has the smallest error at every T; Original F-W hardly improves from T = 4 on and "
    "beats MLP after 4 iterations; learning γ and p helps; a wrong p does much damage, though "
    "trained weights still beat Original F-W; CVX does not do well.",
    measure,
    panels(
        Curves(
            names=[case.name for case in METHODS if case.name != WRONG],
            title="training, deepest",
            legend=False,
            labels={"ylabel": "error per sample", "yscale": "log"},
        ),
        Lines(x="T", quantity=ERROR, title="test", legend="beside", labels={"yscale": "log"}),
        width=6.5,
    ),
    claims=(
        *(
            better(f"F-W Net is better than {other} at every T", F_W_NET, other, "T")
            for other in (ORIGINAL, MLP, LINEAR_MLP, WRONG, SURROGATE, FIXED_BOTH, FIXED_STEPS, CVX)
        ),
        better("trained weights with p = 1.01 beat Original F-W", SURROGATE, ORIGINAL, "T"),
        better("Original F-W beats MLP from T = 4 on", ORIGINAL, MLP, "T", (4, 6, 8)),
        better(
            "Original F-W beats MLP with a linear last layer from T = 4 on",
            ORIGINAL,
            LINEAR_MLP,
            "T",
            (4, 6, 8),
        ),
        *(
            better(f"one W for all layers is better than {other}", SHARED, other, "T")
            for other in (F_W_NET, CVX, EXACT)
        ),
    ),
    columns="T",
    note="The last three claims are not in the paper.",
)
