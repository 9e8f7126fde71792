"""Euclidean projection on the Lp ball, exact for every p in [1, ∞].

    min ½‖z − y‖²   s.t.  ‖z‖_p ≤ c

For p = 1, 2 and ∞ there are closed forms. Otherwise, for y outside the ball and with a = |y|/c,
t = |z|/c, the optimality conditions are, for one multiplier μ > 0 a row,

    t_i + μ·t_i^(p−1) = a_i   for every entry,        ‖t‖_p = 1

Both are solved by Newton's method where it cannot fail: the first in x = log t, where it is the
logarithm of a sum of exponentials, convex and increasing; the second in μ for ‖t‖_p^(1−p), which is
linear in μ for p = 2 and nearly so for every other p, inside a bracket that only shrinks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fwnet.functional import lp_norm, soft_threshold
from fwnet.kernels.reference import log_ratio

__all__ = ["project_lp"]

MAX_STEPS = 200  # a few suffice; near p = 1 the inner equation has a sharp bend and takes more
LOG_ZERO = -1e6  # stands for log 0: finite, and below the logarithm of every positive number


def project_lp(y: Tensor, p: float | Tensor, radius: float | Tensor) -> Tensor:
    """Project the rows (last axis) of y on {z : ‖z‖_p ≤ radius}; differentiable in all three."""
    exponent = p.item() if isinstance(p, Tensor) else p
    wide = y.to(torch.promote_types(y.dtype, torch.float32))
    if exponent == 1:
        z = _project_l1(wide, radius)
    elif exponent == torch.inf:
        limit = _as_tensor(radius).to(wide)
        z = wide.clamp(-limit, limit)
    elif exponent == 2 and not (isinstance(p, Tensor) and p.requires_grad):
        norm = lp_norm(wide, 2).unsqueeze(-1)
        z = torch.where(norm > radius, wide * (radius / norm), wide)
    else:
        z = _ProjectLp.apply(wide, _as_tensor(p), _as_tensor(radius))
    return z.to(y.dtype)


def _as_tensor(value: float | Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)


def _project_l1(y: Tensor, radius: float | Tensor) -> Tensor:
    """Soft-threshold each row at the level that brings its L1 norm down to radius.

    With the magnitudes sorted, a_1 ≥ a_2 ≥ …, the level is (a_1 + … + a_j − radius)/j for the last
    j at which a_j still exceeds it.
    """
    if y.shape[-1] == 0:
        return y.clone()
    magnitudes = y.abs().sort(dim=-1, descending=True).values
    count = torch.arange(1, y.shape[-1] + 1, device=y.device, dtype=y.dtype)
    levels = (magnitudes.cumsum(-1) - radius) / count
    support = (magnitudes > levels).sum(-1, keepdim=True).clamp(min=1)
    return soft_threshold(y, levels.gather(-1, support - 1).clamp(min=0))


class _ProjectLp(torch.autograd.Function):
    """The projection for 1 < p < ∞, differentiated through its optimality conditions."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, p: Tensor, radius: Tensor) -> Tensor:
        rows = y.reshape(-1, y.shape[-1])
        order = p.to(y.device, y.dtype)
        log_magnitudes = _log_magnitudes(rows.abs(), radius.to(y.device, y.dtype))
        outside = torch.logsumexp(order * log_magnitudes, -1) > 0
        z = rows.clone()
        log_mu = torch.full_like(rows[:, :1], -torch.inf)
        if outside.any():
            x, multiplier = _solve_rows(log_magnitudes[outside], order)
            z[outside] = rows[outside].sign() * radius.to(y.device, y.dtype) * x.exp()
            log_mu[outside] = multiplier
        ctx.save_for_backward(z, log_mu, p, radius)
        return z.reshape(y.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Solve the linearized conditions: diagonal plus rank one, so in closed form.

        With n = sign(z)·t^(p−1) and h = 1 + μ(p−1)·t^(p−2), the derivative along the sphere is
        (g − n·Σ(n·g/h)/Σ(n²/h))/h; p and the radius move the sphere and the normal.
        """
        z, log_mu, p, radius = ctx.saved_tensors
        g = grad.reshape(z.shape)
        order, c = p.to(z), radius.to(z)
        log_t = _log_magnitudes(z.abs(), c)
        inside = log_mu.isneginf()
        normal = ((order - 1) * log_t).exp()
        inv_h = 1 / (1 + (order - 1) * (log_mu + (order - 2) * log_t).exp())
        n = z.sign() * normal
        spread = torch.where(inside, 1.0, (n * n * inv_h).sum(-1, keepdim=True))
        along = (n * g * inv_h).sum(-1, keepdim=True) / spread  # grad of μ's constraint
        grad_y = torch.where(inside, g, (g - n * along) * inv_h)

        # Moving c: z = c·t, a = |y|/c. Moving p: the normal by n·log t, the sphere by Σ t^p·log t.
        t_log_t = torch.where(log_t <= LOG_ZERO, 0.0, log_t)
        sphere = (order * log_t).exp()
        by_radius = (g * z / c - grad_y * (z / c + log_mu.exp() * n)).sum(-1, keepdim=True)
        log_norm_slope = (sphere * t_log_t).sum(-1, keepdim=True) / order
        by_p = (
            -c * (log_mu.exp() * (grad_y * n * t_log_t).sum(-1, keepdim=True))
            - c * along * log_norm_slope
        )
        zero = torch.zeros_like(by_p)
        grad_p = torch.where(inside, zero, by_p).sum()
        grad_radius = torch.where(inside, zero, by_radius).sum()
        return grad_y.reshape(grad.shape), grad_p.to(p), grad_radius.to(radius)


def _log_magnitudes(magnitudes: Tensor, unit: Tensor) -> Tensor:
    return log_ratio(magnitudes, unit).clamp(min=LOG_ZERO)


def _solve_rows(log_a: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """Solve for x = log t and ν = log μ in every row; finished rows leave the batch."""
    s = p - 1
    tolerance = 16 * torch.finfo(log_a.dtype).eps
    x_out, nu_out = torch.empty_like(log_a), torch.empty_like(log_a[:, :1])
    rows = torch.arange(len(log_a), device=log_a.device)
    nu = _first_multiplier(log_a, p)
    low, high = torch.full_like(nu, -torch.inf), torch.full_like(nu, torch.inf)
    x = log_a
    for _ in range(MAX_STEPS):
        x, kept = _solve_entries(log_a, nu, s, x)
        log_sum = torch.logsumexp(p * x, -1, keepdim=True)
        excess = log_sum / p  # log ‖t‖_p, 0 at the solution
        dx_dnu = -(1 - kept) / (kept + s * (1 - kept))
        slope = ((p * x - log_sum).exp() * dx_dnu).sum(-1, keepdim=True)
        low, high = torch.where(excess > 0, nu, low), torch.where(excess < 0, nu, high)

        # Newton in μ on ‖t‖^(1−p), written for ν = log μ; where that leaves the bracket, Newton in
        # ν on log ‖t‖, which is linear where μ is much too large; failing both, halve the bracket.
        ahead = torch.where((high - low).isfinite(), (low + high) / 2, nu + excess.sign())
        for step in (-excess / slope, torch.log1p(-torch.expm1(s * excess) / (s * slope))):
            trial = nu + step
            ahead = torch.where((trial > low) & (trial < high), trial, ahead)

        # ν cannot be told from its neighbors any more, or ‖t‖ from 1: put t on the sphere exactly.
        settled = (excess / slope).abs() <= tolerance * nu.abs().clamp(min=1)
        done = (settled | (excess.abs() <= tolerance)).squeeze(-1)
        x_out[rows[done]], nu_out[rows[done]] = (x - excess)[done], nu[done]
        if done.all():
            break
        left = ~done
        rows, log_a, low, high = rows[left], log_a[left], low[left], high[left]
        x, nu = (x + dx_dnu * (ahead - nu))[left], ahead[left]
    else:
        x_out[rows], nu_out[rows] = x, nu
    return x_out, nu_out


def _first_multiplier(log_a: Tensor, p: Tensor) -> Tensor:
    """Take the Newton step from μ = 0, where t = a: closed form, and exact for p = 2."""
    s = p - 1
    log_sum = torch.logsumexp(p * log_a, -1, keepdim=True)
    log_slope = torch.logsumexp(2 * s * log_a, -1, keepdim=True) - log_sum
    growth = s * log_sum / p
    return growth + torch.log(-torch.expm1(-growth)) - s.log() - log_slope


def _solve_entries(log_a: Tensor, nu: Tensor, s: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Solve log(e^x + e^(ν + s·x)) = log a entry by entry, from any start.

    The left side is convex with slopes between 1 and s, so Newton's method from the upper bound
    min(log a, (log a − ν)/s) descends to the root. Also returns A = t/a, the part that is kept.
    """
    upper = torch.minimum(log_a, (log_a - nu) / s)
    tolerance = torch.finfo(x.dtype).eps ** 0.6  # the step after this one is below rounding
    x = torch.minimum(x, upper)
    for _ in range(MAX_STEPS):
        lead = (1 - s) * x - nu
        small = torch.exp(-lead.abs())
        kept = torch.where(lead > 0, 1.0, small) / (1 + small)
        value = torch.maximum(x, nu + s * x) + small.log1p() - log_a
        step = value / (kept + s * (1 - kept))
        x = torch.minimum(x - step, upper)
        if not (step.abs() > tolerance * x.abs().clamp(min=1)).any():
            break
    return x, torch.sigmoid((1 - s) * x - nu)
