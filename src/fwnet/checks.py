"""Checks of arguments that every room needs."""

import difflib
import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


def check_tensor(name: str, value: Any, *, floating_point: bool = True) -> None:
    """Raise unless `value` is a tensor that holds its entries one by one, of floating point."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(value).__name__}")
    if value.layout != torch.strided:
        raise TypeError(f"{name} must be a dense tensor, got {value.layout}")
    if floating_point and not value.is_floating_point():
        raise TypeError(f"{name} must be a floating-point tensor, got {value.dtype}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean …?" with the known names that are similar; "" if there are none."""
    near = difflib.get_close_matches(name, list(known), n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def check_integer(name: str, value: Any, least: int = 1) -> int:
    """Return `value` as an int; raise unless it is an integer of at least `least`.

    NumPy's integers are accepted; True and 2.0 are not.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    is_bool = isinstance(value, bool) or getattr(value, "dtype", None) == torch.bool
    if is_bool or number < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
    return number


def check_tolerance(name: str, value: float | None) -> None:
    """Raise unless a tolerance is None or in (0, 1)."""
    if value is not None and not 0 < value < 1:
        raise ValueError(f"{name} must be in (0, 1), got {value!r}")
