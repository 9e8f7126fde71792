"""Checks of arguments that every room needs."""

import difflib
import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

LARGEST_INTEGER = 2**63 - 1  # of torch
MOST_ENTRIES = 10**9  # along an axis: two such axes are still a size that torch can compute
MOST_LAYERS = 10_000


def check_tensor(name: str, value: Any, *, floating_point: bool = True) -> None:
    """Raise unless `value` is a tensor that holds its entries one by one, of floating point."""
    if not isinstance(value, Tensor):
        kind = type(value).__name__
        hint = ": convert it with torch.tensor" if kind == "ndarray" else ""
        raise TypeError(f"{name} must be a tensor, got {kind}{hint}")
    if value.layout != torch.strided:
        raise TypeError(f"{name} must be a dense tensor, got {value.layout}")
    if floating_point and not value.is_floating_point():
        raise TypeError(f"{name} must be a floating-point tensor, got {value.dtype}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean …?" with the known names that are similar; "" if there are none."""
    near = difflib.get_close_matches(name, list(known), n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def check_integer(name: str, value: Any, least: int = 1, most: int = LARGEST_INTEGER) -> int:
    """Return `value` as an int; raise unless it is an integer from `least` to `most`.

    NumPy's integers are accepted; True and 2.0 are not.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    is_bool = isinstance(value, bool) or getattr(value, "dtype", None) == torch.bool
    if is_bool or number < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
    if number > most:
        raise ValueError(f"{name} must be an integer <= {most}, got {value!r}")
    return number


def check_size(name: str, value: Any, least: int = 1) -> int:
    """Do the same for the length of an axis, before memory is taken for it."""
    return check_integer(name, value, least, MOST_ENTRIES)


def check_num_layers(value: Any, least: int = 1) -> int:
    """Do the same for the number of layers of a network."""
    return check_integer("num_layers", value, least, MOST_LAYERS)


def check_number(name: str, value: Any) -> None:
    """Raise if a number is an integer that torch does not know; as a float it does."""
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise ValueError(f"{name} must be a float or have 64 bits, got {value!r}")


def check_tolerance(name: str, value: float | None) -> None:
    """Raise unless a tolerance is None or in (0, 1)."""
    if value is not None and not 0 < value < 1:
        raise ValueError(f"{name} must be in (0, 1), got {value!r}")
