"""Euclidean projection on the Lp ball, exact for every p in [1, ∞].

    min ½‖z − y‖²   s.t.  ‖z‖_p ≤ c

For p = 1, 2 and ∞ there are closed forms. Otherwise, for y outside the ball and with a = |y|/c,
t = |z|/c, the optimality conditions are, for one multiplier μ > 0 per row,

    t_i + μ·t_i^(p−1) = a_i   for every entry,        ‖t‖_p = 1

Both are solved by Newton's method in a form that always converges: the first in x = log t, where it
is the logarithm of a sum of exponentials, convex and increasing; the second in μ for ‖t‖_p^(1−p),
which is linear in μ for p = 2 and nearly so for other p, inside a shrinking bracket.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from fwnet.functional import check_exponent, check_radius, check_rows, lp_norm, value_of
from fwnet.kernels.autograd import refuse_second_derivative
from fwnet.kernels.reference import log_ratio

MAX_STEPS = 200  # usually a few; near p = 1 the inner equation has a sharp bend and takes more
CACHED_ENTRIES = 1 << 17
LOG_ZERO = -1e6  # used for log 0: finite, and below the logarithm of every positive number


def project_lp(y: Tensor, p: float | Tensor, radius: float | Tensor) -> Tensor:
    """Project the rows (last axis) of y on {z : ‖z‖_p ≤ radius}.

    Differentiable once, in y and radius, and for 1 < p < ∞ in p. Tensors p and radius are read
    back from their device; invalid ones raise an error.
    """
    check_rows("y", y)
    exponent = value_of(p)
    check_exponent(exponent)
    check_radius(value_of(radius))
    if y.shape[-1] == 0:
        return y.clone()
    wide = y.to(torch.promote_types(y.dtype, torch.float32))
    c = _as_tensor(radius).to(wide)
    # For p closer to 1 or ∞ the ball equals its limit in this precision.
    rounding = torch.finfo(wide.dtype).eps
    if exponent - 1 < rounding:
        z = _project_l1(wide, c)
    elif exponent > 1 / rounding:
        z = wide.clamp(-c, c)
    elif exponent == 2 and not (isinstance(p, Tensor) and p.requires_grad):
        z = _project_l2(wide, c)
    else:
        # In logarithms a radius that is small compared to y needs more digits than float32 has.
        precise = wide.to(torch.float32 if wide.device.type == "mps" else torch.float64)
        z, _ = _ProjectLp.apply(precise, _as_tensor(p), c.to(precise))
    return z.to(y.dtype)


def _as_tensor(value: float | Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)


def _project_l1(y: Tensor, radius: Tensor) -> Tensor:
    """Soft-threshold each row at the level that brings its L1 norm down to radius.

    The level is stored as its depth below the largest entry: with d_j = a_1 − a_j ≥ 0, where a are
    the magnitudes and a_1 is the largest, it is the root of Σ_j (depth − d_j)₊ = radius. Newton's
    method from the right of the root ends exactly at it, since the sum is convex and piecewise
    linear; a few passes cost less than sorting. Sums of the magnitudes themselves would lose a
    radius that is small compared to them.
    """
    magnitudes = y.abs()
    peak = magnitudes.amax(-1, keepdim=True)
    below = peak - magnitudes
    with torch.no_grad():
        support, count = support_l1(below.detach(), radius.detach())
    depth = (radius + (below * support).sum(-1, keepdim=True)) / count
    # A depth beyond the peak means that y is inside the ball.
    return torch.where(depth >= peak, y, y.sign() * (depth - below).clamp(min=0))


def support_l1(below: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
    """Return which d_j are below the depth with Σ_j (depth − d_j)₊ = radius (1 or 0), and how many.

    The masks are floats, since sums of booleans are slow on a CPU.
    """
    whole = radius + below.sum(-1, keepdim=True)
    depth = torch.minimum(radius, whole / below.shape[-1])
    support = torch.empty_like(below)
    before = None
    while True:
        count = torch.lt(below, depth, out=support).sum(-1, keepdim=True).clamp_(min=1)
        if before is not None and torch.equal(count, before):
            return support, count
        reached = (depth - below).clamp_(min=0).sum(-1, keepdim=True)
        depth = torch.minimum(depth, depth - (reached - radius) / count)
        before = count


def _project_l2(y: Tensor, radius: Tensor) -> Tensor:
    """y·radius/‖y‖₂ where ‖y‖₂ > radius, computed from y/max|y|, whose norm is always in range."""
    peak = y.abs().amax(-1, keepdim=True).detach()
    relative = y / torch.where(peak > 0, peak, 1.0)
    norm = lp_norm(relative, 2).unsqueeze(-1)
    outside = norm > radius / peak
    return torch.where(outside, relative * (radius / torch.where(outside, norm, 1.0)), y)


class _ProjectLp(torch.autograd.Function):
    """The projection for 1 < p < ∞, differentiated through its optimality conditions."""

    @staticmethod
    def forward(y: Tensor, p: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
        rows = y.reshape(-1, y.shape[-1])
        order, s = p.to(y), (p - 1).to(y)  # p − 1 keeps digits that p in float32 has lost
        log_magnitudes = _log_magnitudes(rows.abs(), radius)
        outside = torch.logsumexp(order * log_magnitudes, -1) > 0
        z = rows.clone()
        log_mu = torch.full_like(rows[:, :1], -torch.inf)
        todo = outside.nonzero().squeeze(-1)
        # On a CPU, work on as many rows at a time as fit its cache.
        count = max(1, CACHED_ENTRIES // y.shape[-1]) if y.device.type == "cpu" else len(todo)
        for index in todo.split(max(1, count)):
            x, log_mu[index] = _solve_rows(log_magnitudes[index], order, s)
            z[index] = rows[index].sign() * radius * x.exp()
        return z.reshape(y.shape), log_mu

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        z, log_mu = output
        ctx.mark_non_differentiable(log_mu)
        ctx.save_for_backward(z, log_mu, *inputs[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, ...]:
        gradients: tuple[Tensor, ...] = _ProjectLpBackward.apply(grad, *ctx.saved_tensors)
        return gradients


class _ProjectLpBackward(torch.autograd.Function):
    """The gradient as an operation of its own, so that a second derivative raises."""

    @staticmethod
    def forward(
        grad: Tensor, z: Tensor, log_mu: Tensor, p: Tensor, radius: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Solve the linearized conditions: diagonal plus rank one, so in closed form.

        With n = sign(z)·t^(p−1) and h = 1 + μ(p−1)·t^(p−2), the derivative along the sphere is
        (g − n·κ)/h, κ = Σ(n·g/h)/Σ(n²/h); p and the radius move the sphere and the normal.
        """
        g, z = (t.reshape(-1, t.shape[-1]) for t in (grad, z))
        order, s, c = p.to(z), (p - 1).to(z), radius
        log_t = _log_magnitudes(z.abs(), c)
        mu, inside = log_mu.exp(), log_mu.isneginf()
        n = z.sign() * (s * log_t).exp()
        inv_h = 1 / (1 + s * (log_mu + (s - 1) * log_t).exp())
        spread = torch.where(inside, 1.0, (n * n * inv_h).sum(-1, keepdim=True))
        kappa = (n * g * inv_h).sum(-1, keepdim=True) / spread
        by_y = torch.where(inside, g, (g - n * kappa) * inv_h)

        # Moving c: z = c·t, a = |y|/c. Moving p: the normal by n·log t, the sphere by Σ t^p·log t.
        finite_log_t = torch.where(log_t <= LOG_ZERO, 0.0, log_t)
        sphere = ((order * log_t).exp() * finite_log_t).sum(-1, keepdim=True) / order
        by_radius = (g * z / c - by_y * (z / c + mu * n)).sum(-1, keepdim=True)
        by_p = -c * (mu * (by_y * n * finite_log_t).sum(-1, keepdim=True) + kappa * sphere)
        by_p, by_radius = (torch.where(inside, 0.0, t).sum() for t in (by_p, by_radius))
        return by_y.reshape(grad.shape), by_p.to(p), by_radius.to(radius)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        pass

    backward = staticmethod(refuse_second_derivative)


