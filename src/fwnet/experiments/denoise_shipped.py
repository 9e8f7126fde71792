"""The networks that ship with the package: how they were trained, and how good they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure

from fwnet.experiments.compared_network import SEEDS
from fwnet.experiments.denoising import Data, DenoisingTraining, evaluate, images_of
from fwnet.experiments.denoising_networks import LEVELS, MIDDLE, Network, conv_fwnet, final_jobs
from fwnet.experiments.experiment import Experiment, Lab, Result, row_of
from fwnet.experiments.image_figures import PSNR, SSIM
from fwnet.experiments.pictures import color, marker, new_figure, tidy
from fwnet.experiments.runs import Job, Record
from fwnet.experiments.words import verdict
from fwnet.hardware import hardware_name
from fwnet.models import ImageModel
from fwnet.zoo import list_models, load_model

__all__ = ["EXPERIMENT", "shipped_jobs"]

# All go on from networks of the table and of the figure of depths, with half the learning rate.
SHALLOW_EPOCHS = 25
EPOCHS = {"s15": 6, "s25": 6, "s50": 6, "gray": 8, "color": 9}
ALL_LEVELS = [0.0, 55.0]
# Of other networks on the same images: the authors' own of 16 layers and DnCNN-S, whose public
# weights were tested with another draw of the noise, and what is printed of CDnCNN for color.
AUTHORS = {15: 31.52, 25: 29.14, 50: 26.08}
DNCNN_S = {15: 31.72, 25: 29.21, 50: 26.22}
CDNCNN = 31.23
SPECIFIC, BLIND, COLOR = "t16.denoise_gray_s", "t16.denoise_gray", "t16.denoise_color"


def deep_parent(lab: Lab, rates: dict[str, float]) -> DenoisingTraining:
    """The network of 16 layers that the others start from."""
    (job,) = final_jobs(lab, conv_fwnet(16), MIDDLE, rates)
    return job


def shallow_job(lab: Lab, rates: dict[str, float], sigma: int) -> DenoisingTraining:
    """A network of 4 layers, trained on."""
    network = conv_fwnet(4)
    return network.job(
        lab,
        sigma,
        rates[network.family] / 2,
        SEEDS[0],
        num_epochs=SHALLOW_EPOCHS,
        tested_at=[sigma],
        parent=final_jobs(lab, network, sigma, rates)[0],
    )


def shipped_jobs(lab: Lab, rates: dict[str, float]) -> dict[str, DenoisingTraining]:
    """The trainings of the shipped networks, by their names in the zoo."""
    deep, parent = conv_fwnet(16), deep_parent(lab, rates)
    rate = rates[deep.family] / 2
    blind = Network(deep.name, deep.model, {**deep.options, "noise_level_input": True}, deep.family)
    jobs = {
        f"conv_fwnet_t4.denoise_gray_s{sigma}": shallow_job(lab, rates, sigma) for sigma in LEVELS
    }
    for name, epochs in EPOCHS.items():
        options: dict[str, Any] = {"num_epochs": epochs, "parent": parent}
        if name.startswith("s"):
            sigma = int(name[1:])
            job = deep.job(lab, sigma, rate, SEEDS[0], tested_at=[sigma], **options)
            jobs[f"conv_fwnet_t16.denoise_gray_{name}"] = job
        else:
            in_color = name == "color"
            jobs[f"conv_fwnet_t16.denoise_{name}"] = blind.job(
                lab, ALL_LEVELS, rate, SEEDS[0], tested_at=LEVELS, color=in_color, **options
            )
    return jobs


@dataclass(frozen=True)
class ShippedTest(Job):
    """Test a network of the zoo, as it is in its file.

    Attributes:
        name: Of the network.
        sha256: Of its file.
        sigma: The noise level on the scale of 0 to 255.
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
        _, _, test = images_of(self.data, model.in_channels == 3)
        return {
            **evaluate(model, test, self.sigma, device),
            "hardware": f"{hardware_name(device)}, torch {torch.__version__}",
            "num_parameters": model.num_parameters,
        }


