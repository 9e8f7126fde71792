"""What noise a trained network is for."""

from __future__ import annotations

import re
from typing import Any

from fwnet.models import ImageModel, Model, read_model
from fwnet.training.denoiser_recipe import check_start
from fwnet.zoo import list_models

__all__ = ["trained_levels"]

LEVEL = re.compile(r".*\.denoise_.*_s([0-9]+)")  # in the name of a network of the package


def trained_levels(start: str, network: Model) -> tuple[float, float | None]:
    """The σ that a network was trained for, 0 to 255, and the last one where it is an interval.

    Args:
        start: A name of `fwnet.list_models`, or the path of a file, whose notes say it.
        network: What was loaded from there.
    """
    check_start(network)
    assert isinstance(network, ImageModel)
    sigma: Any
    if any(card.name == start for card in list_models()):
        named = LEVEL.fullmatch(start)
        sigma = float(named[1]) if named else None
    else:
        sigma = (read_model(start)[0].get("notes") or {}).get("sigma")
    match sigma:
        case [float() | int() as low, float() | int() as high]:
            return float(low), float(high)
        case float() | int():
            return float(sigma), float(sigma) if network.noise_level_input else None
    expected = "--max-sigma" if network.noise_level_input else "--sigma"
    raise ValueError(f"{start} does not say what noise it was trained for: expected {expected}")
