"""Networks that learn to enlarge images, and the settings that they learn with."""

from __future__ import annotations

import math
from typing import Any

import torch

from fwnet.models import ImageModel, Model
from fwnet.training.image_recipe import ImageRecipe
from fwnet.training.super_resolution import check_scale

__all__ = [
    "UPSCALING_RECIPE",
    "check_upscaler",
    "make_upscaler",
    "upscaler_settings",
]

# As for the networks of the package; the deep ones learned for 40 epochs, hardly better than 20.
UPSCALING_RECIPE = ImageRecipe(
    networks={"ConvFWNet": {"num_layers": 19}, "VDSR": {"batch_norm": False}, "SRCNN": {}},
    taken_by={
        "num_layers": ("ConvFWNet", "VDSR"),
        "channels": ("ConvFWNet", "VDSR"),
        "plain": ("ConvFWNet",),
        "p": ("ConvFWNet",),
        "learn_p": ("ConvFWNet",),
        "batch_norm": ("VDSR",),
    },
    settings={"num_epochs": 20, "batch_size": 64, "clip_norm": 0.01, "weight_decay": 0.0},
    own_settings={"VDSR, no batch norm": {"clip_norm": 0.003}, "SRCNN": {"clip_norm": 0.1}},
    # Chosen on twelve Berkeley images after 2,000 steps on the 91 images, for ConvFWNet of 4 layers
    # in three forms (enlarged, sub-pixel, plain), VDSR of 5 with and without batch norm, SRCNN; for
    # ConvFWNet of 19 layers, sub-pixel, on 290 images. Others have that of the one they are most
    # like. So was clip_norm, for ConvFWNet of 4 layers (enlarged), VDSR of 5, and SRCNN.
    learning_rates={
        "ConvFWNet": {4: 2e-3, math.inf: 4e-3},
        "ConvFWNet, sub-pixel": {4: 2e-3, math.inf: 4e-3},
        "ConvFWNet, plain": {4: 16e-3, math.inf: 4e-3},
        "ConvFWNet, plain, sub-pixel": {4: 16e-3, math.inf: 4e-3},
        "VDSR": {math.inf: 1e-3},
        "VDSR, no batch norm": {math.inf: 1e-3},
        "SRCNN": {math.inf: 2e-3},
    },
    rates_in_words="0.004; up to 4 layers 0.002, --plain 0.016; VDSR 0.001; SRCNN 0.002",
    # They begin near bicubic enlargement.
    small_outputs=frozenset({"ConvFWNet", "ConvFWNet, sub-pixel", "VDSR", "VDSR, no batch norm"}),
)


def upscaler_settings(
    network: ImageModel, device: torch.device, num_steps: int = 20_000, *, goes_on: bool = False
) -> dict[str, Any]:
    """The recipe's settings, by the names of `TrainingConfig`, for a network on a device.

    num_steps: How long the training is.
    goes_on: Whether it starts from a trained network.
    """
    return UPSCALING_RECIPE.settings_for(network, device, num_steps, goes_on=goes_on)


def make_upscaler(
    model: str | None = None,
    *,
    scale: int,
    num_layers: int | None = None,
    channels: int | None = None,
    enlarged: bool | None = None,
    plain: bool | None = None,
    p: float | None = None,
    learn_p: bool | None = None,
    batch_norm: bool | None = None,
    start: Model | None = None,
    seed: int = 0,
) -> ImageModel:
    """Make a network that can learn to enlarge images. What is None is as `start` or usage has it.

    Args:
        model: ConvFWNet, VDSR or SRCNN.
        scale: How many times as high and wide images become.
        num_layers: T; 19, or 20 for VDSR. SRCNN has three.
        channels: The number of maps; 64.
        enlarged: Whether it sees the image after that was enlarged bicubically, as in the paper. A
            ConvFWNet by default sees the small image, and the others cannot.
        plain: For ConvFWNet: y = W_R ∗ z, the authors' form, not x + W_R ∗ z.
        p: For ConvFWNet, the exponent, or where it starts; 1.5.
        learn_p: For ConvFWNet, whether p is learned; yes.
        batch_norm: For VDSR, whether it normalizes; no.
        start: A trained network that the new one could `adopt`, perhaps for another scale. Its
            weights are not taken here.
        seed: Of the initial weights.
    """
    check_scale(scale)
    network = None if start is None else check_upscaler(start)
    kind = UPSCALING_RECIPE.kind(model, start)
    usual = kind != "ConvFWNet" if network is None else network.scale == 1
    if enlarged is None:
        enlarged = usual
    elif enlarged != usual and (start is not None or kind != "ConvFWNet"):
        whose = f"a {kind}" if start is None else "the network to start from"
        raise ValueError(f"enlarged must be {usual}, as {whose} has it, got {enlarged}")
    asked: dict[str, Any] = {"num_layers": num_layers, "channels": channels, "plain": plain}
    asked |= {"p": p, "learn_p": learn_p, "batch_norm": batch_norm}
    changes = {} if enlarged else {"scale": scale}
    return UPSCALING_RECIPE.make(kind, asked, changes, start=start, seed=seed)


def check_upscaler(start: Model) -> ImageModel:
    """Raise unless a network is one of those that learn to enlarge images."""
    UPSCALING_RECIPE.check_start(start)
    assert isinstance(start, ImageModel)
    if start.in_channels != 1 or start.noise_level_input:
        raise ValueError(
            "the network to start from must see one channel, got one for "
            + ("color" if start.in_channels != 1 else "noise levels")
        )
    return start
