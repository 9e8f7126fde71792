"""What the paper leaves open about Conv F-W Net: first weights, eps, and its output."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

from fwnet.experiments.denoising import Start
from fwnet.experiments.denoising_networks import (
    MIDDLE,
    PLAIN,
    Network,
    conv_fwnet,
    learning_rates_of,
)
from fwnet.experiments.experiment import Experiment, Lab, Result, row_of
from fwnet.experiments.image_figures import finished
from fwnet.experiments.pictures import color, new_figure, tidy
from fwnet.experiments.runs import UnfinishedError

__all__ = ["EXPERIMENT"]

BASE = conv_fwnet(4)
STARTS: dict[str, Start] = {
    "random kernels": "random",
    "kernels of random atoms": "random atoms",
    "kernels of atoms that vary as patches do (PCA)": "pca",
    "kernels of K-SVD atoms": "ksvd",
}
RATE = 4e-3  # of the variants that start or round differently
QUANTITY = "validation PSNR in dB"


def variants() -> dict[str, Network]:
    """Networks by what is different about them."""
    networks = {name: replace(BASE, start=start) for name, start in STARTS.items()}
    for eps in (0.0, 1e-2):
        options = {**BASE.options, "eps": eps}
        networks[f"random kernels, eps = {eps:g}"] = replace(BASE, options=options)
    return networks


def measure(lab: Lab, result: Result) -> None:
    """Train all variants for 3,000 steps, and look at images that were held back."""
    rates = learning_rates_of(lab, result, [BASE.family, PLAIN.family])
    jobs = {
        name: network.job(lab, MIDDLE, RATE, num_epochs=BASE.tuning_epochs)
        for name, network in variants().items()
    }
    for network, name in ((BASE, "x + W_R z (ours)"), (PLAIN, "W_R z (the authors' form)")):
        rate = rates[network.family]
        job = network.job(lab, MIDDLE, rate, num_epochs=network.tuning_epochs)
        jobs[f"{name}, learning rate {rate:g}"] = job
    if not lab.runner.finished_only:
        lab.runner.run(list(jobs.values()))
    for name, job in jobs.items():
        for record in finished(lab, [job]):
            row = row_of(name, {"σ": MIDDLE}, QUANTITY, [record["validation"]], [record])
            result.rows.append(row)
            result.curves[name] = record["validation_by_epoch"]
    figures = {row.method: row.ours for row in result.rows}
    base_name = next(iter(STARTS))
    if base_name not in figures:
        raise UnfinishedError(f"{result.id}: {base_name} are not finished")
    base = figures[base_name]
    same_rate = [name for name in variants() if name in figures and name != base_name]
    result.findings = [
        f"T = 4, σ = 25, after 3,000 steps with one learning rate ({RATE:g}) and one seed, on "
        f"images that were held back: {base_name} and eps = 0.001 have {base:.3f} dB; "
        + "; ".join(f"{name} {figures[name] - base:+.3f} dB" for name in same_rate)
        + ".",
    ]
    forms = [name for name in figures if "W_R" in name]
    if forms:
        listed = "; ".join(f"{name}: {figures[name]:.3f} dB" for name in forms)
        result.findings.append(f"Each form with the learning rate that is best for it: {listed}.")
    missing = [name for name in jobs if name not in figures]
    if missing:
        result.findings.append(f"Not measured: {'; '.join(missing)}.")


def draw(result: Result) -> Figure:
    """PSNR by epoch."""
    figure, axis = new_figure(width=8)
    for index, (name, curve) in enumerate(result.curves.items()):
        shade = color(index, len(result.curves))
        axis.plot(range(1, len(curve) + 1), curve, marker="o", color=shade, label=name)
    tidy(axis, legend_beside=True, xlabel="epoch of 1,000 steps", ylabel=QUANTITY)
    axis.xaxis.get_major_locator().set_params(integer=True)
    return figure


EXPERIMENT = Experiment(
    "denoise-form",
    "Conv F-W Net: first weights, eps, and what the output is added to",
    "No initialization strategy is straightforwardly available for convolutions; the paper uses "
    "random filters.",
    measure,
    draw,
)
