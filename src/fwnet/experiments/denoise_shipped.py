"""The networks that ship with the package: how they were trained, and how good they are."""

from __future__ import annotations

from typing import Any

from fwnet.experiments.denoising import (
    LEVELS,
    MIDDLE,
    SEEDS,
    DenoisingTraining,
    Network,
    conv_fwnet,
    final_jobs,
)
from fwnet.experiments.experiment import Lab

__all__ = ["shipped_jobs"]

# Those of 16 layers go on from the one that the figure of depths has, with half the learning rate.
EPOCHS = {"s15": 6, "s25": 6, "s50": 6, "gray": 8, "color": 9}
ALL_LEVELS = [0.0, 55.0]


def deep_parent(lab: Lab, rates: dict[str, float]) -> DenoisingTraining:
    """The network of 16 layers that the others start from."""
    (job,) = final_jobs(lab, conv_fwnet(16), MIDDLE, rates)
    return job


def shipped_jobs(lab: Lab, rates: dict[str, float]) -> dict[str, DenoisingTraining]:
    """The trainings of the shipped networks, by their names in the zoo."""
    deep, parent = conv_fwnet(16), deep_parent(lab, rates)
    rate = rates[deep.family] / 2
    blind = Network(deep.name, deep.model, {**deep.options, "noise_level_input": True}, deep.family)
    jobs = {
        f"conv_fwnet_t4.denoise_gray_s{sigma}": final_jobs(lab, conv_fwnet(4), sigma, rates)[0]
        for sigma in LEVELS
    }
    for name, epochs in EPOCHS.items():
        options: dict[str, Any] = {"num_epochs": epochs, "parent": parent}
        if name.startswith("s"):
            sigma = int(name[1:])
            job = deep.job(lab, sigma, rate, SEEDS[0], tested_at=[sigma], **options)
            jobs[f"conv_fwnet_t16.denoise_gray_{name}"] = job
        else:
            color = name == "color"
            jobs[f"conv_fwnet_t16.denoise_{name}"] = blind.job(
                lab, ALL_LEVELS, rate, SEEDS[0], tested_at=LEVELS, color=color, **options
            )
    return jobs
