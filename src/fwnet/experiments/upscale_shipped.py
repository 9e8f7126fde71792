"""The networks that ship with the package: how they were trained, and how good they are."""

from __future__ import annotations

from fwnet.experiments.experiment import Lab
from fwnet.experiments.super_resolution import (
    DEEP,
    OURS,
    SEEDS,
    SUB_PIXEL,
    UpscalingTraining,
    final_jobs,
)

__all__ = ["shipped_jobs"]

# Every network learns for some epochs, and then for more from where it was, with half the rate.
FIRST_EPOCHS = 20
MORE_EPOCHS = {2: 60, 3: 60, 4: 60}
DEEP_CROP = 72  # of the large image; with 48 a small one would hardly be larger than what is seen
SHALLOW_EPOCHS = 20


def deep_parent(lab: Lab, rates: dict[str, float], scale: int) -> UpscalingTraining:
    """The first epochs of a deep network."""
    return DEEP.job(
        lab,
        rates[DEEP.family],
        SEEDS[0],
        data="t91+berkeley",
        scale=scale,
        num_epochs=FIRST_EPOCHS,
        crop_size=DEEP_CROP,
    )


def shipped_jobs(lab: Lab, rates: dict[str, float]) -> dict[str, UpscalingTraining]:
    """The trainings of the shipped networks, by their names in the zoo."""
    jobs = {
        f"conv_fwnet_t19.upscale_x{scale}": DEEP.job(
            lab,
            rates[DEEP.family] / 2,
            SEEDS[0],
            data="t91+berkeley",
            scale=scale,
            num_epochs=epochs,
            crop_size=DEEP_CROP,
            parent=deep_parent(lab, rates, scale),
            tested=True,
        )
        for scale, epochs in MORE_EPOCHS.items()
    }
    jobs["conv_fwnet_t4.upscale_x3"] = longer(lab, rates, sub_pixel=True)
    return jobs


def longer(lab: Lab, rates: dict[str, float], sub_pixel: bool) -> UpscalingTraining:
    """Twenty more epochs of four layers, on the 91 images alone."""
    network = SUB_PIXEL if sub_pixel else OURS
    return network.job(
        lab,
        rates[network.family] / 2,
        SEEDS[0],
        num_epochs=SHALLOW_EPOCHS,
        parent=final_jobs(lab, network, rates)[0],
        tested=True,
    )
