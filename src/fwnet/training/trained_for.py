"""What a trained network was trained for."""

from __future__ import annotations

import re
from typing import Any

from fwnet.models import Model
from fwnet.training.denoiser_recipe import check_denoiser
from fwnet.training.upscaler_recipe import check_upscaler
from fwnet.zoo import list_models, read_notes

__all__ = ["trained_levels", "trained_scale"]

LEVELS = re.compile(r"--(sigma|max-sigma) ([0-9.]+)")  # in the command on a card


def trained_levels(start: str, network: Model) -> tuple[float, float | None]:
    """The σ that a network was trained for, 0 to 255, and the last one where it is an interval.

    Args:
        start: A name of `fwnet.list_models`, whose card says it, or the path of a file, whose notes
            do.
        network: What was loaded from there.
    """
    told = check_denoiser(network).noise_level_input
    commands = [card.command for card in list_models() if card.name == start]
    sigma: Any = levels_in(commands[0]) if commands else read_notes(start).get("sigma")
    match sigma:
        case [float() | int() as low, float() | int() as high]:
            return float(low), float(high)
        case float() | int():
            return float(sigma), float(sigma) if told else None
    expected = "--max-sigma" if told else "--sigma"
    raise ValueError(f"{start} does not say what noise it was trained for: expected {expected}")


def levels_in(command: str) -> float | list[float] | None:
    """The noise levels of a command; of one after another, those of the last."""
    last = command.rpartition("&&")[2]
    options = {name: float(value) for name, value in LEVELS.findall(last)}
    if "max-sigma" in options:
        return [options.get("sigma", 0.0), options["max-sigma"]]
    return options.get("sigma")


def trained_scale(start: str, network: Model) -> int:
    """How many times as high and wide a network was trained to make images; as `trained_levels`."""
    scale: Any = check_upscaler(network).scale
    if scale == 1:  # it sees an enlarged image
        scale = read_notes(start).get("scale")
    if not isinstance(scale, int) or scale < 2:
        raise ValueError(f"{start} does not say what scale it was trained for: expected --scale")
    return int(scale)
