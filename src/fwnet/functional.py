"""The mathematics of the paper as pure tensor functions: no state, no parameters."""

import math
from typing import overload

import torch
from torch import Tensor

from fwnet import kernels
from fwnet.checks import check_number, check_tensor

__all__ = [
    "dual_exponent",
    "frank_wolfe_step",
    "lp_norm",
    "pool_excess",
    "pool_p",
    "shrink",
    "soft_threshold",
]


def pool_p(
    u: Tensor,
    p: float | Tensor,
    radius: float | Tensor = 1.0,
    dim: int = -1,
    eps: float = 0.0,
) -> Tensor:
    r"""Return the point of the Lp ball that minimizes ⟨s, u⟩: the paper's pool_p, sign included.

        s_i = −radius · sign(u_i) · |u_i|^(1/(p−1)) / (Σ_j |u_j|^q)^(1/p),      q = p/(p − 1)

    p = 1 keeps the largest entry (entries that tie share evenly), p = 2 rescales, p = ∞ gives
    every nonzero entry the magnitude `radius`.

    Args:
        u: Any floating-point tensor. Half precision is computed in float32.
        p: The exponent, in [1, ∞]: a float or a 0-dim tensor. A tensor is never read back from
            its device, so an invalid one gives NaN instead of an error; within
            `torch.autograd.detect_anomaly()` it is read and refused. Under `torch.compile` one
            graph serves all values of a tensor p.
        radius: The radius of the ball, > 0: a float or a 0-dim tensor (as for p).
        dim: The axis of a row (default: the last).
        eps: With eps > 0 the unit is −radius·sign(u)·(|u| / (‖u‖_q + eps))^(1/(p−1)), which is
            continuous at u = 0; the exact unit turns rounding noise there into the full radius.
            At p = 1 the result is 0, the limit as p → 1. Default 0.

    Edge cases:
        * A row of zeros gives zeros; a zero entry gives zero. An empty axis gives an empty tensor.
        * NaN anywhere in a row makes the row NaN. An infinite entry counts as ±1 and the finite
          entries of its row as 0: the limit as the infinite entries grow.
        * Gradients in u, p and radius are finite wherever u is. They are 0 where the derivative
          does not exist: a zero entry with p > 2 (infinite slope), a row of zeros without eps, and
          everywhere in u at p = 1, where the unit is piecewise constant. At p = 1 the gradient in
          p is the one-sided derivative. Differentiating twice raises an error. A gradient beyond
          the range of half precision becomes infinite there.

    >>> import fwnet, torch
    >>> u = torch.tensor([3.0, -4.0])
    >>> fwnet.pool_p(u, 2.0)
    tensor([-0.6000,  0.8000])
    >>> fwnet.pool_p(u, 1.0), fwnet.pool_p(u, float("inf"))
    (tensor([-0., 1.]), tensor([-1.,  1.]))
    """
    check_exponent(p)
    return pool_excess(u, p - 1, radius, dim, eps)


def pool_excess(
    u: Tensor,
    excess: float | Tensor,
    radius: float | Tensor = 1.0,
    dim: int = -1,
    eps: float = 0.0,
) -> Tensor:
    """Return pool_p(u, 1 + excess): the same unit as a function of p − 1.

    Near p = 1 the number p has lost digits of p − 1 (at 1 + 1e-6 in float32 it is off by 5%), so a
    learned p is stored as log(p − 1) and evaluated here. The arguments are those of `pool_p`.

    >>> import fwnet, torch
    >>> fwnet.functional.pool_excess(torch.tensor([3.0, -4.0]), excess=1.0)
    tensor([-0.6000,  0.8000])
    """
    _check_unit(u, "u", excess, radius, dim, eps)
    scalars = _as_scalar(excess, u), _as_scalar(radius, u)
    return kernels.run(u, None, None, None, *scalars, float(eps), dim)


