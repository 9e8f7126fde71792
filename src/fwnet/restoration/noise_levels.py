"""Noise levels to train for and to remove: from options, from what a network says, checked."""

from collections.abc import Mapping
from typing import Any

from fwnet.errors import FwnetError
from fwnet.zoo import TrainedModel


def levels_to_learn(
    start: TrainedModel | None, pairs: bool, sigma: float | None, max_sigma: float | None
) -> tuple[float | tuple[float, float], bool]:
    """Return σ or its interval, and whether the network is told it, from the options."""
    told = start is not None and bool(getattr(start.model, "noise_level_input", False))
    if pairs:
        if sigma is not None or max_sigma is not None:
            name = "--sigma" if max_sigma is None else "--max-sigma"
            raise FwnetError(f"{name} is for --data: pairs have noise already")
        return 0.0, told
    if start is None or sigma is not None or max_sigma is not None:
        return _levels_from(sigma, max_sigma), max_sigma is not None
    known = levels_of(start.facts)
    if known is None:
        expected = "--max-sigma" if told else "--sigma"
        raise FwnetError(
            f"{start.name} does not say what noise it was trained for: give {expected}"
        )
    return known, told or known[0] < known[1]


def _levels_from(sigma: float | None, max_sigma: float | None) -> tuple[float, float]:
    """Return an interval of σ on the scale of [0, 1] from --sigma and --max-sigma."""
    low = 25.0 if sigma is None and max_sigma is None else sigma or 0.0
    high = low if max_sigma is None else max_sigma
    if max_sigma is None and not 0 < low <= 255:
        raise FwnetError(f"--sigma must be in (0, 255], got {low:g}")
    if not (0 <= low <= high <= 255 and high > 0):
        raise FwnetError(
            "--sigma and --max-sigma must satisfy 0 <= sigma <= max-sigma <= 255 and "
            f"max-sigma > 0, got {low:g} and {high:g}"
        )
    return low / 255, high / 255


def levels_of(facts: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the interval of σ on the scale of [0, 1] that a card or a file states."""
    sigma = facts.get("sigma")  # a number or an interval, on the scale 0 to 255
    levels: list[Any] = sigma if isinstance(sigma, list) else [sigma, sigma]
    if len(levels) != 2 or not all(isinstance(level, int | float) for level in levels):
        return None
    low, high = (level / 255 for level in levels)
    return (low, high) if 0 <= low <= high <= 1 and high > 0 else None


def check_sigma(sigma: float | None) -> None:
    """Raise unless σ is in [0, 1]; say what to write instead of 25."""
    if sigma is not None and not 0 <= sigma <= 1:
        hint = f": write sigma={sigma:g}/255" if 1 < sigma <= 255 else ""
        raise FwnetError(f"sigma must be in [0, 1], the scale of the image, got {sigma:g}{hint}")
