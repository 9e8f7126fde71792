"""PSNR and learned p by depth, beside DnCNN."""

from fwnet.experiments.claims import Claim, alike, better
from fwnet.experiments.denoising import conv_fwnet, dncnn
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.image_study import LEARNED_P, PSNR, image_study
from fwnet.experiments.pictures import Lines, panels

DEPTHS = (2, 4, 8, 16)
CASES = [case for depth in DEPTHS for case in (conv_fwnet(depth), dncnn(depth + 1))]
OURS, THEIRS = (case.name for case in CASES[-2:])  # the deepest


def add_layers(lab: Lab, result: Result) -> None:  # noqa: ARG001
    """Note the number of layers in every row."""
    layers = {case.name: case.options["num_layers"] for case in CASES}
    for row in result.rows:
        row.setting["layers"] = layers[row.method]


def stable(result: Result) -> tuple[bool, str]:
    """Return whether the learned p differs by at most 0.1 across depths."""
    values = [result.find(conv_fwnet(depth).name, LEARNED_P).mean for depth in DEPTHS]
    return max(values) - min(values) <= 0.1, f"{min(values):.2f} to {max(values):.2f}"


EXPERIMENT = Experiment(
    "denoise-depth",
    "Denoising by depth: Conv F-W Net and DnCNN",
    "For shallow networks Conv F-W Net outperforms DnCNN significantly; as depth increases both "
    "perform similarly. The learned p is stable across depths.",
    image_study(CASES, extra=add_layers),
    panels(
        Lines(x="layers", quantity=PSNR, title="BSD68, σ = 25", split=" ("),
        Lines(x="layers", quantity=LEARNED_P, title="learned p", split=" ("),
        width=6,
    ),
    claims=(
        *(
            better(f"{ours.name} is better than {theirs.name}", ours.name, theirs.name)
            for ours, theirs in zip(CASES[::2], CASES[1::2], strict=True)
        ),
        alike("both perform alike when deep (T = 16)", OURS, THEIRS, PSNR),
        Claim("learned p differs by at most 0.1 across depths", stable),
    ),
    hidden=("layers",),
    needs=("BSDS500",),
    note="Conv F-W Net of T layers is compared with DnCNN of T + 1: it has as many convolutions. "
    "All were trained for 10,000 steps; the public weights of DnCNN with 17 layers, trained for "
    "much longer, have 29.21 dB: for deep networks the figures compare what is learned in 10,000 "
    "steps.",
)
