"""Networks that learn to remove noise, and the settings that they learn with."""

from __future__ import annotations

import math
from typing import Any

import torch

from fwnet.data import keyed_generator
from fwnet.models import ImageModel, Model, create_model

__all__ = ["DENOISERS", "RECIPE", "RECIPE_IN_WORDS", "denoiser_settings", "make_denoiser"]

# What each kind of network has unless something else is asked for.
DENOISERS: dict[str, dict[str, Any]] = {
    "ConvFWNet": {"num_layers": 4},
    "ConvLISTA": {"num_layers": 4, "threshold": 0.1},
    "DnCNN": {"num_layers": 17},
}
# Arguments that only some kinds have.
TAKEN_BY = {
    "plain": ("ConvFWNet", "ConvLISTA"),
    "p": ("ConvFWNet",),
    "learn_p": ("ConvFWNet",),
    "batch_norm": ("DnCNN",),
}

# As for the networks of the package; what depends on network and machine is in the functions below.
RECIPE: dict[str, Any] = {
    "num_epochs": 10,
    "batch_size": 128,
    "clip_norm": 0.1,
    "weight_decay": 0.0,
}
AVERAGE = 0.999
# By form, up to so many layers: chosen on held-back Berkeley images after 2,000 to 3,000 steps, for
# ConvFWNet of 4 and 16 layers, its plain form and ConvLISTA of 4, DnCNN of 5 and 17, and of 5
# without batch norm. Others have that of the one they are most like.
LEARNING_RATES: dict[str, dict[float, float]] = {
    "ConvFWNet": {4: 8e-3, math.inf: 4e-3},
    "ConvFWNet, plain": {4: 16e-3, math.inf: 4e-3},
    "ConvLISTA": {math.inf: 8e-3},
    "ConvLISTA, plain": {math.inf: 8e-3},
    "DnCNN": {5: 16e-3, math.inf: 1e-3},
    "DnCNN, no batch norm": {math.inf: 1e-3},
}
RECIPE_IN_WORDS = {
    "learning_rate": "0.008; ConvFWNet --plain 0.016, of more than 4 layers 0.004; "
    "DnCNN 0.001, up to 5 layers with batch norm 0.016; half of it with --start",
    "average": "0.999; less in a training of under 5000 steps",
    "precision": "bf16 on a GPU, else float32",
}


def denoiser_settings(
    network: ImageModel, device: torch.device, num_steps: int = 10_000, *, goes_on: bool = False
) -> dict[str, Any]:
    """The recipe's settings, by the names of `TrainingConfig`, for a network on a device.

    num_steps: How long the training is. The mean of the weights looks back a fifth of that at most:
        further back they are much worse.
    goes_on: Whether it starts from a trained network: half the learning rate then.
    """
    rate = _learning_rate(network)
    return {
        **RECIPE,
        "learning_rate": rate / 2 if goes_on else rate,
        "average": max(0.0, min(AVERAGE, round(1 - 5 / num_steps, 4))),
        "precision": "bf16" if device.type == "cuda" else "float32",
    }


def _learning_rate(network: ImageModel) -> float:
    config = network.config
    form = type(network).__name__
    if not config.get("residual", True):
        form += ", plain"
    if not config.get("batch_norm", True):
        form += ", no batch norm"
    rates = LEARNING_RATES.get(form, {math.inf: 1e-3})
    return next(rate for most, rate in rates.items() if config.get("num_layers", 1) <= most)


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
        check_start(start)
    kind = model or (type(start).__name__ if start is not None else "ConvFWNet")
    if kind not in DENOISERS:
        raise ValueError(f"model must be one of {', '.join(DENOISERS)}, got {kind!r}")
    own = {"plain": plain, "p": p, "learn_p": learn_p, "batch_norm": batch_norm}
    for name, value in own.items():
        if value is not None and kind not in TAKEN_BY[name]:
            raise ValueError(f"{name} is for {' and '.join(TAKEN_BY[name])}, got it for a {kind}")
    asked: dict[str, Any] = {"num_layers": num_layers, "channels": channels, **own}
    given = {name: value for name, value in asked.items() if value is not None}
    if given.pop("plain", None) is not None:
        given["residual"] = not plain
        if plain and kind == "ConvFWNet":
            given["eps"] = 0.0
    options = {**DENOISERS[kind], **given}
    if start is not None:
        options = _like(start, kind, given, color, noise_level_input)
    if color is not None:
        options["in_channels"] = 3 if color else 1
    options["noise_level_input"] = noise_level_input
    if not options.get("learn_p", True) and options.get("p", 1.5) in (1, math.inf):
        raise ValueError(
            f"with p fixed at {options['p']:g} no weight gets a gradient: expected p > 1 and "
            "finite, 1.01 for one, or a p that is learned"
        )
    network = create_model(kind, **options, generator=keyed_generator(seed, "weights"))
    assert isinstance(network, ImageModel)
    return network


def check_start(start: Model) -> None:
    """Raise unless a network is one of those that learn to remove noise."""
    if type(start).__name__ not in DENOISERS:
        raise ValueError(
            f"the network to start from must be a {', '.join(DENOISERS)}, "
            f"got a {type(start).__name__}"
        )


def _like(
    start: Model, kind: str, given: dict[str, Any], color: bool | None, noise_level_input: bool
) -> dict[str, Any]:
    """The arguments of a network that can take the weights of another one."""
    options = dict(start.config)
    asked = {"model": kind, **given}
    for name, has in {"model": type(start).__name__, **options}.items():
        if name in asked and asked[name] != has:
            raise ValueError(
                f"{name} must be {has!r}, as the network to start from has it, got {asked[name]!r}"
            )
    if options["noise_level_input"] and not noise_level_input:
        raise ValueError(
            "the network to start from is told the noise level, got one level: "
            "expected an interval of them (--sigma to --max-sigma, which may be equal)"
        )
    if color is False and options["in_channels"] == 3:
        raise ValueError("the network to start from is for color, got gray")
    return options
