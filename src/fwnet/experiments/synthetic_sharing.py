"""One W_t for all layers, or one per layer."""

from typing import Any

from fwnet.experiments.claims import better
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.pictures import Curves, Lines, panels
from fwnet.experiments.study import measure_cases
from fwnet.experiments.synthetic import ERROR, CodeCase, add_errors

SEPARATE, SHARED = "separate W_t", "shared W"
REAL: dict[float, dict[str, Any]] = {p: {"real p": p} for p in (1.3, 1.0)}


def measure(lab: Lab, result: Result) -> None:
    """Train both at real p = 1.3 and 1."""
    depths = {1.3: (4,), 1.0: (4,)} if lab.quick else {1.3: (4, 6, 8), 1.0: (4, 6)}
    cases = [
        CodeCase(
            name=name,
            options={"share_weights": True} if name == SHARED else {},
            num_layers=depth,
            data={"p": real},
            setting={"real p": real},
        )
        for name in (SEPARATE, SHARED)
        for real, listed in depths.items()
        for depth in listed
    ]
    for measured in measure_cases(lab, result, cases):
        case = measured.case
        add_errors(result, measured)
        if (case.data["p"], case.num_layers) == (1.3, depths[1.3][-1]):
            result.details[case.name] = measured.curve("curves", "training_error")


EXPERIMENT = Experiment(
    "synthetic-sharing",
    "One matrix W_t for all layers, or one per layer",
    "Not sharing the weights always improves the performance; sharing makes training converge "
    "fast.",
    measure,
    panels(
        Lines(x="T", apart="real p", quantity=ERROR, title="test"),
        Curves(title="training, real p = 1.3, deepest", labels={"ylabel": "training error"}),
    ),
    claims=tuple(
        better(f"separate matrices are better at real p = {p:g}", SEPARATE, SHARED, "T", **at)
        for p, at in REAL.items()
    ),
    columns="T",
)
