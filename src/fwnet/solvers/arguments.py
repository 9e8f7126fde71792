"""Check the arguments that `solve` and `solve_penalized` share."""

import math
import time
from collections.abc import Callable

import torch
from torch import Tensor

from fwnet.checks import check_integer, check_number, check_tensor, check_tolerance
from fwnet.solvers.loop import BindableMethod, Limits, SolveProgress

TOL = {torch.float64: 1e-10, torch.float32: 1e-6}


def checked_problem(
    x: Tensor, dictionary: Tensor | None, weights: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return x, D (the identity for None) and weights; raise if they do not fit together."""
    check_tensor("x", x, floating_point=False)
    if x.dtype not in TOL:
        raise TypeError(f"x must be float32 or float64, got {x.dtype}")
    if x.ndim == 0:
        raise ValueError("x must have shape (..., n), got a scalar")
    if dictionary is None:
        dictionary = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    check_tensor("dictionary", dictionary)
    if dictionary.ndim != 2:
        raise ValueError(f"dictionary must have shape (n, m), got {tuple(dictionary.shape)}")
    n = x.shape[-1]
    if dictionary.shape[0] != n:
        hint = ""
        if dictionary.shape[1] == n:
            hint = "; this is scikit-learn's (n_components, n_features): pass its transpose"
        raise ValueError(
            f"dictionary must have shape (n, m) with n = {n}, the length of x, "
            f"got {tuple(dictionary.shape)}{hint}"
        )
    if 0 in dictionary.shape:
        raise ValueError(f"dictionary must not be empty, got shape {tuple(dictionary.shape)}")
    if dictionary.dtype != x.dtype or dictionary.device != x.device:
        raise ValueError(
            f"dictionary must have the dtype and device of x, {x.dtype} on {x.device}, "
            f"got {dictionary.dtype} on {dictionary.device}"
        )
    if not dictionary.isfinite().all():
        raise ValueError("dictionary must be finite, got NaN or infinite entries")
    return x, dictionary, _checked_weights(weights, x)


def _checked_weights(weights: Tensor | None, x: Tensor) -> Tensor | None:
    if weights is None:
        return None
    if not isinstance(weights, Tensor):
        raise TypeError(f"weights must be a tensor, got {type(weights).__name__}")
    if weights.is_complex():
        raise TypeError(f"weights must be real numbers, got {weights.dtype}")
    if weights.shape not in (x.shape[-1:], x.shape):
        raise ValueError(
            f"weights must have shape {tuple(x.shape[-1:])} or {tuple(x.shape)}, "
            f"got {tuple(weights.shape)}"
        )
    weights = weights.to(x.device)
    if weights.dtype != torch.bool and not ((weights >= 0) & weights.isfinite()).all():
        raise ValueError("weights must be finite and >= 0")
    return weights if weights.ndim == 1 else weights.reshape(-1, x.shape[-1])


def checked_start(start: Tensor | None, x: Tensor, dictionary: Tensor) -> Tensor | None:
    """Return the initial codes as rows; a row that is not finite becomes 0."""
    if start is None:
        return None
    check_tensor("start", start)
    expected = (*x.shape[:-1], dictionary.shape[1])
    if start.shape != expected:
        raise ValueError(f"start must have shape {expected}, got {tuple(start.shape)}")
    start = start.detach().to(x).reshape(-1, expected[-1])
    return torch.where(start.isfinite().all(-1, keepdim=True), start, 0.0)


def checked_tol(tol: float | None, dtype: torch.dtype) -> float:
    """Return the tolerance; None means the default of the dtype."""
    check_tolerance("tol", tol)
    return TOL[dtype] if tol is None else tol


def checked_limits(
    method: BindableMethod,
    max_steps: int | None,
    time_limit: float | None,
    callback: Callable[[SolveProgress], bool | None] | None,
) -> Limits:
    """Return the limits of the loop; the time limit starts now."""
    if time_limit is not None:
        check_number("time_limit", time_limit)
        if not time_limit > 0:
            raise ValueError(f"time_limit must be > 0 seconds, got {time_limit!r}")
    if max_steps is not None:
        max_steps = check_integer("max_steps", max_steps, least=0)
    return Limits(
        method.max_steps if max_steps is None else max_steps,
        math.inf if time_limit is None else time.monotonic() + time_limit,
        None if callback is None else _lasting(callback),
    )


def _lasting(callback: Callable[[SolveProgress], bool | None]) -> Callable[[SolveProgress], bool]:
    """Return a callback that, once it returned True, stops every later block of rows too."""
    stopped = False

    def call(progress: SolveProgress) -> bool:
        nonlocal stopped
        stopped = stopped or bool(callback(progress))
        return stopped

    return call


def weighted(
    x: Tensor, dictionary: Tensor, weights: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Make weights part of x and D: ½Σ w_i(x_i − (Dz)_i)² = ½‖√w∘(x − Dz)‖².

    Weights that all rows share change x and D; others are returned as factors of the rows.
    """
    if weights is None:
        return x, dictionary, None
    factors = weights.detach().to(x.dtype).sqrt()
    if not factors.isfinite().all():
        raise ValueError(f"weights must be finite in {x.dtype}, the dtype of x")
    if weights.ndim == 1:
        return present(x, factors), factors.unsqueeze(-1) * dictionary, None
    return x, dictionary, factors


def present(x: Tensor, factors: Tensor) -> Tensor:
    """√w∘x, where entries of weight 0 become 0, even if x is NaN there."""
    return torch.where(factors > 0, x, 0.0) * factors
