"""What each part of Conv F-W Net does for super-resolution."""

from __future__ import annotations

from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.super_resolution_networks import (
    FULL_STEPS,
    NO_SKIP,
    OURS,
    RELU,
    draw_bars,
    is_better,
    measure_networks,
    psnr_of,
    vdsr,
)
from fwnet.experiments.words import verdict

__all__ = ["EXPERIMENT"]

PARTS = {
    NO_SKIP.name: "adding W_0 ∗ x at every layer",
    FULL_STEPS.name: "letting γ differ from 1",
    RELU.name: "pool_p instead of ReLU",
}
PAPER: dict[str, tuple[float | None, float | None]] = {
    NO_SKIP.name: (31.52, None),
    FULL_STEPS.name: (32.21, None),
    RELU.name: (32.57, 28.66),
    OURS.name: (32.85, 28.76),
}


def measure(lab: Lab, result: Result) -> None:
    """Train the network without each of its parts."""
    measure_networks(lab, result, [NO_SKIP, FULL_STEPS, RELU, OURS, vdsr(5)], PAPER)
    if lab.quick:
        result.findings = ["The images are scikit-image's, not Set5 and Set14."]
        return
    order = sorted(PAPER, key=lambda name: result.find(name, images="Set5").ours)
    claims = {
        f"{part} helps, on both sets": is_better(result, OURS.name, name)
        for name, part in PARTS.items()
    }
    pair = (RELU.name, vdsr(5).name)
    claims["with ReLU it performs as VDSR does: none is better on both sets"] = not (
        is_better(result, *pair) or is_better(result, *reversed(pair))
    )
    result.findings = [
        "From the worst on Set5 to the best, PSNR in dB on Set5 / Set14, three seeds: "
        + "; ".join(f"{name} {psnr_of(result, name)}" for name in order)
        + f"; {vdsr(5).name} {psnr_of(result, vdsr(5).name)}.",
        "Each has the learning rate that suits it best on images that were held back.",
        verdict(claims),
    ]


EXPERIMENT = Experiment(
    "upscale-ablation",
    "Super-resolution: Conv F-W Net without its parts",
    "Without skip connections or with γ = 1 performance drops severely; with ReLU it is that of "
    "VDSR.",
    measure,
    draw_bars,
)
