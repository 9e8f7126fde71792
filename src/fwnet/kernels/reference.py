"""pool_p and its gradient in plain tensor operators: the definition for every other kernel.

    s_i = −radius · sign(u_i) · (|u_i| / (‖u‖_q + eps))^k,     k = 1/(p − 1) = q − 1

The textbook form overflows, underflows or divides zero by zero for about half of all ordinary
inputs in float32. Here every magnitude is taken relative to the largest of its row and carried as
a logarithm that is exact near 0, so that nothing leaves the range of the numbers:

    l_i = log(|u_i| / max|u|) ≤ 0,   w_i = exp(k·l_i),   N = Σ w_i·exp(l_i) ≥ 1
    ρ = ‖u‖_q / (‖u‖_q + eps)
    |s_i| = radius · w_i · exp(−log N / p + k·log ρ)

and, with π_i = w_i·exp(l_i)/N (these sum to 1), the derivatives

    ∂log|s_i| / ∂log|u_j| = k·(δ_ij − ρ·π_j)
    ∂log|s_i| / ∂p        = −k²·(l_i + log ρ) + (1 + k(1 − ρ))·log N / p² + (k²/p)·ρ·Σ_j π_j·l_j
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Scalars(NamedTuple):
    """The functions of p and radius that the unit needs, as 0-dim tensors."""

    k: Tensor  # 1/(p − 1), clamped to finite positive numbers to avoid 0·∞
    inv_p: Tensor
    inv_q: Tensor
    radius: Tensor


class Rows(NamedTuple):
    """What forward and backward compute from u; the last five have length 1 along the axis."""

    direction: Tensor  # −sign(u), the sign of s
    magnitude: Tensor  # |u|; in a row with infinite entries, 1 for those and 0 for the others
    log_ratio: Tensor  # l
    weight: Tensor  # w
    peak: Tensor  # max |u|, 1 in a row of zeros
    log_sum: Tensor  # log N
    log_rho: Tensor
    infinite: Tensor
    empty: Tensor  # a row of zeros


def scalars(excess: Tensor, radius: Tensor, dtype: torch.dtype) -> Scalars:
    """Return k, 1/p and 1/q for excess = p − 1; an invalid p or radius becomes NaN."""
    limits = torch.finfo(dtype)
    excess, radius = (t.to(torch.promote_types(t.dtype, dtype)) for t in (excess, radius))
    k = torch.where(excess >= 0, 1 / excess.abs(), torch.nan).clamp(limits.tiny, limits.max)
    return Scalars(
        k=k.to(dtype),
        inv_p=(k / (1 + k)).to(dtype),
        inv_q=(1 / (1 + k)).to(dtype),
        radius=torch.where(radius > 0, radius, torch.nan).to(dtype),
    )


def log_ratio(magnitude: Tensor, unit: Tensor) -> Tensor:
    """l = log(magnitude / unit), to full relative precision over the whole range of the numbers.

    Where the two are close their difference is exact and log1p keeps its digits; where they are
    far apart the quotient may leave the range although its logarithm is an ordinary number.
    """
    limits = torch.finfo(magnitude.dtype)
    ratio = magnitude / unit
    near = torch.log1p((magnitude - unit) / unit)
    ordinary = (ratio >= limits.tiny) & (ratio <= limits.max)
    far = torch.where(ordinary, ratio.log(), magnitude.log() - unit.log())
    return torch.where((ratio > 0.5) & (ratio < 2), near, far)


def analyze(u: Tensor, values: Scalars, eps: float, dim: int) -> Rows:
    """Compute the row quantities above; u has the compute dtype."""
    magnitude = u.abs()
    peak = magnitude.amax(dim, keepdim=True)
    infinite, empty = peak.isinf(), peak == 0
    magnitude = torch.where(infinite, magnitude.isinf().to(u.dtype), magnitude)
    peak = torch.where(infinite | empty, 1.0, peak)
    logs = log_ratio(magnitude, peak)
    weight = (values.k * logs).exp()
    # N ≥ 1 because the peak contributes exactly 1; the clamp only affects rows of zeros.
    log_sum = (weight * logs.exp()).sum(dim, keepdim=True).clamp(min=1).log()
    log_rho = torch.zeros_like(log_sum)
    if eps > 0:
        log_norm = values.inv_q * log_sum  # of ‖u‖_q / peak
        excess_over_norm = eps / (peak * log_norm.exp())
        log_rho = torch.where(
            excess_over_norm.isinf(),
            peak.log() + log_norm - math.log(eps),
            -excess_over_norm.log1p(),
        )
        log_rho = torch.where(infinite, 0.0, torch.where(empty, -torch.inf, log_rho))
    direction = (-u).sign()
    return Rows(direction, magnitude, logs, weight, peak, log_sum, log_rho, infinite, empty)


def scale(rows: Rows, values: Scalars) -> Tensor:
    """Return exp(−log N / p + k·log ρ), the factor that brings w onto the unit sphere."""
    return (values.k * rows.log_rho - values.inv_p * rows.log_sum).exp()


def forward(
    a: Tensor,
    b: Tensor | None,
    z: Tensor | None,
    step_size: Tensor | None,
    excess: Tensor,
    radius: Tensor,
    eps: float,
    dim: int,
) -> Tensor:
    """The kernel contract's forward: s = pool_p(a + b), then s, γ·s or z + γ·(s − z)."""
    u = widened_sum(a, b)
    s = pool(u, scalars(excess, radius, u.dtype), eps, dim)
    if step_size is not None:
        step = step_size.to(s.dtype)
        s = step * s if z is None else z + step * (s - z)
    return s.to(a.dtype)