def frank_wolfe_step(
    z: Tensor | None,
    a: Tensor,
    b: Tensor | None,
    step_size: float | Tensor,
    excess: float | Tensor,
    radius: float | Tensor = 1.0,
    dim: int = -1,
    eps: float = 0.0,
    overwrite_z: bool = False,
) -> Tensor:
    """z' = (1 − γ)·z + γ·pool_p(a + b), one layer of the network after its matrix product.

    The sum, the unit and the convex combination take one pass over memory, and backward stores only
    these inputs. z = None means zeros (the first layer), b = None no second term; `step_size` is γ
    and `excess` is p − 1. With `overwrite_z` the result may take the place of z, where no gradients
    are computed. The other arguments are those of `pool_p`.

    >>> import torch
    >>> from fwnet.functional import frank_wolfe_step
    >>> z, gradient = torch.tensor([1.0, 0.0]), torch.tensor([3.0, -4.0])
    >>> frank_wolfe_step(z, gradient, None, step_size=0.5, excess=1.0)
    tensor([0.2000, 0.4000])
    """
    _check_unit(a, "a", excess, radius, dim, eps)
    for name, other in (("z", z), ("b", b)):
        if other is not None:
            check_tensor(name, other)
        if other is not None and (other.shape != a.shape or other.dtype != a.dtype):
            raise ValueError(
                f"{name} must have the shape and dtype of a, {tuple(a.shape)} {a.dtype}, "
                f"got {tuple(other.shape)} {other.dtype}"
            )
    if _is_readable("step_size", step_size) and not 0 <= step_size <= 1:
        raise ValueError(f"step_size must be in [0, 1], got {step_size!r}")
    step, excess, radius = (_as_scalar(value, a) for value in (step_size, excess, radius))
    return kernels.run(a, b, z, step, excess, radius, float(eps), dim, overwrite_z=overwrite_z)


@overload
def dual_exponent(p: float) -> float: ...
@overload
def dual_exponent(p: Tensor) -> Tensor: ...
def dual_exponent(p: float | Tensor) -> float | Tensor:
    """q = p/(p − 1), the Hölder conjugate: 1/p + 1/q = 1, with 1 ↔ ∞.

    >>> import fwnet
    >>> fwnet.dual_exponent(1.25), fwnet.dual_exponent(2.0), fwnet.dual_exponent(1.0)
    (5.0, 2.0, inf)
    """
    check_exponent(p)
    if isinstance(p, Tensor):
        return 1 + 1 / (p - 1)
    return math.inf if p == 1 else 1 + 1 / (p - 1)


def lp_norm(z: Tensor, p: float | Tensor, unit: float | Tensor = 1.0) -> Tensor:
    """‖z‖_p / unit = (Σ|z_i/unit|^p)^(1/p) over the last axis, without overflow.

    For half precision the result is float32.

    >>> import fwnet, torch
    >>> fwnet.functional.lp_norm(torch.tensor([[3.0, 4.0], [0.0, 2.0]]), p=2.0)
    tensor([5., 2.])
    """
    check_rows("z", z)
    p_value = value_of(p)
    check_exponent(p_value)
    z = z.to(torch.promote_types(z.dtype, torch.float32))
    if isinstance(p, Tensor):
        p = p.to(z)
    if z.shape[-1] == 0:
        return z.new_zeros(z.shape[:-1])
    magnitudes = z.abs()
    peak = magnitudes.amax(-1)
    if p_value == math.inf:
        return peak / unit
    # The norm does not depend on this scale, so the scale needs no gradient.
    scale = torch.where((peak > 0) & peak.isfinite(), peak, 1.0).detach()
    powers = (magnitudes / scale.unsqueeze(-1)).pow(p).sum(-1)
    # The root has an infinite slope at 0: keep rows of zeros away from it.
    root = torch.where(peak > 0, powers, 1.0).pow(1 / p)
    return torch.where(peak > 0, (scale / unit) * root, peak / unit)


def soft_threshold(u: Tensor, threshold: float | Tensor) -> Tensor:
    """sign(u) · max(|u| − threshold, 0), the proximal operator of threshold·‖·‖₁.

    The threshold is a number ≥ 0, or a tensor of them that broadcasts with u.

    >>> import fwnet, torch
    >>> fwnet.soft_threshold(torch.tensor([-3.0, -0.5, 2.0]), 1.0)
    tensor([-2., -0.,  1.])
    """
    check_tensor("u", u)
    if isinstance(threshold, Tensor):
        check_tensor("threshold", threshold)
    else:
        check_number("threshold", threshold)
        if not threshold >= 0:
            raise ValueError(f"threshold must be >= 0, got {threshold!r}")
    return u.sign() * (u.abs() - threshold).clamp(min=0)


