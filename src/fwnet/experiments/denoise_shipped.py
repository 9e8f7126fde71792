"""The denoising networks of the package on BSD68."""

from fwnet.experiments.claims import reaches
from fwnet.experiments.denoising import LEVELS, ahead
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
SPECIFIC = "conv_fwnet_t16.denoise_gray_s{}"  # for the noise level
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
                SPECIFIC.format(sigma),
                figures[sigma],
                σ=sigma,
            )
            for name, figures in (("the authors' weights", AUTHORS), ("DnCNN-S", DNCNN_S))
            for sigma in LEVELS
        ),
        ahead("the network for all σ is within 0.1 dB of those for one", BLIND, SPECIFIC, -0.1),
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