def backward(
    grad: Tensor,
    a: Tensor,
    b: Tensor | None,
    z: Tensor | None,
    step_size: Tensor | None,
    excess: Tensor,
    radius: Tensor,
    eps: float,
    dim: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The kernel contract's backward: gradients for a + b, z, p, radius and the step size."""
    u = widened_sum(a, b)
    grad = grad.to(u.dtype)
    grad_z, by_step = a.new_empty(0), torch.zeros_like(excess)
    upstream = grad
    if step_size is not None:
        step = step_size.to(u.dtype)
        s = pool(u, scalars(excess, radius, u.dtype), eps, dim)
        by_step = (grad * (s if z is None else s - z)).sum().to(step_size.dtype)
        grad_z = grad_z if z is None else (grad - step * grad).to(z.dtype)
        upstream = step * grad
    grad_u, by_p, by_radius = _pool_backward(upstream, u, excess, radius, eps, dim)
    return grad_u.to(a.dtype), grad_z, by_p.to(excess.dtype), by_radius.to(radius.dtype), by_step


def widened_sum(a: Tensor, b: Tensor | None) -> Tensor:
    """Return a + b in the compute dtype: float32, or float64 if a is float64."""
    wide = a.to(torch.promote_types(a.dtype, torch.float32))
    return wide if b is None else wide + b


def pool(u: Tensor, values: Scalars, eps: float, dim: int) -> Tensor:
    """s = pool_p(u), in the dtype of u: float32 or float64."""
    rows = analyze(u, values, eps, dim)
    return values.radius * rows.direction * rows.weight * scale(rows, values)


def _pool_backward(
    grad: Tensor, u: Tensor, excess: Tensor, radius: Tensor, eps: float, dim: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients for u, p and radius, every one finite where u is.

    Where the derivative in u_i does not exist or is infinite (u_i = 0 with p > 2, rows of zeros
    without eps, ties at p = 1) it is 0; a value beyond the largest number is clamped.
    """
    limits = torch.finfo(u.dtype)
    values = scalars(excess, radius, u.dtype)
    rows = analyze(u, values, eps, dim)
    factor = scale(rows, values)
    rho, inv_n = rows.log_rho.exp(), (-rows.log_sum).exp()
    beta = -rows.log_rho.expm1()  # 1 − ρ

    # Beyond this k every l < 0 has weight 0: the cap changes no value and avoids 0·∞.
    cap = 1e12 if u.dtype == torch.float32 else 1e20
    k = values.k.clamp(max=cap)
    # At p = 1 and p = ∞ the unit is piecewise constant in u.
    slope_k = torch.where((excess == 0) | excess.isinf(), 0.0, k)

    s = values.radius * rows.direction * rows.weight * factor
    gs = grad * s
    total = gs.sum(dim, keepdim=True)
    pi = rows.weight * rows.log_ratio.exp() * inv_n

    # |u|^(k−1)/peak^k as a square, which leaves the range of the numbers only with the gradient.
    root = (((values.k - 1) * rows.log_ratio - rows.peak.log()) / 2).exp()
    root_of_zero = torch.where(values.k == 1, rows.peak.rsqrt(), 0.0)
    root = torch.where(rows.magnitude == 0, root_of_zero, root)
    own = -(slope_k * values.radius * factor) * root * grad * root
    shared = (slope_k * rho * inv_n * total) * rows.direction * rows.weight / rows.peak
    grad_u = own.clamp(limits.min, limits.max) + shared.clamp(limits.min, limits.max)

    # At the peak, where π = 1/N, k·(g·s − ρ·π·Σ g·s) cancels. Written with the contributions of
    # the other entries to N − 1 and to the sum, it does not.
    top = (rows.magnitude == rows.peak).to(u.dtype)
    num_top, of_rest = top.sum(dim, keepdim=True), 1 - top
    rest_n = (of_rest * pi).sum(dim, keepdim=True) + (num_top - 1) * inv_n
    rest_gs = (of_rest * gs).sum(dim, keepdim=True)
    other_tops = (top * gs).sum(dim, keepdim=True) - gs
    left = gs * (rest_n + beta * inv_n) - rho * inv_n * (rest_gs + other_tops)
    at_top = -slope_k * rows.direction * left / rows.peak
    grad_u = torch.where(top > 0, at_top, grad_u).clamp(limits.min, limits.max)
    at_zero = torch.where(values.k == 1, -values.radius * grad / eps, 0.0) if eps > 0 else 0.0
    grad_u = torch.where(rows.empty, at_zero, torch.where(rows.infinite, 0.0, grad_u))

    floor = 2 * math.log(limits.tiny)  # where exp is 0
    exponent = (values.k * rows.log_ratio).clamp(min=floor)
    mean_exponent = (pi * exponent).sum(dim, keepdim=True)
    by_row = (
        k * (values.inv_p * rho * mean_exponent - (values.k * rows.log_rho).clamp(min=floor))
        + (1 + k * beta) * rows.log_sum * values.inv_p**2
    )
    grad_p = (total * by_row).sum() - k * (gs * exponent).sum()
    grad_radius = total.sum() / values.radius
    return grad_u, grad_p, grad_radius
