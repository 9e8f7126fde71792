"""Where p starts, and where it ends."""

from __future__ import annotations

from matplotlib.figure import Figure

from fwnet.experiments.experiment import Experiment, Lab, Result, row_of
from fwnet.experiments.pictures import color, new_figure, plot_rows, tidy
from fwnet.experiments.synthetic import fw_net, measure_networks
from fwnet.experiments.words import number, verdict

__all__ = ["EXPERIMENT"]

CHOSEN, LONG = "chosen for p = 2", "of a longer training"
LONGER = {"learning_rate": 1e-2, "weight_decay": 2e-3, "num_epochs": 200}
STARTS = (1.1, 1.3, 1.5, 2.0, 3.0, 4.0)


def measure(lab: Lab, result: Result) -> None:
    """Train from every start with the settings that were chosen for p = 2, and longer."""
    depth = 2 if lab.quick else 8
    (reference,) = measure_networks(lab, result, [(fw_net(), depth, {"p": 1.3})])
    longer = {**reference.settings, "num_epochs": 5} if lab.quick else LONGER
    cases = [(fw_net(f"p from {p:g}", p=p), depth, {"p": 1.3}) for p in STARTS]
    for name, settings in ((CHOSEN, reference.settings), (LONG, longer)):
        all_measured = measure_networks(lab, result, cases, settings)
        for start, measured in zip(STARTS, all_measured, strict=True):
            setting = {"T": depth, "initial p": start, "training": name}
            records = measured.records
            result.rows.append(row_of("learned p", setting, "p", measured.after("p"), records))
            result.rows.append(row_of("F-W Net", setting, "test error", measured.errors, records))
            result.curves[f"{name}, p from {start:g}"] = measured.curve("p")
        result.findings.append(_finding(result, name))
    learned = [row.ours for row in result.rows if row.method == "learned p"]
    counts = len(STARTS)
    same = all(max(part) - min(part) < 0.05 for part in (learned[:counts], learned[counts:]))
    result.findings.append(verdict({"p ends at almost the same value from every start": same}))


def _finding(result: Result, name: str) -> str:
    def figures(method: str) -> list[float]:
        rows = [row for row in result.rows if row.setting["training"] == name]
        return [row.ours for row in rows if row.method == method]

    learned, errors = figures("learned p"), figures("F-W Net")
    spread = max(learned) - min(learned)
    return (
        f"With the settings {name}, from p = {', '.join(f'{p:g}' for p in STARTS)}, the learned p "
        f"ends at {', '.join(f'{p:.3f}' for p in learned)}: within {number(spread)} of each other, "
        + ("almost the same value" if spread < 0.05 else "not almost the same value")
        + f". Test errors lie between {number(min(errors))} and {number(max(errors))}."
    )


def draw(result: Result) -> Figure:
    """p by epoch from every start, and test errors."""
    figure, axes = new_figure(columns=3)
    for axis, name in zip(axes, (CHOSEN, LONG), strict=False):
        for index, start in enumerate(STARTS):
            curve = [start, *result.curves[f"{name}, p from {start:g}"]]
            axis.plot(curve, color=color(index, len(STARTS)), label=f"from {start:g}")
        tidy(axis, xlabel="epoch", ylabel="p", title=f"settings {name}")
        rows = [
            row
            for row in result.rows
            if row.method == "F-W Net" and row.setting["training"] == name
        ]
        shade = color(0 if name == CHOSEN else 2, 4)
        plot_rows(axes[2], rows, "initial p", color=shade, marker="o", label=name)
    tidy(axes[2], xlabel="initial p", ylabel="test error", title="test")
    return figure


EXPERIMENT = Experiment(
    "synthetic-initial-p",
    "Initial p from 1.1 to 4",
    "Whatever p is initialized as, it converges stably and smoothly to almost the same value.",
    measure,
    draw,
)
