"""The denoising networks of the package on BSD68."""

from dataclasses import dataclass

import torch

from fwnet.experiments.claims import Claim, reaches
from fwnet.experiments.denoising import LEVELS, MIDDLE, Data, denoising_figures
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.image_study import PSNR, add_tests
from fwnet.experiments.pictures import Bars, panels
from fwnet.experiments.runs import Job, Record
from fwnet.hardware import hardware_name
from fwnet.models import ImageModel
from fwnet.zoo import list_models, load_model

# Other networks on the same images: the authors' weights of 16 layers and DnCNN-S, whose public
# weights were tested with another draw of the noise, and the published figure of CDnCNN for color.
AUTHORS = {15: 31.52, 25: 29.14, 50: 26.08}
DNCNN_S = {15: 31.72, 25: 29.21, 50: 26.22}
CDNCNN = 31.23
SPECIFIC = "conv_fwnet_t16.denoise_gray_s"
BLIND, COLOR = "conv_fwnet_t16.denoise_gray", "conv_fwnet_t16.denoise_color"


@dataclass(frozen=True)
class ShippedTest(Job):
    """Test a network of the zoo.

    Attributes:
        name: Name of the network.
        sha256: Checksum of its file.
        sigma: Noise level on the scale 0 to 255.
        data: Whose test images.
    """

    name: str
    sha256: str
    sigma: float
    data: Data = "berkeley"

    def execute(self, device: torch.device) -> Record:
        """Return PSNR and SSIM."""
        model = load_model(self.name, device)
        assert isinstance(model, ImageModel)
        return {
            **denoising_figures(model, self.data, self.sigma, device, model.in_channels == 3),
            "hardware": f"{hardware_name(device)}, torch {torch.__version__}",
            "num_parameters": model.num_parameters,
        }


def shipped_tests(lab: Lab) -> list[ShippedTest]:
    """Return the tests of every network at the noise levels that it is for."""
    data: Data = "small" if lab.quick else "berkeley"
    jobs = []
    for card in list_models("denoise"):
        _, has_level, level = card.name.partition("_s")
        for sigma in [int(level)] if has_level else LEVELS:
            jobs.append(ShippedTest(card.name, card.sha256, sigma, data))
    return jobs


def measure(lab: Lab, result: Result) -> None:
    """Test the networks of the package."""
    jobs = shipped_tests(lab)
    for job, record in zip(jobs, lab.runner.run(jobs), strict=True):
        add_tests(result, job.name, {"σ": int(job.sigma)}, [record])


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
                PSNR,
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
            PSNR,
            σ=MIDDLE,
        ),
    ),
    columns="σ",
    needs=("BSDS500",),
    note="Weights are those of the package, with kernels in float16. The other networks were "
    "tested on the same images with another draw of the noise.",
)
