"""Checks of arguments that every room needs."""

import operator
from typing import Any


def check_integer(name: str, value: Any, least: int = 1) -> int:
    """Return `value` as an int; raise unless it is an integer of at least `least`.

    NumPy's integers are accepted; True and 2.0 are not.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
    return number


def check_tolerance(name: str, value: float | None) -> None:
    """Raise unless a tolerance is None or in (0, 1)."""
    if value is not None and not 0 < value < 1:
        raise ValueError(f"{name} must be in (0, 1), got {value!r}")
