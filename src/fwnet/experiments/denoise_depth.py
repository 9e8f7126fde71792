"""PSNR and learned p by depth, beside DnCNN."""

from __future__ import annotations

from matplotlib.figure import Figure

from fwnet.experiments.denoising_networks import MIDDLE, conv_fwnet, dncnn, measure_networks
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.image_figures import PSNR, check_any, compare, is_above, psnr_row
from fwnet.experiments.pictures import color, marker, new_figure, tidy
from fwnet.experiments.words import verdict

__all__ = ["EXPERIMENT"]

DEPTHS = (2, 4, 8, 16)


def measure(lab: Lab, result: Result) -> None:
    """Train both at every depth; DnCNN has one layer more, and as many convolutions."""
    depths = DEPTHS[:2] if lab.quick else DEPTHS
    networks = [kind for depth in depths for kind in (conv_fwnet(depth), dncnn(depth + 1))]
    measure_networks(lab, result, networks, [MIDDLE])
    layers = {network.name: network.options["num_layers"] for network in networks}
    for row in result.rows:
        row.setting["layers"] = layers[row.method]
    check_any(result)
    result.findings = _findings(result)


def _findings(result: Result) -> list[str]:
    sentences = [
        "σ = 25. Conv F-W Net of T layers is compared with DnCNN of T + 1, which has as many "
        "convolutions; all were trained for 10,000 steps, the learning rates of T up to 4, T from "
        "8 on, DnCNN up to 5 and DnCNN from 9 layers on chosen on images that were held back. "
        "The public weights of DnCNN with 17 layers have 29.21 dB on these images (in its paper it "
        "learns for 50 epochs of 1,600 steps): for deep networks the figures compare what is "
        "learned in 10,000 steps, not how good they can become.",
    ]
    told: dict[int, bool | None] = {}
    for depth in DEPTHS:
        ours = psnr_row(result, conv_fwnet(depth).name, σ=MIDDLE)
        theirs = psnr_row(result, dncnn(depth + 1).name, σ=MIDDLE)
        if ours is None or theirs is None:
            sentences.append(f"T = {depth}: not measured.")
            continue
        told[depth] = is_above(ours, theirs)
        sentences.append(
            f"T = {depth}: {ours.ours:.2f} dB, DnCNN {theirs.ours:.2f} dB: {compare(ours, theirs)}."
        )
    exponents = [row.ours for row in result.rows if row.quantity == "learned p"]
    claims: dict[str, bool] = {}
    if told:
        shallow, deep = min(told), max(told)
        claims[f"Conv F-W Net is better when shallow (T = {shallow})"] = bool(told[shallow])
        claims[f"both perform alike when deep (T = {deep})"] = told[deep] is None
    if exponents:
        sentences.append(f"Learned p lies between {min(exponents):.2f} and {max(exponents):.2f}.")
        stable = max(exponents) - min(exponents) <= 0.1
        claims["learned p is stable, within 0.1, across depths"] = stable
    return [*sentences, verdict(claims)]


def draw(result: Result) -> Figure:
    """PSNR by depth, and p by depth."""
    figure, (left, right) = new_figure(columns=2)
    for index, kind in enumerate(("Conv F-W Net", "DnCNN")):
        rows = [r for r in result.rows if r.quantity == PSNR and r.method.startswith(kind)]
        left.errorbar(
            [row.setting["layers"] - (kind == "DnCNN") for row in rows],
            [row.ours for row in rows],
            [row.spread or 0 for row in rows],
            marker=marker(index),
            color=color(2 * index, 4),
            capsize=3,
            label=kind if kind != "DnCNN" else "DnCNN, one layer more",
        )
    rows = [row for row in result.rows if row.quantity == "learned p"]
    right.plot([r.setting["layers"] for r in rows], [r.ours for r in rows], "o-", color=color(0, 4))
    tidy(left, xlabel="T", ylabel=PSNR, title="BSD68, σ = 25")
    tidy(right, legend=False, xlabel="T", ylabel="learned p", title="learned p", ylim=(1, 2))
    return figure


EXPERIMENT = Experiment(
    "denoise-depth",
    "Denoising by depth: Conv F-W Net and DnCNN",
    "For shallow networks Conv F-W Net outperforms DnCNN significantly; as depth increases both "
    "perform similarly. The learned p is stable across depths.",
    measure,
    draw,
)
