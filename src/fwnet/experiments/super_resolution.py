"""Networks that enlarge by a factor of 3."""

from dataclasses import replace
from typing import Any

from fwnet.experiments.image_study import ImageCase
from fwnet.experiments.image_training import Data

SETS = ("Set5", "Set14")
SMALL_OUTPUT = {"output_gain": 0.1}  # residual networks start near bicubic enlargement


def upscaler(
    name: str,
    model: str,
    options: dict[str, Any],
    family: ImageCase | None = None,
    data: Data = "t91",
) -> ImageCase:
    """Return a network that enlarges."""
    task = {"scale": 3}
    return ImageCase(name=name, task=task, data=data, model=model, options=options, family=family)


def conv_fwnet(suffix: str, **options: Any) -> ImageCase:
    """Return our network of four layers, or one that differs from it."""
    options = {"num_layers": 4, **SMALL_OUTPUT, **options}
    return upscaler(f"Conv F-W Net (4 layers){suffix}", "ConvFWNet", options)


def fixed_exponent(p: float) -> ImageCase:
    """Return our network with a fixed p; it has the learning rate of the learned p."""
    options = {**OURS.options, "p": p, "learn_p": False}
    return upscaler(f"Conv F-W Net, fixed p = {p:g}", "ConvFWNet", options, OURS)


def vdsr(num_layers: int, batch_norm: bool = False) -> ImageCase:
    """Return VDSR of a depth."""
    options = {"num_layers": num_layers, **SMALL_OUTPUT}
    return upscaler(
        f"VDSR ({num_layers} layers){' + BN' if batch_norm else ''}",
        "VDSR",
        options | ({"batch_norm": True} if batch_norm else {}),
        None if num_layers == 5 else vdsr(5, batch_norm),
    )


def srcnn(*kernel_sizes: int) -> ImageCase:
    """Return SRCNN with kernel sizes."""
    name = f"SRCNN ({'-'.join(map(str, kernel_sizes))})"
    return upscaler(name, "SRCNN", {"kernel_sizes": list(kernel_sizes)})


OURS = conv_fwnet("")
PLAIN = conv_fwnet(", authors' form", residual=False, eps=0.0, output_gain=1.0)
SUB_PIXEL = conv_fwnet(", sub-pixel", scale=3)
NO_SKIP = conv_fwnet(", no skip", skip=False)
FULL_STEPS = conv_fwnet(", γ = 1", step_sizes=[1.0] * 4, learn_step_sizes=False)
RELU = conv_fwnet(", ReLU", activation="relu")
DEEP = upscaler(
    "Conv F-W Net (19 layers), sub-pixel",
    "ConvFWNet",
    {"num_layers": 19, **SMALL_OUTPUT, "scale": 3},
    data="t91+berkeley199",
)


def with_paper(cases: list[ImageCase], paper: dict[str, tuple[float, ...]]) -> list[ImageCase]:
    """Return cases with the figures of the paper on every set."""
    return [
        replace(case, paper=dict(zip(SETS, paper.get(case.name, ()), strict=False)))
        for case in cases
    ]
