"""The laws of y and D: those for which the exact solution has the error that the paper prints."""

from typing import Any

from fwnet.experiments.claims import Claim, better, number
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.pictures import Bars, panels
from fwnet.experiments.study import measure_cases
from fwnet.experiments.synthetic import ERROR, CodeCase, add_errors, solver_errors

PAPER_CVX = 0.0036
EXACT = "exact solution"
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


def measure(lab: Lab, result: Result) -> None:
    """Solve under every law, and train under some."""
    for law, options in LAWS.items():
        errors = solver_errors(lab, {"p": 1.0, **options})
        paper = PAPER_CVX if law == CHOSEN else None
        result.add(EXACT, {"law": law}, ERROR, errors, paper=paper)
    cases = [
        CodeCase(
            name=name,
            model=model,
            num_layers=2 if lab.quick else 6,
            data={"p": 1.0, **LAWS[law]},
            setting={"law": law},
        )
        for law in (TRAINED[:1] if lab.quick else TRAINED)
        for name, model in (("F-W Net", "FWNet"), ("LISTA", "LISTA"))
    ]
    for measured in measure_cases(lab, result, cases):
        add_errors(result, measured)


def seeds_include_the_paper(result: Result) -> tuple[bool, str]:
    """Return whether the paper's error lies between those of the seeds."""
    values = result.find(EXACT, law=CHOSEN).values
    held = min(values) <= PAPER_CVX <= max(values)
    return held, f"{number(min(values))} to {number(max(values))}"


EXPERIMENT = Experiment(
    "synthetic-data",
    "The laws of y and D, which the paper does not state, by its CVX error",
    "CVX has an error of 0.0036 at p = 1 (noise variance 0.01, m = 100, n = 50, c = 5).",
    measure,
    panels(
        Bars(
            methods=(EXACT,),
            quantity=ERROR,
            label="law",
            from_zero=True,
            guide=PAPER_CVX,
            title="exact solution at p = 1 (dashed: the paper's CVX)",
            labels={"xscale": "log"},
        ),
        width=8,
    ),
    claims=(
        Claim(f"the seeds' errors with {CHOSEN} include the paper's", seeds_include_the_paper),
        better("LISTA is better than F-W Net under every law tried", "LISTA", "F-W Net", "law"),
    ),
    columns="method",
    note="The simplest law near the paper's figure is used in all other experiments. It is the "
    "same problem as D ~ N(0, 1) with noise of standard deviation (not variance) 0.01.",
)
