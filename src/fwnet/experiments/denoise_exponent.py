"""Denoising of patches with p fixed, and learned."""

from __future__ import annotations

from matplotlib.figure import Figure

from fwnet.experiments.denoising_networks import LEVELS, fc_fwnet, measure_networks
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.image_figures import PSNR, check_any, is_above, psnr_row
from fwnet.experiments.pictures import color, marker, new_figure, tidy
from fwnet.experiments.words import verdict

__all__ = ["EXPERIMENT"]

NETWORKS = (fc_fwnet(4, 2.0), fc_fwnet(4, 1.4), fc_fwnet(4))
PAPER = dict(
    zip(
        (network.name for network in NETWORKS),
        ((28.35, 26.41, 23.68), (29.25, 27.62, 24.45), (29.35, 27.71, 24.52)),
        strict=True,
    )
)


def measure(lab: Lab, result: Result) -> None:
    """Train all three at all levels."""
    measure_networks(lab, result, NETWORKS, LEVELS, PAPER)
    check_any(result)
    result.findings = _findings(result)


def _findings(result: Result) -> list[str]:
    two, fixed, learned = (network.name for network in NETWORKS)
    exponents = {
        row.setting["σ"]: row.ours
        for row in result.rows
        if row.method == learned and row.quantity == "learned p"
    }
    sentences = []
    if exponents:
        listed = ", ".join(f"{p:.2f} at σ = {sigma}" for sigma, p in exponents.items())
        sentences.append(f"p is learned to be {listed} (the paper: 1.41).")
    claims: dict[str, bool] = {}
    for sigma in LEVELS:
        at_two, at_fixed, at_learned = (
            psnr_row(result, name, σ=sigma) for name in (two, fixed, learned)
        )
        if at_two is None or at_fixed is None or at_learned is None:
            sentences.append(f"σ = {sigma}: not all of them were measured.")
            continue
        sentences.append(
            f"σ = {sigma}: fixed at 2 {at_two.ours:.2f} dB, fixed at 1.4 {at_fixed.ours:.2f} dB, "
            f"learned {at_learned.ours:.2f} dB."
        )
        margin = at_learned.ours - at_two.ours
        claims[f"learned p is better than p = 2 by a large margin at σ = {sigma}"] = margin > 0.2
        claims[f"learned p is better than p = 1.4 at σ = {sigma}"] = bool(
            is_above(at_learned, at_fixed)
        )
    return [*sentences, verdict(claims)] if claims else sentences


def draw(result: Result) -> Figure:
    """PSNR by level, as a difference to learned p."""
    figure, axis = new_figure(width=6)
    learned = NETWORKS[-1].name
    for index, network in enumerate(NETWORKS):
        points = []
        for sigma in LEVELS:
            row, base = psnr_row(result, network.name, σ=sigma), psnr_row(result, learned, σ=sigma)
            if row is not None and base is not None:
                points.append((sigma, row.ours - base.ours))
        axis.plot(
            [point[0] for point in points],
            [point[1] for point in points],
            marker=marker(index),
            color=color(index, len(NETWORKS)),
            label=network.name,
        )
    tidy(axis, xlabel="σ", ylabel=f"{PSNR}, less that of learned p", title="p fixed and learned")
    return figure


EXPERIMENT = Experiment(
    "denoise-exponent",
    "Denoising of patches: p fixed at 2, at 1.4, and learned",
    "Learned p (1.41) outperforms fixed p = 2 by a large margin and is slightly better than fixed "
    "p = 1.4.",
    measure,
    draw,
)
