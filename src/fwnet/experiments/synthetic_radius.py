"""The radius c that the network is given, while codes are made with c = 5."""

from fwnet.experiments.claims import Claim
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.pictures import Curves, Lines, panels
from fwnet.experiments.study import measure_cases
from fwnet.experiments.synthetic import ERROR, RADIUS, CodeCase

RADII = (2.5, 3.5, 5.0, 7.0, 10.0)


def measure(lab: Lab, result: Result) -> None:
    """Train with every radius, with the settings that were chosen for c = 5."""
    depth, data = 2 if lab.quick else 8, {"p": 1.3}
    (reference,) = measure_cases(lab, result, [CodeCase(num_layers=depth, data=data)])
    goal = 1.1 * reference.curve("curves", "training_error")[-1]
    cases = [CodeCase(options={"radius": c}, num_layers=depth, data=data) for c in RADII]
    for one in measure_cases(lab, result, cases, reference.settings):
        c = one.case.options["radius"]
        result.add("F-W Net", {"T": depth, "c": c}, ERROR, one.values("error"), one.records)
        result.details[f"c = {c:g}"] = curve = one.curve("curves", "training_error")
        epochs = next((i + 1 for i, value in enumerate(curve) if value <= goal), None)
        result.details[f"epochs, c = {c:g}"] = [epochs]


def radius_changes_speed(result: Result) -> tuple[bool, str]:
    """Return whether some radius takes 1.25 times the epochs of another to reach the same error."""
    epochs = {c: result.find_detail(f"epochs, c = {c:g}")[0] for c in RADII}
    longest = len(result.find_detail(f"c = {RADIUS:g}")) + 1  # where the error is not reached
    counts = [count or longest for count in epochs.values()]
    listed = ", ".join(f"c = {c:g}: {count or 'never'}" for c, count in epochs.items())
    return max(counts) >= 1.25 * min(counts), f"epochs by c: {listed}"


def best_at_the_radius_of_the_codes(result: Result) -> tuple[bool, str]:
    """Return whether the test error is smallest with the radius of the codes."""
    ours = result.find("F-W Net", c=RADIUS).mean
    best = min(result.rows, key=lambda row: row.mean)
    figures = f"{ours:.3f} against {best.mean:.3f} at c = {best.setting['c']:g}"
    return best.setting["c"] == RADIUS, figures


EXPERIMENT = Experiment(
    "synthetic-radius",
    "The radius c that F-W Net is given",
    "A good choice of c accelerates the convergence.",
    measure,
    panels(
        Curves(prefix="c = ", title="training by c", labels={"ylabel": "training error"}),
        Lines(x="c", quantity=ERROR, title="test", legend=False),
    ),
    claims=(
        Claim(
            "c changes how fast training gets within 10 % of its final error at c = 5",
            radius_changes_speed,
        ),
        Claim(
            "the test error is smallest at c = 5, with which codes were made",
            best_at_the_radius_of_the_codes,
        ),
    ),
    columns="c",
    note="All have the settings that were chosen at c = 5.",
)
