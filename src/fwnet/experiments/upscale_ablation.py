"""What each part of Conv F-W Net does for super-resolution."""

from fwnet.experiments.claims import Claim, better
from fwnet.experiments.experiment import Experiment, Result
from fwnet.experiments.image_study import PSNR, Paper, image_study
from fwnet.experiments.pictures import Bars, panels
from fwnet.experiments.super_resolution import FULL_STEPS, NO_SKIP, OURS, RELU, vdsr

PARTS = {
    NO_SKIP.name: "adding W_0 ∗ x at every layer",
    FULL_STEPS.name: "letting γ differ from 1",
    RELU.name: "pool_p instead of ReLU",
}
PAPER: Paper = {
    NO_SKIP.name: {"Set5": 31.52},
    FULL_STEPS.name: {"Set5": 32.21},
    RELU.name: {"Set5": 32.57, "Set14": 28.66},
    OURS.name: {"Set5": 32.85, "Set14": 28.76},
}
PAIR = (RELU.name, vdsr(5).name)


def neither_is_better(result: Result) -> tuple[bool, str]:
    """Return whether neither ReLU nor VDSR is better on all sets."""
    ours, theirs = (better("", *names, "images").check(result) for names in (PAIR, PAIR[::-1]))
    return ours[0] is not True and theirs[0] is not True, ours[1]


EXPERIMENT = Experiment(
    "upscale-ablation",
    "Super-resolution: Conv F-W Net without its parts",
    "Without skip connections or with γ = 1 performance drops severely; with ReLU it is that of "
    "VDSR.",
    image_study([NO_SKIP, FULL_STEPS, RELU, OURS, vdsr(5)], PAPER),
    panels(Bars(quantity=PSNR, by="images", title="× 3, "), width=5.6),
    claims=(
        *(better(f"{part} helps", OURS.name, name, "images") for name, part in PARTS.items()),
        Claim("with ReLU it performs like VDSR: neither is better on both sets", neither_is_better),
    ),
    columns="images",
    needs=("T91", "BSDS500", "Set5", "Set14"),
)
