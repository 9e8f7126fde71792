"""Super-resolution with p fixed at several values, and learned."""

from __future__ import annotations

from matplotlib.figure import Figure

from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.image_figures import PSNR
from fwnet.experiments.pictures import color, new_figure, plot_rows, tidy
from fwnet.experiments.super_resolution_networks import (
    FIXED,
    OURS,
    is_better,
    measure_networks,
    psnr_of,
)
from fwnet.experiments.words import comma_list, verdict

__all__ = ["EXPERIMENT"]

PAPER = {
    "Conv F-W Net, fixed p = 1.3": (32.49, 28.42),
    "Conv F-W Net, fixed p = 1.5": (32.81, 28.63),
    "Conv F-W Net, fixed p = 1.8": (32.73, 28.69),
    "Conv F-W Net, fixed p = 2.3": (32.59, 28.58),
    "Conv F-W Net, fixed p = 2.5": (32.65, 28.67),
    OURS.name: (32.85, 28.76),
}
LEARNED = 1.489  # in the paper


def measure(lab: Lab, result: Result) -> None:
    """Train with every p."""
    measure_networks(lab, result, [*FIXED, OURS], PAPER)
    exponents = {network.name: network.options["p"] for network in FIXED}
    learned = next(row.ours for row in result.rows if row.quantity == "learned p")
    for row in result.rows:
        row.setting["p"] = round(exponents.get(row.method, learned), 3)
    if lab.quick:
        result.findings = ["The images are scikit-image's, not Set5 and Set14."]
        return
    better = [one.name for one in FIXED if is_better(result, OURS.name, one.name)]
    similar = [one.name for one in FIXED if one.name not in better]
    sentences = [
        f"p is learned to be {learned:.2f} (the paper: {LEARNED}), from 1.5. PSNR in dB on Set5 / "
        "Set14, three seeds: "
        + "; ".join(f"{name} {psnr_of(result, name)}" for name in PAPER)
        + ".",
        "All have the learning rate that suits learned p best.",
    ]
    if similar:
        sentences.append(f"Learned p is not told to be better than {comma_list(similar)}.")
    claim = "learned p is better than every fixed one on both sets"
    result.findings = [*sentences, verdict({claim: not similar})]


def draw(result: Result) -> Figure:
    """PSNR by p, a panel a set of images."""
    names = list(dict.fromkeys(row.setting["images"] for row in result.rows))
    figure, axes = new_figure(columns=len(names))
    for axis, name in zip(axes if len(names) > 1 else [axes], names, strict=True):
        rows = [r for r in result.rows if r.quantity == PSNR and r.setting["images"] == name]
        fixed = [row for row in rows if row.method != OURS.name]
        learned = [row for row in rows if row.method == OURS.name]
        plot_rows(axis, fixed, "p", color=color(2, 4), label="fixed")
        plot_rows(axis, learned, "p", color=color(0, 4), marker="D", label="learned")
        tidy(axis, xlabel="p", ylabel=PSNR, title=f"{name} × 3")
    return figure


EXPERIMENT = Experiment(
    "upscale-exponent",
    "Super-resolution: p fixed and learned",
    "The p matters, and learned p (1.489) is better than fixed ones.",
    measure,
    draw,
)
