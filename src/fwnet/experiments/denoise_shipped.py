"""The denoising networks of the package on BSD68."""

from fwnet.experiments.claims import reaches
from fwnet.experiments.denoising import LEVELS
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.image_study import PSNR, ShippedTest, add_tests
from fwnet.experiments.image_training import Data
from fwnet.experiments.pictures import Bars, panels
from fwnet.restoration import Denoising
from fwnet.zoo import list_models

# Other networks on the same images: the authors' weights of 16 layers and DnCNN-S (one network per
# noise level), whose public weights were tested with another draw of the noise; published figures
# of CDLNet, and of CDnCNN-B and FFDNet for color.
AUTHORS = {15: 31.52, 25: 29.14, 50: 26.08}
DNCNN_S = {15: 31.72, 25: 29.21, 50: 26.22}
CDLNET = {15: 31.74, 25: 29.26, 50: 26.35}
CDNCNN_B = {15: 33.89, 25: 31.23, 50: 27.92}
FFDNET = {15: 33.87, 25: 31.21, 50: 27.96}
GRAY, COLOR = (Denoising.default_models()[channels] for channels in (1, 3))
# Our networks at full resolution, which these replaced: 16 layers for one level, 554,129 numbers.
FULL_RESOLUTION = {15: 31.69, 25: 29.18, 50: 26.17}
SMALL = "conv_fwnet_t8.denoise_gray"
COMPARED = (
    ("the gray network for all σ", GRAY, "the authors' weights", AUTHORS),
    ("the gray network for all σ", GRAY, "DnCNN-S", DNCNN_S),
    ("the gray network for all σ", GRAY, "CDLNet", CDLNET),
    ("that of 8 layers", SMALL, "our former one of 16 layers at full resolution", FULL_RESOLUTION),
    ("the color network for all σ", COLOR, "CDnCNN-B", CDNCNN_B),
    ("the color network for all σ", COLOR, "FFDNet", FFDNET),
)


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
            reaches(f"{ours} is at or above {theirs} at σ = {sigma}", name, figures[sigma], σ=sigma)
            for ours, name, theirs, figures in COMPARED
            for sigma in LEVELS
        ),
    ),
    columns="σ",
    needs=("BSDS500",),
    note="Weights are those of the package, with kernels in float16. The other networks were "
    "tested on the same images with another draw of the noise.",
)
