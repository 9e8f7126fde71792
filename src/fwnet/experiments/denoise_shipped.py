"""The denoising networks of the package on BSD68."""

from fwnet.experiments.claims import Claim, reaches
from fwnet.experiments.denoising import LEVELS
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.image_study import MIDDLE, PSNR, ShippedTest, add_tests
from fwnet.experiments.image_training import Data
from fwnet.experiments.pictures import Bars, panels
from fwnet.zoo import list_models

# Other networks on the same images: the authors' weights of 16 layers and DnCNN-S, whose public
# weights were tested with another draw of the noise, and the published figure of CDnCNN for color.
AUTHORS = {15: 31.52, 25: 29.14, 50: 26.08}
DNCNN_S = {15: 31.72, 25: 29.21, 50: 26.22}
CDNCNN = 31.23
SPECIFIC = "conv_fwnet_t16.denoise_gray_s"
BLIND, COLOR = "conv_fwnet_t16.denoise_gray", "conv_fwnet_t16.denoise_color"


def shipped_tests(lab: Lab) -> list[ShippedTest]:
    """Return the tests of every network at the noise levels that it is for."""
    data: Data = "small" if lab.quick else "berkeley"
    return [
        ShippedTest(card.name, card.sha256, {"sigma": sigma}, data)
        for card in list_models("denoise")
        for sigma in LEVELS
        if card.trained_for["sigma"] == sigma or isinstance(card.trained_for["sigma"], list)
    ]


def measure(lab: Lab, result: Result) -> None:
    """Test the networks of the package."""
    jobs = shipped_tests(lab)
    for job, record in zip(jobs, lab.runner.run(jobs), strict=True):
        add_tests(result, job.name, job.task, [record])


def blind_is_near(result: Result) -> tuple[bool, str]:
    """Return whether one network for all levels is within 0.1 dB of those for one level."""
    margins = {
        sigma: result.find(BLIND, PSNR, σ=sigma).ours
        - result.find(f"{SPECIFIC}{sigma}", PSNR, σ=sigma).ours
        for sigma in LEVELS
    }
    listed = ", ".join(f"{margin:+.2f} dB at σ = {sigma}" for sigma, margin in margins.items())
    return min(margins.values()) >= -0.1, listed


EXPERIMENT = Experiment(
    "denoise-shipped",
    "The denoising networks of the package",
    "The paper has none with 16 layers; its authors published weights of one.",
    measure,
    panels(Bars(quantity=PSNR, by="σ", title="BSD68, σ = ")),
    claims=(
        *(
            reaches(
                f"16 layers are at or above {name} at σ = {sigma}",
                f"{SPECIFIC}{sigma}",
                figures[sigma],
                σ=sigma,
            )
            for name, figures in (("the authors' weights", AUTHORS), ("DnCNN-S", DNCNN_S))
            for sigma in LEVELS
        ),
        Claim("the network for all σ is within 0.1 dB of those for one", blind_is_near),
        reaches(
            "in color, one network for all σ is at or above CDnCNN for σ = 25",
            COLOR,
            CDNCNN,
            σ=MIDDLE,
        ),
    ),
    columns="σ",
    needs=("BSDS500",),
    note="Weights are those of the package, with kernels in float16. The other networks were "
    "tested on the same images with another draw of the noise.",
)
