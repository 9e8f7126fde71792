"""The networks of the package that enlarge, and how their training was chosen."""

from dataclasses import replace
from typing import Any

from fwnet.experiments.claims import Claim, reaches
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.image_study import PSNR, SEEDS, ShippedTest, add_tests
from fwnet.experiments.image_training import ImageTraining
from fwnet.experiments.pictures import Bars, panels
from fwnet.experiments.study import choose
from fwnet.experiments.super_resolution import DEEP, OURS, SUB_PIXEL
from fwnet.zoo import list_models

SCALES = (2, 3, 4)
DEEP_EPOCHS = 40
DEEP_CROP = 72  # of the large image; the small one must be larger than what the network sees
# Published figures of VDSR with 20 layers, which learned from the 91 images and 200 Berkeley ones.
VDSR = {
    2: {"Set5": 37.53, "Set14": 33.03},
    3: {"Set5": 33.66, "Set14": 29.77},
    4: {"Set5": 31.35, "Set14": 28.01},
}
LENGTHS = ((10, False), (10, True), (20, True))  # epochs, and whether there are smaller copies
HELD_BACK = "PSNR of held-back images in dB"


def deep_job(
    lab: Lab, rate: float, scale: int, num_epochs: int = DEEP_EPOCHS, copies: bool = True
) -> ImageTraining:
    """Return the training of a deep network."""
    training = DEEP.training(lab, rate, SEEDS[0], num_epochs)
    return replace(
        training,
        task={"scale": scale},
        options={**training.options, "scale": scale},
        smaller_copies=copies,
        crop_size=DEEP_CROP,
    )


def tried_jobs(lab: Lab, rates: dict[str, float]) -> dict[str, list[ImageTraining]]:
    """Return trainings by a factor of 3: shorter ones, with and without copies, and the final one.

    They are those of the package and of the tables, including the paper's form.
    """
    rate = rates[DEEP.name]
    deep = [deep_job(lab, rate, 3, epochs, copies) for epochs, copies in LENGTHS]
    jobs = {DEEP.name: [*deep, deep_job(lab, rate, 3)]}
    for case in (OURS, SUB_PIXEL):
        settings = {"learning_rate": rates[case.name]}
        shorter = [
            replace(case.training(lab, rates[case.name], SEEDS[0], epochs), smaller_copies=copies)
            for epochs, copies in LENGTHS[:2]
        ]
        jobs[case.name] = [*shorter, case.job(lab, settings, SEEDS[0])]
    return jobs


def measure(lab: Lab, result: Result) -> None:
    """Test the networks of the package, and measure what their training was chosen by."""
    jobs = [
        ShippedTest(card.name, card.sha256, card.trained_for, "small" if lab.quick else "t91")
        for card in list_models("upscale")
        if "jpeg_quality" not in card.trained_for
    ]
    for job, record in zip(jobs, lab.runner.run(jobs), strict=True):
        add_tests(result, job.name, job.task, [record])
        for row in result.select(job.name):
            row.setting["scale"] = job.task["scale"]
    if lab.quick:
        return
    cases = (DEEP, OURS, SUB_PIXEL)
    chosen = choose(lab, result, cases)
    rates = {
        case.name: settings["learning_rate"] for case, settings in zip(cases, chosen, strict=True)
    }
    trials = tried_jobs(lab, rates)
    courses = {f"{DEEP.name}, × {s}": deep_job(lab, rates[DEEP.name], s) for s in SCALES}
    courses[f"{DEEP.name}, × 3, without copies"] = trials[DEEP.name][0]
    lab.runner.run([*courses.values(), *(job for listed in trials.values() for job in listed)])
    for name, listed in trials.items():
        for training, record in zip(listed, lab.runner.run(listed), strict=True):
            copies = "yes" if training.smaller_copies else "no"
            setting: dict[str, Any] = {"epochs": training.settings["num_epochs"]}
            setting["smaller copies"] = copies
            result.add(name, setting, HELD_BACK, [record["validation"]], [record])
    for name, record in zip(courses, lab.runner.run(list(courses.values())), strict=True):
        result.details[name] = {"held back, by epoch": record["validation_by_epoch"]}


def trained_best(name: str) -> Claim:
    """Return the claim that the final training is the best on held-back images."""

    def check(result: Result) -> tuple[bool, str]:
        *shorter, final = result.find_all(name, HELD_BACK)
        listed = "; ".join(
            f"{row.mean:.3f} dB after {row.setting['epochs']} epochs, "
            f"smaller copies: {row.setting['smaller copies']}"
            for row in (*shorter, final)
        )
        return all(final.mean > row.mean for row in shorter), listed

    return Claim(f"the training chosen for {name} is the best on held-back images", check)


EXPERIMENT = Experiment(
    "upscale-shipped",
    "The networks of the package that enlarge",
    "The paper has none that are deep.",
    measure,
    panels(Bars(quantity=PSNR, by="images"), width=6.5),
    claims=(
        *(
            reaches(
                f"19 layers are at or above VDSR with 20 as published, × {scale} on {images}",
                f"conv_fwnet_t19.upscale_x{scale}",
                published,
                images=images,
            )
            for scale in SCALES
            for images, published in VDSR[scale].items()
        ),
        *(trained_best(case.name) for case in (DEEP, OURS, SUB_PIXEL)),
    ),
    columns="images",
    needs=("T91", "BSDS500", "Set5", "Set14"),
    note="Weights are those of the package, with kernels in float16; all networks see the small "
    "image. Those of 19 layers learned from 91 + 199 images, VDSR from 91 + 200 Berkeley images, "
    'one of which contains "woman" of Set5. All have single seeds. Smaller copies of the images '
    "have 0.9 to 0.6 of their sizes.",
)