def test_jobs(lab: Lab) -> list[ShippedTest]:
    """Every network at the levels that it is for."""
    jobs = []
    for card in list_models("denoise"):
        _, has_level, level = card.name.partition("_s")
        levels = [int(level)] if has_level else list(LEVELS)
        for sigma in levels:
            data: Data = "small" if lab.quick else "berkeley"
            jobs.append(ShippedTest(card.name, card.sha256, sigma, data))
    return jobs


def measure(lab: Lab, result: Result) -> None:
    """Test what is in the package, on BSD68."""
    jobs = test_jobs(lab)
    for job, record in zip(jobs, lab.runner.run(jobs), strict=True):
        setting = {"σ": int(job.sigma)}
        for quantity, key in ((PSNR, "psnr"), (SSIM, "ssim")):
            row = row_of(job.name, setting, quantity, [record[key]])
            result.rows.append(row)
    if lab.quick:
        result.findings = ["The images are two of scikit-image's, not BSD68."]
        return
    result.findings = _findings(result)


def _findings(result: Result) -> list[str]:
    def figure(part: str, sigma: int) -> float:
        for row in result.rows:
            at_level = row.quantity == PSNR and row.setting["σ"] == sigma
            if at_level and row.method.endswith(part):
                return row.ours
        raise KeyError(f"no figure of {part} at {sigma}")

    specific = {sigma: figure(f"{SPECIFIC}{sigma}", sigma) for sigma in LEVELS}
    blind = {sigma: figure(BLIND, sigma) for sigma in LEVELS}
    shallow = {sigma: figure(f"t4.denoise_gray_s{sigma}", sigma) for sigma in LEVELS}
    in_color = figure(COLOR, MIDDLE)

    def listed(values: dict[int, float]) -> str:
        return " / ".join(f"{values[sigma]:.2f}" for sigma in LEVELS)

    return [
        "Weights are as they are in the package, kernels in float16. PSNR at σ = 15 / 25 / 50, in "
        f"dB: 4 layers {listed(shallow)}, 16 layers {listed(specific)}, one network of 16 layers "
        f"for all σ, which is told σ, {listed(blind)}.",
        "On the same images, with another draw of the noise, the authors' weights of 16 layers "
        f"have {listed(AUTHORS)}, the public ones of DnCNN-S (17 layers, as many parameters) "
        f"{listed(DNCNN_S)}.",
        f"In color, at σ = 25, one network for all σ has {in_color:.2f} dB; {CDNCNN} are published "
        "for CDnCNN, which was trained for this σ.",
        verdict(
            {
                "16 layers are better than the authors' own weights at every σ": all(
                    specific[sigma] > AUTHORS[sigma] for sigma in LEVELS
                ),
                "16 layers are as good as DnCNN-S at every σ": all(
                    specific[sigma] >= DNCNN_S[sigma] for sigma in LEVELS
                ),
                "the network for all σ is within 0.1 dB of those for one": all(
                    blind[sigma] >= specific[sigma] - 0.1 for sigma in LEVELS
                ),
                "in color it is as good as CDnCNN": in_color >= CDNCNN,
            }
        ),
    ]


def draw(result: Result) -> Figure:
    """PSNR by noise level."""
    figure, axis = new_figure(width=7)
    groups = {
        "16 layers": "t16.denoise_gray_s",
        "16 layers, all σ": "t16.denoise_gray",
        "4 layers": "t4.denoise_gray_s",
        "16 layers, all σ, color": "t16.denoise_color",
    }
    for index, (label, part) in enumerate(groups.items()):
        rows = [row for row in result.rows if row.quantity == PSNR and part in row.method]
        if part == "t16.denoise_gray":
            rows = [row for row in rows if "_s" not in row.method]
        axis.plot(
            [row.setting["σ"] for row in rows],
            [row.ours for row in rows],
            marker=marker(index),
            color=color(index, len(groups)),
            label=label,
        )
    tidy(axis, xlabel="σ", ylabel="PSNR in dB", title="the networks of the package on BSD68")
    return figure


EXPERIMENT = Experiment(
    "denoise-shipped",
    "The denoising networks of the package",
    "The paper has none with 16 layers; its authors published weights of one.",
    measure,
    draw,
)