def _log_magnitudes(magnitudes: Tensor, unit: Tensor) -> Tensor:
    return log_ratio(magnitudes, unit).clamp(min=LOG_ZERO)


def _solve_rows(log_a: Tensor, p: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """Solve for x = log t and ν = log μ in every row; finished rows leave the batch."""
    tolerance = 16 * torch.finfo(log_a.dtype).eps
    x_out, nu_out = torch.empty_like(log_a), torch.empty_like(log_a[:, :1])
    rows = torch.arange(len(log_a), device=log_a.device)
    nu = _first_multiplier(log_a, p, s)
    low, high = torch.full_like(nu, -torch.inf), torch.full_like(nu, torch.inf)
    x = log_a
    for _ in range(MAX_STEPS):
        x, kept = _solve_entries(log_a, nu, s, x)
        log_sum = torch.logsumexp(p * x, -1, keepdim=True)
        excess = log_sum / p  # log ‖t‖_p, 0 at the solution
        dx_dnu = -(1 - kept) / (kept + s * (1 - kept))
        slope = ((p * x - log_sum).exp() * dx_dnu).sum(-1, keepdim=True)
        low, high = torch.where(excess > 0, nu, low), torch.where(excess < 0, nu, high)

        # Newton in μ on ‖t‖^(1−p), written for ν = log μ. If that leaves the bracket, Newton in ν
        # on log ‖t‖, which is linear where μ is much too large. If both do, halve the bracket.
        ahead = torch.where((high - low).isfinite(), (low + high) / 2, nu + excess.sign())
        for step in (-excess / slope, torch.log1p(-torch.expm1(s * excess) / (s * slope))):
            trial = nu + step
            ahead = torch.where((trial > low) & (trial < high), trial, ahead)

        # Done if ν or ‖t‖ − 1 is down to rounding: put t on the sphere exactly.
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


def _first_multiplier(log_a: Tensor, p: Tensor, s: Tensor) -> Tensor:
    """Return the Newton step from μ = 0, where t = a: in closed form, and exact for p = 2."""
    log_sum = torch.logsumexp(p * log_a, -1, keepdim=True)
    log_slope = torch.logsumexp(2 * s * log_a, -1, keepdim=True) - log_sum
    growth = s * log_sum / p
    return growth + torch.log(-torch.expm1(-growth)) - s.log() - log_slope


def _solve_entries(log_a: Tensor, nu: Tensor, s: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Solve log(e^x + e^(ν + s·x)) = log a entry by entry, from any start.

    The left side is convex with slopes between 1 and s, so Newton's method from the upper bound
    min(log a, (log a − ν)/s) descends to the root. Also return t/a, the share that is kept.
    """
    upper = torch.minimum(log_a, (log_a - nu) / s)
    tolerance = torch.finfo(x.dtype).eps ** 0.6  # the step after this one is below rounding
    x = torch.minimum(x, upper)
    for _ in range(MAX_STEPS):
        lead = (1 - s) * x - nu
        value = x - logsigmoid(lead) - log_a
        step = value / (s + (1 - s) * lead.sigmoid_())
        x = torch.minimum(x - step, upper)
        if not (step.abs() > tolerance * x.abs().clamp(min=1)).any():
            break
    return x, torch.sigmoid((1 - s) * x - nu)
