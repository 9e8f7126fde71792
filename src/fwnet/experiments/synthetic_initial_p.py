"""The learned p by the p that training starts from."""

from fwnet.experiments.claims import Claim
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.pictures import Curves, Lines, panels
from fwnet.experiments.study import measure_cases
from fwnet.experiments.synthetic import ERROR, CodeCase

CHOSEN, LONG = "chosen for p = 2", "of a longer training"
LONGER = {"learning_rate": 1e-2, "weight_decay": 2e-3, "num_epochs": 200}
STARTS = (1.1, 1.3, 1.5, 2.0, 3.0, 4.0)
NEAR = 0.05


def measure(lab: Lab, result: Result) -> None:
    """Train from every start with the settings that were chosen for p = 2, and longer."""
    depth, data = 2 if lab.quick else 8, {"p": 1.3}
    starts = STARTS[2:4] if lab.quick else STARTS
    (reference,) = measure_cases(lab, result, [CodeCase(num_layers=depth, data=data)])
    longer = {**reference.settings, "num_epochs": 5} if lab.quick else LONGER
    cases = [CodeCase(options={"p": start}, num_layers=depth, data=data) for start in starts]
    for name, settings in ((CHOSEN, reference.settings), (LONG, longer)):
        for one in measure_cases(lab, result, cases, settings):
            start = one.case.options["p"]
            setting = {"T": depth, "initial p": start, "training": name}
            result.add("learned p", setting, "p", one.values("after", "p"), one.records)
            result.add("F-W Net", setting, ERROR, one.values("error"), one.records)
            result.details[f"{name}, p from {start:g}"] = one.curve("curves", "p")


def same_from_every_start(training: str) -> Claim:
    """Return the claim that p ends at almost the same value."""

    def check(result: Result) -> tuple[bool, str]:
        ends = [row.mean for row in result.find_all("learned p", training=training)]
        held = max(ends) - min(ends) < NEAR
        return held, f"{', '.join(f'{p:.3f}' for p in ends)} from {', '.join(map(str, STARTS))}"

    return Claim(f"p ends within {NEAR} from every start, with the settings {training}", check)


EXPERIMENT = Experiment(
    "synthetic-initial-p",
    "Initial p from 1.1 to 4",
    "Whatever p is initialized as, it converges stably and smoothly to almost the same value.",
    measure,
    panels(
        *(
            Curves(prefix=f"{name}, p ", title=f"settings {name}", labels={"ylabel": "p"})
            for name in (CHOSEN, LONG)
        ),
        Lines(x="initial p", apart="training", quantity=ERROR, title="test"),
    ),
    claims=(same_from_every_start(CHOSEN), same_from_every_start(LONG)),
    columns="initial p",
    note="Real p = 1.3.",
)