def shrink(v: Tensor, radius: float | Tensor, free_entries: int = 0) -> Tensor:
    """sign(v)·max(|v| − θ, 0) with the least θ ≥ 0 that brings the L1 norm of a row to the radius.

    That is the projection on the L1 ball, in one sort without a loop: a GPU can record it, and it
    exports. With `free_entries` the largest entries of a row stay as they are.

    >>> import torch
    >>> from fwnet.functional import shrink
    >>> shrink(torch.tensor([3.0, -2.0, 1.0]), radius=3.0)
    tensor([ 2., -1.,  0.])
    >>> shrink(torch.tensor([3.0, -2.0, 1.0]), radius=3.0, free_entries=1)
    tensor([ 3., -1.,  0.])
    """
    check_rows("v", v)
    check_radius(radius)
    if not isinstance(free_entries, int) or free_entries < 0:
        raise ValueError(f"free_entries must be an integer >= 0, got {free_entries!r}")
    if not v.shape[-1]:
        return v
    magnitudes = v.abs()
    ordered = magnitudes.sort(-1, descending=True).values
    counts = torch.arange(1, v.shape[-1] + 1, device=v.device)
    # The mean excess of the k largest entries over the radius is largest at the k that are kept.
    level = ((ordered.cumsum(-1) - radius) / counts).amax(-1, keepdim=True).clamp(min=0)
    small = v.sign() * (magnitudes - level).clamp(min=0)
    if not free_entries:
        return small
    last = ordered.narrow(-1, min(free_entries, v.shape[-1]) - 1, 1)
    return torch.where(magnitudes >= last, v, small)


def check_exponent(p: float | Tensor) -> None:
    """Raise unless p is in [1, ∞]. For a tensor only shape and dtype are checked."""
    if _is_readable("p", p) and not p >= 1:
        raise ValueError(f"p must be in [1, inf], got {p!r}")


def check_radius(radius: float | Tensor) -> None:
    """Raise unless radius is a finite number > 0. For a tensor only shape and dtype are checked."""
    if _is_readable("radius", radius) and not 0 < radius < math.inf:
        raise ValueError(f"radius must be > 0 and finite, got {radius!r}")


def check_eps(eps: float) -> None:
    """Raise unless eps is 0 or a finite number >= 1e-30."""
    if not _is_readable("eps", eps) or not (eps == 0 or 1e-30 <= eps < math.inf):
        raise ValueError(f"eps must be 0, or finite and >= 1e-30, got {eps!r}")


def check_rows(name: str, value: Tensor, dim: int = -1, allow_scalar: bool = False) -> None:
    """Raise unless value is a floating-point tensor that has the axis dim."""
    check_tensor(name, value)
    axes = max(1, value.ndim) if allow_scalar else value.ndim
    if not isinstance(dim, int) or not -axes <= dim < axes:
        raise IndexError(f"{name} must have the axis {dim!r}, got shape {tuple(value.shape)}")


def value_of(scalar: float | Tensor) -> float:
    """Return the number in a 0-dim tensor; this waits for the device."""
    return float(scalar.detach()) if isinstance(scalar, Tensor) else scalar


def _check_unit(
    u: Tensor, name: str, excess: float | Tensor, radius: float | Tensor, dim: int, eps: float
) -> None:
    check_rows(name, u, dim, allow_scalar=True)
    if _is_readable("excess", excess) and not excess >= 0:
        raise ValueError(f"excess must be p - 1 >= 0, got {excess!r}")
    check_radius(radius)
    check_eps(eps)


def _is_readable(name: str, value: object) -> bool:
    """Return True for a number and False for a 0-dim tensor; raise for anything else.

    In torch's anomaly mode, which is for finding mistakes, a tensor is read as well.
    """
    if not isinstance(value, Tensor):
        check_number(name, value, or_tensor=True)
        return True
    if value.ndim != 0:
        raise ValueError(
            f"{name} must be a float or a 0-dim tensor, got a tensor of shape {tuple(value.shape)}"
        )
    check_tensor(name, value)
    return not torch.compiler.is_compiling() and torch.is_anomaly_enabled()


def _as_scalar(value: float | Tensor, like: Tensor) -> Tensor:
    """Return a 0-dim tensor on the device of `like`; on a CPU in the precision of the number."""
    wanted = torch.promote_types(like.dtype, torch.float32)
    on_cpu = like.device.type == "cpu"
    if isinstance(value, Tensor):
        dtype = torch.promote_types(value.dtype, torch.float32) if on_cpu else wanted
        return value.to(like.device, dtype)
    dtype = torch.float64 if on_cpu else wanted
    return torch.full((), float(value), dtype=dtype, device=like.device)
