"""The paper's table of denoising: eight methods at three noise levels."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from matplotlib.figure import Figure
from torch import Tensor

from fwnet.experiments.denoising import Data, images_of, measured_on
from fwnet.experiments.denoising_networks import (
    LEVELS,
    conv_fwnet,
    measure_networks,
    table_networks,
)
from fwnet.experiments.experiment import Experiment, Lab, Result, row_of
from fwnet.experiments.image_figures import (
    PSNR,
    SSIM,
    check_any,
    compare,
    finished,
    is_above,
    psnr_row,
)
from fwnet.experiments.pictures import bars, new_figure
from fwnet.experiments.runs import Job, Record
from fwnet.experiments.words import comma_list, verdict
from fwnet.hardware import hardware_name
from fwnet.imaging.bm3d import denoise_bm3d
from fwnet.imaging.patch_coding import denoise_ksvd, patch_dictionary

__all__ = ["EXPERIMENT"]

OURS = conv_fwnet(4).name
PAPER = {
    "FC LISTA (4 layers)": (29.20, 27.63, 24.33),
    "FC F-W Net (4 layers)": (29.35, 27.71, 24.52),
    "KSVD + OMP": (30.82, 27.97, 23.97),
    "BM3D": (31.07, 28.57, 25.62),
    "DnCNN (4 layers)": (30.89, 28.42, 25.42),
    "DnCNN (4 layers, w/o BN)": (30.85, 28.43, 25.36),
    "Conv LISTA (4 layers)": (30.90, 28.50, 25.55),
    "Conv F-W Net (4 layers)": (31.27, 28.71, 25.66),
}


@dataclass(frozen=True)
class ClassicalDenoising(Job):
    """Denoise the test images by a method that is no network.

    Attributes:
        data: Whose test images.
        method: "KSVD + OMP", with 512 atoms learned from the images that networks learn from, or
            "BM3D", by the package of its authors.
        sigma: The noise level on the scale of 0 to 255.
    """

    data: Data
    method: Literal["KSVD + OMP", "BM3D"]
    sigma: float

    def execute(self, device: torch.device) -> Record:
        """Return PSNR and SSIM."""
        learn, _, test = images_of(self.data)
        method: Callable[[Tensor], Tensor]
        if self.method == "BM3D":
            method = lambda x: denoise_bm3d(x, self.sigma / 255)  # noqa: E731
        else:
            options = {} if self.data == "berkeley" else {"num_patches": 2_000, "num_rounds": 2}
            count = 512 if self.data == "berkeley" else 64
            pictures = [learn[index][0, 0] for index in range(len(learn))]
            atoms = patch_dictionary(pictures, count, **options).to(device)
            method = lambda x: denoise_ksvd(x, self.sigma / 255, atoms)  # noqa: E731
        hardware = f"{hardware_name(device)}, torch {torch.__version__}"
        return {**measured_on(test, self.sigma, method, device), "hardware": hardware}


def measure(lab: Lab, result: Result) -> None:
    """Train all networks at all levels; run the methods that are none."""
    measure_networks(lab, result, table_networks(), LEVELS, PAPER)
    _add_classical(lab, result)
    check_any(result)
    result.findings = _findings(result)


def _add_classical(lab: Lab, result: Result) -> None:
    methods: list[Literal["KSVD + OMP", "BM3D"]] = ["KSVD + OMP", "BM3D"]
    for method in methods:
        for index, sigma in enumerate(LEVELS):
            job = ClassicalDenoising("small" if lab.quick else "berkeley", method, sigma)
            installed = importlib.util.find_spec("bm3d") is not None
            if method == "BM3D" and not installed and not lab.runner.knows(job):
                continue
            for record in finished(lab, [job]):
                for quantity, key in ((PSNR, "psnr"), (SSIM, "ssim")):
                    paper = PAPER[method][index] if quantity == PSNR else None
                    row = row_of(method, {"σ": sigma}, quantity, [record[key]], [record], paper)
                    result.rows.append(row)


def _findings(result: Result) -> list[str]:
    names = list(dict.fromkeys(row.method for row in result.rows))
    missing = [
        f"{name} at σ = {sigma}"
        for name in [*names, *(name for name in PAPER if name not in names)]
        for sigma in LEVELS
        if psnr_row(result, name, σ=sigma) is None
    ]
    sentences = [
        "All convolutional networks were trained by one loop for 10,000 steps of 128 crops of "
        "48 × 48, those on patches for 5,000 steps of 4,096 patches, from images outside BSD68, "
        "the learning rate of each kind chosen on images that were held back. Three seeds at σ = "
        "25 for most, one elsewhere; with single seeds, differences below 0.1 dB count as not "
        "told apart.",
        "The paper's four layers are T = 4: five convolutions, as many multiplications as DnCNN "
        "with five layers. Multiplications a pixel and parameters: "
        + "; ".join(
            f"{name} {result.curves[name]['multiply_adds']:,} and "
            f"{result.curves[name]['num_parameters']:,}"
            for name in names
            if name in result.curves
        )
        + ".",
    ]
    for sigma in LEVELS:
        ours = psnr_row(result, OURS, σ=sigma)
        others = [name for name in names if name != OURS]
        if ours is not None:
            rows = [row for name in others if (row := psnr_row(result, name, σ=sigma)) is not None]
            parts = [f"{row.method} by {compare(ours, row)}" for row in rows]
            sentences.append(f"σ = {sigma}: {OURS} differs from {comma_list(parts)}.")
    claims: dict[str, bool] = {}
    for name, printed in PAPER.items():
        for sigma, paper in zip(LEVELS, printed, strict=True):
            row = psnr_row(result, name, σ=sigma)
            if row is not None and "F-W" in name:
                claims[f"{name} is at or above the paper's {paper} dB at σ = {sigma}"] = (
                    round(row.ours, 2) >= paper
                )
    pairs = {
        "FC F-W Net is better than FC LISTA": ("FC F-W Net (4 layers)", "FC LISTA (4 layers)"),
        "Conv F-W Net is better than Conv LISTA": (OURS, "Conv LISTA (4 layers)"),
        "Conv F-W Net is better than DnCNN with four layers": (OURS, "DnCNN (4 layers)"),
        "Conv F-W Net is better than DnCNN with five layers": (OURS, "DnCNN (5 layers)"),
        "Conv F-W Net is better than BM3D": (OURS, "BM3D"),
    }
    for claim, (ours_name, theirs_name) in pairs.items():
        pairs_at = {
            sigma: (psnr_row(result, ours_name, σ=sigma), psnr_row(result, theirs_name, σ=sigma))
            for sigma in LEVELS
        }
        known = {sigma: pair for sigma, pair in pairs_at.items() if None not in pair}
        if known:
            where = comma_list([str(sigma) for sigma in known])
            claims[f"{claim} at σ = {where}"] = all(is_above(*pair) for pair in known.values())
    sentences.append(verdict(claims))
    if missing:
        sentences.append(f"Not measured: {comma_list(missing)}.")
    return sentences


def draw(result: Result) -> Figure:
    """PSNR of all methods above that of the weakest, a panel a level."""
    figure, axes = new_figure(columns=len(LEVELS), width=4.6)
    for axis, sigma in zip(axes, LEVELS, strict=True):
        rows = [r for r in result.rows if r.quantity == PSNR and r.setting["σ"] == sigma]
        if not rows:
            axis.set_axis_off()
            continue
        bars(
            axis,
            rows,
            lambda row: "F-W" in row.method,
            xlabel="PSNR in dB (crosses: the paper)",
            title=f"σ = {sigma}",
        )
    return figure


EXPERIMENT = Experiment(
    "denoise-table",
    "Denoising: eight methods on BSD68",
    "FC F-W Net is better than FC LISTA at every σ; Conv F-W Net of four layers is better than "
    "Conv LISTA, DnCNN of four layers and BM3D.",
    measure,
    draw,
)
