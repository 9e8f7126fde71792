"""The paper's table of denoising: eight methods at three noise levels."""

import importlib.util
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch

from fwnet.experiments.claims import better, reaches
from fwnet.experiments.denoising import (
    CONV_LISTA,
    LEVELS,
    PLAIN,
    at_levels,
    conv_fwnet,
    dncnn,
    fc_fwnet,
    fc_lista,
)
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.image_study import PSNR, Paper, add_tests, image_study
from fwnet.experiments.image_training import Data, figures_by_set, images_to_test, learning_images
from fwnet.experiments.patches import denoise_ksvd, patch_dictionary
from fwnet.experiments.pictures import Bars, panels
from fwnet.experiments.runs import Job, Record
from fwnet.imaging.bm3d import denoise_bm3d
from fwnet.restoration import Denoising

METHODS: tuple[Literal["KSVD + OMP", "BM3D"], ...] = ("KSVD + OMP", "BM3D")
OURS, FC_OURS, FC_LISTA = "Conv F-W Net (4 layers)", "FC F-W Net (4 layers)", "FC LISTA (4 layers)"
PAPER: Paper = {
    FC_LISTA: {15: 29.20, 25: 27.63, 50: 24.33},
    FC_OURS: {15: 29.35, 25: 27.71, 50: 24.52},
    "KSVD + OMP": {15: 30.82, 25: 27.97, 50: 23.97},
    "BM3D": {15: 31.07, 25: 28.57, 50: 25.62},
    "DnCNN (4 layers)": {15: 30.89, 25: 28.42, 50: 25.42},
    "DnCNN (4 layers, w/o BN)": {15: 30.85, 25: 28.43, 50: 25.36},
    "Conv LISTA (4 layers)": {15: 30.90, 25: 28.50, 50: 25.55},
    OURS: {15: 31.27, 25: 28.71, 50: 25.66},
}
CASES = [
    fc_lista(4),
    fc_lista(8),
    fc_fwnet(4),
    fc_fwnet(8),
    dncnn(4),
    dncnn(4, batch_norm=False),
    dncnn(5),
    dncnn(5, batch_norm=False),
    CONV_LISTA,
    PLAIN,
    conv_fwnet(4),
]


@dataclass(frozen=True)
class ClassicalDenoising(Job):
    """Denoise the test images by a method that is not a network.

    Attributes:
        data: Whose test images.
        method: "KSVD + OMP", with 512 atoms learned from the images that networks learn from, or
            "BM3D", by the package of its authors.
        sigma: Noise level on the scale 0 to 255.
    """

    data: Data
    method: Literal["KSVD + OMP", "BM3D"]
    sigma: int

    def execute(self, device: torch.device) -> Record:
        """Return PSNR and SSIM."""
        sigma = self.sigma / 255
        images = images_to_test(self.data, luma=False)
        if self.method == "BM3D":
            denoise = partial(denoise_bm3d, sigma=sigma)
        else:
            learn, _ = learning_images(self.data, luma=False)
            small = {"num_atoms": 64, "num_patches": 2_000, "num_rounds": 2}
            atoms = patch_dictionary(learn, **(small if self.data == "small" else {})).to(device)
            denoise = partial(denoise_ksvd, sigma=sigma, dictionary=atoms)
        return {
            "tests": figures_by_set(
                Denoising(sigma), images, lambda one: denoise(one.degraded.to(device)).cpu()
            )
        }


def add_classical(lab: Lab, result: Result) -> None:
    """Measure the methods that are not networks; BM3D only where it is installed."""
    for method in METHODS:
        for sigma in LEVELS[:1] if lab.quick else LEVELS:
            job = ClassicalDenoising("small" if lab.quick else "berkeley", method, sigma)
            installed = method != "BM3D" or importlib.util.find_spec("bm3d") is not None
            if lab.runner.knows(job) or (installed and not lab.runner.finished_only):
                records = lab.runner.run([job])
                paper = {} if lab.quick else PAPER
                add_tests(result, method, {"sigma": sigma}, records, paper)


EXPERIMENT = Experiment(
    "denoise-table",
    "Denoising: eight methods on BSD68",
    "FC F-W Net is better than FC LISTA at every σ; Conv F-W Net of four layers is better than "
    "Conv LISTA, DnCNN of four layers and BM3D.",
    image_study(at_levels(CASES), PAPER, add_classical),
    panels(Bars(quantity=PSNR, by="σ", title="σ = "), width=4.6),
    claims=(
        *(
            reaches(f"{name} reaches the paper's PSNR at σ = {sigma}", name, σ=sigma)
            for name in (FC_OURS, OURS)
            for sigma in LEVELS
        ),
        better(f"{FC_OURS} is better than {FC_LISTA}", FC_OURS, FC_LISTA, "σ"),
        *(
            better(f"{OURS} is better than {name}", OURS, name, "σ")
            for name in (
                "Conv LISTA (4 layers)",
                "DnCNN (4 layers)",
                "DnCNN (5 layers)",
                "BM3D",
                "KSVD + OMP",
            )
        ),
    ),
    columns="σ",
    needs=("BSDS500",),
    note="Convolutional networks were trained for 10,000 steps of 128 crops of 48 × 48, those on "
    "patches for 5,000 steps of 4,096 patches, on images outside BSD68. Three seeds at σ = 25 for "
    "most, one elsewhere. The paper's four layers are T = 4: five convolutions, as many "
    "multiplications as DnCNN with five layers.",
)
