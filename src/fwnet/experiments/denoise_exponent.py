"""Denoising of patches with p fixed, and learned."""

from fwnet.experiments.claims import Claim, better
from fwnet.experiments.denoising import LEVELS, at_levels, fc_fixed, fc_fwnet
from fwnet.experiments.experiment import Experiment, Result
from fwnet.experiments.image_study import LEARNED_P, PSNR, Paper, image_study
from fwnet.experiments.pictures import Bars, panels

CASES = [fc_fixed(2.0), fc_fixed(1.4), fc_fwnet(4)]
TWO, FIXED, LEARNED = (case.name for case in CASES)
PAPER: Paper = {
    TWO: {15: 28.35, 25: 26.41, 50: 23.68},
    FIXED: {15: 29.25, 25: 27.62, 50: 24.45},
    LEARNED: {15: 29.35, 25: 27.71, 50: 24.52},
}


def far_ahead_of_two(result: Result) -> tuple[bool, str]:
    """Return whether the learned p is at least 0.2 dB better than p = 2 at every level."""
    leads = {}
    for sigma in LEVELS:
        ours, theirs = (result.find(name, PSNR, σ=sigma).mean for name in (LEARNED, TWO))
        leads[sigma] = ours - theirs
    listed = ", ".join(f"{lead:+.2f} dB at σ = {sigma}" for sigma, lead in leads.items())
    return min(leads.values()) >= 0.2, listed


def near_the_paper(result: Result) -> tuple[bool, str]:
    """Return whether the learned p is within 0.1 of the paper's at every level."""
    exponents = {sigma: result.find(LEARNED, LEARNED_P, σ=sigma).mean for sigma in LEVELS}
    listed = ", ".join(f"{p:.2f} at σ = {sigma}" for sigma, p in exponents.items())
    return all(abs(p - 1.41) <= 0.1 for p in exponents.values()), listed


EXPERIMENT = Experiment(
    "denoise-exponent",
    "Denoising of patches: p fixed at 2, at 1.4, and learned",
    "Learned p (1.41) outperforms fixed p = 2 by a large margin and is slightly better than fixed "
    "p = 1.4.",
    image_study(at_levels(CASES), PAPER),
    panels(Bars(quantity=PSNR, by="σ", title="σ = "), width=4.6),
    claims=(
        Claim("learned p is better than p = 2 by more than 0.2 dB", far_ahead_of_two),
        better("learned p is better than p = 1.4", LEARNED, FIXED, "σ"),
        Claim("learned p is within 0.1 of the paper's 1.41", near_the_paper),
    ),
    columns="σ",
    needs=("BSDS500",),
)
