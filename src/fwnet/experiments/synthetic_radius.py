"""The radius c that the network is given, while codes are made with c = 5."""

from __future__ import annotations

from matplotlib.figure import Figure

from fwnet.experiments.experiment import Experiment, Lab, Result, row_of
from fwnet.experiments.pictures import color, new_figure, plot_rows, tidy
from fwnet.experiments.synthetic import RADIUS, fw_net, measure_networks
from fwnet.experiments.words import number, verdict

__all__ = ["EXPERIMENT"]

RADII = (2.5, 3.5, 5.0, 7.0, 10.0)
ERROR, EPOCHS = "test error", "epochs"


def measure(lab: Lab, result: Result) -> None:
    """Train with every radius, with the settings that were chosen for c = 5."""
    depth = 2 if lab.quick else 8
    (reference,) = measure_networks(lab, result, [(fw_net(), depth, {"p": 1.3})])
    cases = [(fw_net(f"c = {c:g}", radius=c), depth, {"p": 1.3}) for c in RADII]
    for c, measured in zip(
        RADII, measure_networks(lab, result, cases, reference.settings), strict=True
    ):
        name, setting = "F-W Net", {"T": depth, "c": c}
        result.rows.append(row_of(name, setting, ERROR, measured.errors, measured.records))
        result.curves[f"c = {c:g}"] = curve = measured.curve("training_error")
        goal = 1.1 * reference.curve("training_error")[-1]
        epochs = next((i + 1 for i, value in enumerate(curve) if value <= goal), None)
        result.curves[f"epochs, c = {c:g}"] = [epochs]
    result.findings = _findings(result)


def _findings(result: Result) -> list[str]:
    best = min(result.rows, key=lambda row: row.ours)
    epochs = {c: result.curves[f"epochs, c = {c:g}"][0] for c in RADII}
    reached = ", ".join(
        f"{value} epochs with c = {c:g}" if value else f"never with c = {c:g}"
        for c, value in epochs.items()
    )
    # Where a goal is not reached, it took longer than the training did.
    longest = len(result.curves[f"c = {RADIUS:g}"]) + 1
    fastest, slowest = (pick(value or longest for value in epochs.values()) for pick in (min, max))
    given = number(result.find("F-W Net", c=RADIUS).ours)
    return [
        f"The settings of the training are those chosen at c = {RADIUS:g}, for every c.",
        f"The smallest test error, {number(best.ours)}, is at c = {best.setting['c']:g}; codes "
        f"were made with c = {RADIUS:g}, where it is {given}.",
        f"Within 10% of the final training error at c = {RADIUS:g}: {reached}.",
        verdict({"c changes how fast training converges": slowest >= 1.25 * fastest}),
    ]


def draw(result: Result) -> Figure:
    """Training curves, and test error by radius."""
    figure, (left, right) = new_figure(columns=2)
    for index, c in enumerate(RADII):
        curve = result.curves[f"c = {c:g}"]
        shade = color(index, len(RADII))
        left.plot(range(1, len(curve) + 1), curve, color=shade, label=f"c = {c:g}")
    tidy(left, xlabel="epoch", ylabel="training error", title="training")
    plot_rows(right, result.rows, "c", color=color(1, 4), marker="o")
    tidy(right, legend=False, xlabel="c", ylabel="test error", title="test", xticks=RADII)
    return figure


EXPERIMENT = Experiment(
    "synthetic-radius",
    "The radius c that F-W Net is given",
    "A good choice of c accelerates the convergence.",
    measure,
    draw,
)
