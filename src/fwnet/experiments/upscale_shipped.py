"""The networks that enlarge and ship with the package: how they were trained, how good they are."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from matplotlib.figure import Figure

from fwnet.experiments.compared_network import SEEDS
from fwnet.experiments.experiment import Experiment, Lab, Result, row_of
from fwnet.experiments.image_figures import PSNR, SINGLE_SEED, SSIM
from fwnet.experiments.pictures import color, new_figure, tidy
from fwnet.experiments.runs import Job, Record
from fwnet.experiments.super_resolution import Data, UpscalingTraining, evaluate, test_images
from fwnet.experiments.super_resolution_networks import (
    DEEP,
    OURS,
    SETS,
    SUB_PIXEL,
    final_jobs,
    learning_rates_of,
)
from fwnet.experiments.words import verdict
from fwnet.hardware import hardware_name
from fwnet.models import ImageModel
from fwnet.restoration import Upscaling
from fwnet.zoo import list_models, load_trained

__all__ = ["EXPERIMENT", "shipped_jobs"]

SCALES = (2, 3, 4)
DEEP_EPOCHS = 40
DEEP_CROP = 72  # of the large image; with 48 a small one would hardly be larger than what is seen
# Published figures of VDSR with 20 layers, which learned from the 91 images and 200 Berkeley ones.
VDSR = {2: (37.53, 33.03), 3: (33.66, 29.77), 4: (31.35, 28.01)}
LENGTHS = ((10, False), (10, True), (20, True))  # epochs, and whether there are smaller copies
HELD_BACK = "PSNR of held-back images in dB"


def deep_job(
    lab: Lab,
    rates: dict[str, float],
    scale: int,
    num_epochs: int = DEEP_EPOCHS,
    copies: bool = True,
) -> UpscalingTraining:
    """The training of a deep network."""
    return DEEP.job(
        lab,
        rates[DEEP.family],
        SEEDS[0],
        data="t91+berkeley199",
        smaller_copies=copies,
        scale=scale,
        num_epochs=num_epochs,
        crop_size=DEEP_CROP,
    )


def shipped_jobs(lab: Lab, rates: dict[str, float]) -> dict[str, UpscalingTraining]:
    """The trainings of the shipped networks, by their names in the zoo."""
    jobs = {f"conv_fwnet_t19.upscale_x{s}": deep_job(lab, rates, s) for s in SCALES}
    jobs["conv_fwnet_t4.upscale_x3"] = final_jobs(lab, SUB_PIXEL, rates)[0]
    return jobs


def tried_jobs(lab: Lab, rates: dict[str, float]) -> dict[str, list[UpscalingTraining]]:
    """Trainings × 3, shorter ones with and without smaller copies first, then what became of them.

    That is those of the tables, the paper's form among them, and of the package.
    """
    deep = [deep_job(lab, rates, 3, epochs, copies) for epochs, copies in LENGTHS]
    jobs = {DEEP.name: [*deep, deep_job(lab, rates, 3)]}
    for network in (OURS, SUB_PIXEL):
        shorter = [
            network.job(
                lab,
                rates[network.family],
                SEEDS[0],
                data="t91",
                smaller_copies=copies,
                num_epochs=epochs,
            )
            for epochs, copies in LENGTHS[:2]
        ]
        jobs[network.name] = [*shorter, final_jobs(lab, network, rates)[0]]
    return jobs


@dataclass(frozen=True)
class ShippedUpscaling(Job):
    """Test a network of the zoo, as it is in its file.

    Attributes:
        name: Of the network.
        sha256: Of its file.
        data: Whose test images.
    """

    name: str
    sha256: str
    data: Data = "t91"

    def execute(self, device: torch.device) -> Record:
        """Return PSNR and SSIM."""
        trained = load_trained(self.name, device)
        model, scale = trained.model, Upscaling.for_network(trained).scale
        assert isinstance(model, ImageModel)
        tests = [
            {"images": name, **evaluate(model, images, scale, device)}
            for name, images in test_images(self.data).items()
        ]
        hardware = f"{hardware_name(device)}, torch {torch.__version__}"
        return {"tests": tests, "scale": scale, "hardware": hardware}


def measure(lab: Lab, result: Result) -> None:
    """Test what is in the package; show why it was trained as it was."""
    data: Data = "small" if lab.quick else "t91"
    jobs = [ShippedUpscaling(card.name, card.sha256, data) for card in list_models("upscale")]
    for job, record in zip(jobs, lab.runner.run(jobs), strict=True):
        for test in record["tests"]:
            setting = {"images": test["images"], "scale": record["scale"]}
            for quantity, key in ((PSNR, "psnr"), (SSIM, "ssim")):
                result.rows.append(row_of(job.name, setting, quantity, [test[key]]))
    if lab.quick:
        result.findings = ["The images are scikit-image's, not Set5 and Set14."]
        return
    rates = learning_rates_of(lab, result, [DEEP.name, OURS.name, SUB_PIXEL.name])
    trials = tried_jobs(lab, rates)
    shipped = [deep_job(lab, rates, scale) for scale in SCALES]
    lab.runner.run([*shipped, *(job for listed in trials.values() for job in listed)])
    for name, listed in trials.items():
        for training, record in zip(listed, lab.runner.run(listed), strict=True):
            copies = "yes" if training.smaller_copies else "no"
            setting = {"epochs": training.settings["num_epochs"], "smaller copies": copies}
            row = row_of(name, setting, HELD_BACK, [record["validation"]], [record])
            result.rows.append(row)
    courses = {f"{DEEP.name}, × {job.scale}": job for job in shipped}
    courses[f"{DEEP.name}, × 3, without copies"] = trials[DEEP.name][0]
    for name, record in zip(courses, lab.runner.run(list(courses.values())), strict=True):
        result.curves[name] = {"held back, by epoch": record["validation_by_epoch"]}
    result.findings = _findings(result)


def _findings(result: Result) -> list[str]:
    def figures(part: str) -> list[float]:
        rows = [r for r in result.rows if r.quantity == PSNR and r.method.endswith(part)]
        return [next(row.ours for row in rows if row.setting["images"] == one) for one in SETS]

    deep = {scale: figures(f"t19.upscale_x{scale}") for scale in SCALES}
    margins = {
        scale: [ours - theirs for ours, theirs in zip(deep[scale], VDSR[scale], strict=True)]
        for scale in SCALES
    }
    four = figures("t4.upscale_x3")
    beside = "; ".join(
        f"× {scale} {deep[scale][0]:.2f} / {deep[scale][1]:.2f} (VDSR {VDSR[scale][0]} / "
        f"{VDSR[scale][1]:.2f})"
        for scale in SCALES
    )
    tried: dict[str, list[str]] = {}
    for row in result.rows:
        if row.quantity == HELD_BACK:
            copies = "with" if row.setting["smaller copies"] == "yes" else "without"
            words = f"{row.ours:.3f} dB after {row.setting['epochs']} epochs {copies} copies"
            tried.setdefault(row.method, []).append(words)
    return [
        "Weights are as they are in the package, kernels in float16; all work on the small image "
        "(sub-pixel). PSNR in dB on Set5 / Set14, 19 layers (20 convolutions) trained on 91 + 199 "
        f"images, beside what is published of VDSR with 20 layers: {beside}. Four layers, trained "
        f"on the 91 images: × 3 {four[0]:.2f} / {four[1]:.2f}. From VDSR they differ by "
        + "; ".join(f"{margins[scale][0]:+.2f} / {margins[scale][1]:+.2f}" for scale in SCALES)
        + " dB, single seeds all: below 0.1 dB that is not told apart.",
        "VDSR learned from 200 Berkeley images. One of them, 302003, has woman of Set5 in it: here "
        "that one is left out.",
        "Copies of the images, at 0.9 to 0.6 of their sizes, and the number of epochs were chosen "
        "on images that were held back, at × 3: "
        + "; ".join(f"{name} {', '.join(parts)}" for name, parts in tried.items())
        + ".",
        verdict(
            {
                "19 layers are better than VDSR with 20 on Set5": all(
                    margins[scale][0] > SINGLE_SEED for scale in SCALES
                ),
                "19 layers are as good as VDSR with 20 on both sets at every scale": all(
                    margin > -SINGLE_SEED for listed in margins.values() for margin in listed
                ),
                "19 layers are at or above what is published of VDSR with 20, on both sets at "
                "every scale": all(margin >= 0 for listed in margins.values() for margin in listed),
            }
        ),
    ]


def draw(result: Result) -> Figure:
    """PSNR above VDSR's published one, by scale."""
    figure, axis = new_figure(width=6)
    for index, images in enumerate(SETS):
        rows = [
            row
            for row in result.rows
            if row.quantity == PSNR and "_t19." in row.method and row.setting["images"] == images
        ]
        axis.plot(
            [row.setting["scale"] for row in rows],
            [row.ours - VDSR[row.setting["scale"]][index] for row in rows],
            "o-",
            color=color(2 * index, 4),
            label=images,
        )
    axis.axhline(0, color="gray", linewidth=0.8)
    axis.set_xticks(SCALES)
    tidy(
        axis,
        xlabel="scale",
        ylabel="PSNR in dB, less that of VDSR",
        title="19 layers, sub-pixel, beside VDSR as published",
    )
    return figure


EXPERIMENT = Experiment(
    "upscale-shipped",
    "The networks of the package that enlarge",
    "The paper has none that are deep.",
    measure,
    draw,
)
