"""How the training of networks that enlarge was chosen, on held-back images."""

from dataclasses import replace
from typing import Any

from fwnet.experiments.claims import Claim
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.image_study import SEEDS, ImageCase
from fwnet.experiments.image_training import ImageTraining
from fwnet.experiments.pictures import Lines, panels
from fwnet.experiments.study import choose
from fwnet.experiments.super_resolution import DEEP, OURS, SUB_PIXEL

SCALES = (2, 3, 4)
DEEP_EPOCHS = 40
DEEP_CROP = 72  # of the large image; the small one must be larger than what the network sees
LENGTHS = ((10, False), (10, True), (20, True))  # epochs, and whether there are smaller copies
CASES = (DEEP, OURS, SUB_PIXEL)
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


def tried_jobs(lab: Lab, case: ImageCase, rate: float) -> list[ImageTraining]:
    """Return shorter trainings by a factor of 3, with and without copies, and the final one.

    The final ones are those of the package and of the tables.
    """
    if case is DEEP:
        deep = [deep_job(lab, rate, 3, epochs, copies) for epochs, copies in LENGTHS]
        return [*deep, deep_job(lab, rate, 3)]
    shorter = [
        replace(case.training(lab, rate, SEEDS[0], epochs), smaller_copies=copies)
        for epochs, copies in LENGTHS[:2]
    ]
    return [*shorter, case.job(lab, {"learning_rate": rate}, SEEDS[0])]


def measure(lab: Lab, result: Result) -> None:
    """Measure on held-back images what the training of deep networks was chosen by."""
    cases = CASES[-1:] if lab.quick else CASES
    rates = [settings["learning_rate"] for settings in choose(lab, result, cases)]
    trials = {
        case.name: tried_jobs(lab, case, rate) for case, rate in zip(cases, rates, strict=True)
    }
    courses: dict[str, ImageTraining] = {}
    if not lab.quick:
        courses = {f"{DEEP.name}, × {s}": deep_job(lab, rates[0], s) for s in SCALES}
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
    "upscale-trials",
    "Super-resolution: how long to train, and with smaller copies of the images or without",
    "The paper has one length of training.",
    measure,
    panels(Lines(quantity=HELD_BACK, x="epochs", apart="smaller copies"), width=6.5),
    claims=tuple(trained_best(case.name) for case in CASES),
    needs=("T91", "BSDS500"),
    note="By a factor of 3; single seeds. Smaller copies have 0.9 to 0.6 of the sizes. Networks of "
    "19 layers learned from 91 + 199 images, those of 4 layers from the 91.",
)
