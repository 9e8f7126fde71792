"""Networks that learn to remove noise, and the settings that they learn with."""

from __future__ import annotations

import math
from typing import Any

import torch

from fwnet.models import ImageModel, Model
from fwnet.training.image_recipe import ImageRecipe

__all__ = [
    "DENOISING_RECIPE",
    "check_denoiser",
    "denoiser_settings",
    "make_denoiser",
]

# As for the networks of the package.
DENOISING_RECIPE = ImageRecipe(
    networks={
        "ConvFWNet": {"num_layers": 4},
        "ConvLISTA": {"num_layers": 4, "threshold": 0.1},
        "DnCNN": {"num_layers": 17},
    },
    taken_by={
        "plain": ("ConvFWNet", "ConvLISTA"),
        "p": ("ConvFWNet",),
        "learn_p": ("ConvFWNet",),
        "batch_norm": ("DnCNN",),
    },
    settings={"num_epochs": 10, "batch_size": 128, "clip_norm": 0.1, "weight_decay": 0.0},
    # Chosen on held-back Berkeley images after 2,000 to 3,000 steps, for ConvFWNet of 4 and 16
    # layers, its plain form and ConvLISTA of 4, DnCNN of 5 and 17, and of 5 without batch norm.
    # Others have that of the one they are most like.
    learning_rates={
        "ConvFWNet": {4: 8e-3, math.inf: 4e-3},
        "ConvFWNet, plain": {4: 16e-3, math.inf: 4e-3},
        "ConvLISTA": {math.inf: 8e-3},
        "ConvLISTA, plain": {math.inf: 8e-3},
        "DnCNN": {5: 4e-3, math.inf: 2e-3},
        "DnCNN, no batch norm": {math.inf: 1e-3},
    },
    rates_in_words="0.008; ConvFWNet --plain 0.016, of more than 4 layers 0.004; "
    "DnCNN 0.002, up to 5 layers 0.004, without batch norm 0.001",
    small_outputs=frozenset({"DnCNN"}),  # normalized, its output would be far too large at first
)


def denoiser_settings(
    network: ImageModel, device: torch.device, num_steps: int = 10_000, *, goes_on: bool = False
) -> dict[str, Any]:
    """The recipe's settings, by the names of `TrainingConfig`, for a network on a device.

    num_steps: How long the training is.
    goes_on: Whether it starts from a trained network.
    """
    return DENOISING_RECIPE.settings_for(network, device, num_steps, goes_on=goes_on)


def make_denoiser(
    model: str | None = None,
    *,
    num_layers: int | None = None,
    channels: int | None = None,
    color: bool | None = None,
    noise_level_input: bool = False,
    plain: bool | None = None,
    p: float | None = None,
    learn_p: bool | None = None,
    batch_norm: bool | None = None,
    start: Model | None = None,
    seed: int = 0,
) -> ImageModel:
    """Make a network that can learn to remove noise. What is None is as `start` or usage has it.

    Args:
        model: ConvFWNet, ConvLISTA or DnCNN.
        num_layers: T; 4, or 17 for DnCNN.
        channels: The number of maps; 64.
        color: Whether images are RGB; else gray.
        noise_level_input: Whether it is told σ.
        plain: For ConvFWNet and ConvLISTA: y = W_R ∗ z, the authors' form, not x + W_R ∗ z.
        p: For ConvFWNet, the exponent, or where it starts; 1.5.
        learn_p: For ConvFWNet, whether p is learned; yes.
        batch_norm: For DnCNN, whether it normalizes; yes.
        start: A trained network that the new one could `adopt`. Its weights are not taken here.
        seed: Of the initial weights.
    """
    if start is not None:
        network = check_denoiser(start)
        if network.noise_level_input and not noise_level_input:
            raise ValueError(
                "the network to start from is told the noise level, got one level: "
                "expected an interval of them (--sigma to --max-sigma, which may be equal)"
            )
        if color is False and network.in_channels == 3:
            raise ValueError("the network to start from is for color, got gray")
    asked: dict[str, Any] = {"num_layers": num_layers, "channels": channels, "plain": plain}
    asked |= {"p": p, "learn_p": learn_p, "batch_norm": batch_norm}
    changes: dict[str, Any] = {"noise_level_input": noise_level_input}
    if color is not None:
        changes["in_channels"] = 3 if color else 1
    kind = DENOISING_RECIPE.kind(model, start)
    return DENOISING_RECIPE.make(kind, asked, changes, start=start, seed=seed)


def check_denoiser(start: Model) -> ImageModel:
    """Raise unless a network is one of those that learn to remove noise."""
    DENOISING_RECIPE.check_start(start)
    assert isinstance(start, ImageModel)
    if start.scale != 1:
        raise ValueError(
            "the network to start from must keep the size of images, got one that makes them "
            f"{start.scale} times as high and wide"
        )
    return start
