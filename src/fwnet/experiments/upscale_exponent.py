"""Super-resolution with p fixed at several values, and learned."""

from fwnet.experiments.claims import better
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.image_study import LEARNED_P, PSNR, Paper, image_study
from fwnet.experiments.pictures import Bars, panels
from fwnet.experiments.super_resolution import OURS, fixed_exponent

FIXED = [fixed_exponent(p) for p in (1.3, 1.5, 1.8, 2.3, 2.5)]
PAPER_SET5 = (32.49, 32.81, 32.73, 32.59, 32.65, 32.85)
PAPER_SET14 = (28.42, 28.63, 28.69, 28.58, 28.67, 28.76)
PAPER: Paper = {
    case.name: {"Set5": psnr5, "Set14": psnr14}
    for case, psnr5, psnr14 in zip((*FIXED, OURS), PAPER_SET5, PAPER_SET14, strict=True)
}


def add_exponents(lab: Lab, result: Result) -> None:  # noqa: ARG001
    """Note p in every row."""
    exponents = {case.name: case.options["p"] for case in FIXED}
    exponents |= {row.method: row.mean for row in result.select(quantity=LEARNED_P)}
    for row in result.rows:
        row.setting["p"] = round(exponents[row.method], 3)


EXPERIMENT = Experiment(
    "upscale-exponent",
    "Super-resolution: p fixed and learned",
    "The p matters, and learned p (1.489) is better than fixed ones.",
    image_study([*FIXED, OURS], PAPER, add_exponents),
    panels(Bars(quantity=PSNR, by="images", title="× 3, "), width=5.6),
    claims=tuple(
        better(
            f"learned p is better than p = {case.options['p']:g}",
            OURS.name,
            case.name,
            "images",
        )
        for case in FIXED
    ),
    columns="images",
    hidden=("p",),
    needs=("T91", "BSDS500", "Set5", "Set14"),
    note="All have the learning rate that is best for learned p, which starts at 1.5.",
)
