"""Checks of arguments that every room needs."""

import difflib
from collections.abc import Iterable, Sequence
from fractions import Fraction
from numbers import Integral, Real
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
    known = list(known)
    near = [one for one in known if len(name) > 2 and name in one][:3]
    near = near or difflib.get_close_matches(name, known, n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def check_integer(name: str, value: Any, least: int = 1, most: int = LARGEST_INTEGER) -> int:
    """Return `value` as an int; raise unless it is an integer from `least` to `most`.

    NumPy's integers are accepted; True and 2.0 are not.
    """
    number = int(value) if isinstance(value, Integral) else least - 1
    if isinstance(value, bool) or number < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
    if number > most:
        raise ValueError(f"{name} must be an integer <= {most}, got {value!r}")
    return number


def check_size(name: str, value: Any, least: int = 1) -> int:
    """Return `value` as an int; raise unless it is a valid length of an axis (at most 10⁹)."""
    return check_integer(name, value, least, MOST_ENTRIES)


def check_num_layers(value: Any, least: int = 1) -> int:
    """Return `value` as an int; raise unless it is a valid number of layers."""
    return check_integer("num_layers", value, least, MOST_LAYERS)


def check_number(name: str, value: Any, *, or_tensor: bool = False) -> None:
    """Raise unless `value` is a real number that torch knows, or a tensor if that is allowed."""
    if or_tensor and isinstance(value, Tensor):
        return
    if isinstance(value, bool | Fraction) or not isinstance(value, Real):
        expected = "a float or a 0-dim tensor" if or_tensor else "a number"
        raise TypeError(f"{name} must be {expected}, got {type(value).__name__}")
    if isinstance(value, Integral) and abs(int(value)) > LARGEST_INTEGER:
        raise ValueError(f"{name} must be a float or have 64 bits, got {value!r}")


def check_list(name: str, value: Any) -> None:
    """Raise unless `value` is a list or a tuple, or a tensor or array with one axis."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    if not is_list and getattr(value, "ndim", 0) != 1:
        raise TypeError(f"{name} must be a list, got {type(value).__name__}")


def check_tolerance(name: str, value: float | None) -> None:
    """Raise unless a tolerance is None or in (0, 1)."""
    if value is None:
        return
    check_number(name, value)
    if not 0 < value < 1:
        raise ValueError(f"{name} must be in (0, 1), got {value!r}")
