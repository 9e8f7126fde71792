"""Networks that enlarge by a factor of 3."""

from dataclasses import replace
from functools import partial
from typing import Any

from fwnet.experiments.image_study import ImageCase

SMALL_OUTPUT = {"output_gain": 0.1}  # residual networks start near bicubic enlargement


upscaler = partial(ImageCase, task={"scale": 3}, data="t91")


def conv_fwnet(suffix: str, **options: Any) -> ImageCase:
    """Return our network of four layers, or one that differs from it."""
    options = {"num_layers": 4, **SMALL_OUTPUT, **options}
    return upscaler(name=f"Conv F-W Net (4 layers){suffix}", model="ConvFWNet", options=options)


def fixed_exponent(p: float) -> ImageCase:
    """Return our network with a fixed p; it has the learning rate of the learned p."""
    options = {**OURS.options, "p": p, "learn_p": False}
    return replace(OURS, name=f"Conv F-W Net, fixed p = {p:g}", options=options, family=OURS)


def vdsr(num_layers: int, batch_norm: bool = False) -> ImageCase:
    """Return VDSR of a depth."""
    options = {"num_layers": num_layers, **SMALL_OUTPUT}
    return upscaler(
        name=f"VDSR ({num_layers} layers){' + BN' if batch_norm else ''}",
        model="VDSR",
        options=options | ({"batch_norm": True} if batch_norm else {}),
        family=None if num_layers == 5 else vdsr(5, batch_norm),
    )


def srcnn(*kernel_sizes: int) -> ImageCase:
    """Return SRCNN with kernel sizes."""
    name = f"SRCNN ({'-'.join(map(str, kernel_sizes))})"
    return upscaler(name=name, model="SRCNN", options={"kernel_sizes": list(kernel_sizes)})


OURS = conv_fwnet("")
PLAIN = conv_fwnet(", authors' form", residual=False, eps=0.0, output_gain=1.0)
SUB_PIXEL = conv_fwnet(", sub-pixel", scale=3)
NO_SKIP = conv_fwnet(", no skip", skip=False)
FULL_STEPS = conv_fwnet(", γ = 1", step_sizes=[1.0] * 4, learn_step_sizes=False)
RELU = conv_fwnet(", ReLU", activation="relu")
DEEP = upscaler(
    name="Conv F-W Net (19 layers), sub-pixel",
    model="ConvFWNet",
    options={"num_layers": 19, **SMALL_OUTPUT, "scale": 3},
    data="t91+berkeley199",
)
