"""pool_p as two Triton kernels, forward and backward, each one pass over memory.

A program holds whole rows in registers: it reads each entry once, reduces along the row, and writes
each result once. Both kernels serve the plain unit and the Frank-Wolfe step,

    u = a (+ b),      s = pool_p(u),      out = s,  γ·s  or  (1 − γ)·z + γ·s

so that the sum and the convex combination need no extra memory traffic. The mathematics is that of
`reference`, with logarithms to the base 2; backward recomputes the row instead of loading it.

At this speed instructions cost as much as memory traffic. So there are two forms of the row: a
short one for the p that networks use and a careful one for all others; all threads take the same
branch. Rare rows need no branch: an infinite peak has the inverse 0, which turns the finite entries
of its row into zeros, and a row of zeros gets the peak 1. Numbers below the smallest normal one
count as 0, and those above 2^126 as infinite.
"""

import triton
import triton.language as tl

LARGEST = tl.constexpr(3.4028234663852886e38)
SMALLEST = tl.constexpr(1.1754943508222875e-38)
LN2 = tl.constexpr(0.6931471805599453)
LOG2_E = tl.constexpr(1.4426950408889634)
NEGLIGIBLE = tl.constexpr(-252.0)  # 2 to this power is 0 in float32
GRADIENT_CAP = tl.constexpr(1e12)  # beyond this k every l < 0 has weight 0


@triton.jit
def _log2(x, FAST: tl.constexpr):
    """log₂ x to 2^-22, which is accurate enough unless the logarithm is close to 0."""
    if FAST:
        return tl.inline_asm_elementwise(
            "lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return tl.log2(x)


@triton.jit
def _exp2(x, FAST: tl.constexpr):
    if FAST:
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return tl.exp2(x)


@triton.jit
def _inverse(x, FAST: tl.constexpr):
    if FAST:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return 1.0 / x


@triton.jit
def _log2_1p_over_x(x):
    """log₂(1 + x)/x on [−1/4, 0], a Chebyshev fit with an error of at most 6.4e-8."""
    y = -0.4885594928
    y = y * x + 0.2086586491
    y = y * x - 0.3717020026
    y = y * x + 0.4802304017
    y = y * x - 0.7213620646
    return y * x + 1.44269499


@triton.jit
def _tile(
    length, inner, num_rows,
    AXIS: tl.constexpr, LENGTH: tl.constexpr, ROWS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Return the start of the program's rows, offsets and mask; entries lie along AXIS."""
    pid = tl.program_id(0)
    entry = tl.arange(0, LENGTH)
    row = tl.arange(0, ROWS)
    if AXIS == 1:  # rows are contiguous: (row, entry)
        start = pid.to(tl.int64) * ROWS * length
        offsets = row[:, None] * length + entry[None, :]
        mask = ((pid.to(tl.int64) * ROWS + row)[:, None] < num_rows) & (entry[None, :] < length)
    else:  # neighbors in memory belong to neighboring rows: (entry, row)
        blocks = tl.cdiv(inner, ROWS)
        first = (pid % blocks) * ROWS
        start = (pid // blocks).to(tl.int64) * length * inner + first
        stride = inner.to(tl.int64) if WIDE else inner
        offsets = entry[:, None] * stride + row[None, :]
        mask = ((first + row)[None, :] < inner) & (entry[:, None] < length)
    return start, offsets, mask


@triton.jit
def _load(pointer, offsets, mask, EVEN: tl.constexpr):
    if EVEN:
        return tl.load(pointer + offsets).to(tl.float32)
    return tl.load(pointer + offsets, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def _store(pointer, offsets, values, mask, EVEN: tl.constexpr):
    if EVEN:
        tl.store(pointer + offsets, values.to(pointer.dtype.element_ty))
    else:
        tl.store(pointer + offsets, values.to(pointer.dtype.element_ty), mask=mask)


@triton.jit
def _scalars(excess_ptr, radius_ptr, FAST: tl.constexpr):
    """Return excess, k = 1/(p − 1) (finite, > 0), 1/p, 1/q and radius; NaN if invalid."""
    excess = tl.load(excess_ptr).to(tl.float32)
    k = tl.clamp(_inverse(tl.abs(excess), FAST), SMALLEST, LARGEST)
    k = tl.where(excess >= 0, k, float("nan"))
    inv_p = _inverse(1.0 + excess, FAST)
    inv_q = _inverse(1.0 + k, FAST)
    radius = tl.load(radius_ptr).to(tl.float32)
    return excess, k, inv_p, inv_q, tl.where(radius > 0, radius, float("nan"))


@triton.jit
def _weigh(u, k, AXIS: tl.constexpr, FAST: tl.constexpr, COMMON: tl.constexpr):
    """Return the peak of each row and, for each entry, |u|/peak, its log₂ and 2^(k·log₂)."""
    magnitude = tl.abs(u)
    peak = tl.max(magnitude, AXIS, keep_dims=True)
    empty = peak < SMALLEST
    peak = tl.where(empty, 1.0, peak)
    inverse = _inverse(peak, FAST)
    log2_peak = _log2(peak, FAST)

    top = magnitude == peak
    ratio = tl.where(top, 1.0, magnitude * inverse)
    log2_ratio = _log2(ratio, FAST)
    if not COMMON:
        # Near the peak k multiplies the error of a logarithm close to 0: compute it from the exact
        # difference. Far below the peak even a ratio that underflows may have a weight.
        below = tl.where(top, 0.0, (magnitude - peak) * inverse)
        log2_ratio = tl.where(ratio > 0.75, below * _log2_1p_over_x(below), log2_ratio)
        far = _log2(magnitude, FAST) - log2_peak
        log2_ratio = tl.where(ratio < 1e-30, far, log2_ratio)
    weight = _exp2(k * log2_ratio, FAST)
    return peak, empty, inverse, log2_peak, ratio, log2_ratio, weight


@triton.jit
def _is_common(k):
    """Return whether the short form is accurate: p from 1.25 to 1.8, the range of networks."""
    return (k >= 1.25) & (k <= 4.0)


@triton.jit
def _log2_1p(x, FAST: tl.constexpr):
    """log₂(1 + x) for x ≥ 0; where 1 + x would lose digits of x, by log(1 + x) = 2 artanh t."""
    t = x * _inverse(2.0 + x, FAST)
    y = t * t
    series = y * (1 / 9) + 1 / 7
    series = series * y + 1 / 5
    series = series * y + 1 / 3
    series = series * y + 1.0
    return tl.where(x < 0.5, 2.0 * LOG2_E * t * series, _log2(1.0 + x, FAST))


@triton.jit
def _damping(
    peak, empty, log2_peak, log2_total, k, inv_q, eps, log2_eps, FAST: tl.constexpr
):  # fmt: skip
    """log₂ ρ and 1 − ρ for ρ = ‖u‖_q/(‖u‖_q + eps); for a row of zeros, the values p = 2 needs."""
    log2_norm = inv_q * log2_total
    over = eps * _inverse(peak * _exp2(log2_norm, FAST), FAST)
    log2_rho = tl.where(over > 1e30, log2_peak + log2_norm - log2_eps, -_log2_1p(over, FAST))
    beta = tl.where(over > 1e30, 1.0, over * _inverse(1.0 + over, FAST))
    of_empty = tl.where(k == 1.0, -log2_eps, 0.0)
    return tl.where(empty, of_empty, log2_rho), tl.where(empty, 1.0, beta)


@triton.jit
def _pool(
    u, k, inv_p, inv_q, radius, eps, log2_eps,
    AXIS: tl.constexpr, FAST: tl.constexpr, COMMON: tl.constexpr, HAS_EPS: tl.constexpr,
):  # fmt: skip
    peak, empty, _, log2_peak, ratio, _, weight = _weigh(u, k, AXIS, FAST, COMMON)
    total = tl.sum(weight * ratio, AXIS, keep_dims=True)
    log2_total = _log2(tl.where(total < 1.0, 1.0, total), FAST)
    exponent = -inv_p * log2_total
    if HAS_EPS:
        log2_rho, _ = _damping(peak, empty, log2_peak, log2_total, k, inv_q, eps, log2_eps, FAST)
        exponent += k * log2_rho
    s = weight * (radius * _exp2(exponent, FAST))
    return tl.where(u > 0, -s, s)


@triton.jit
def forward_kernel(
    out_ptr, a_ptr, b_ptr, z_ptr, step_ptr, excess_ptr, radius_ptr,
    length, inner, num_rows, eps, log2_eps,
    AXIS: tl.constexpr, LENGTH: tl.constexpr, ROWS: tl.constexpr, EVEN: tl.constexpr,
    WIDE: tl.constexpr, FAST: tl.constexpr,
    HAS_B: tl.constexpr, HAS_Z: tl.constexpr, HAS_STEP: tl.constexpr, HAS_EPS: tl.constexpr,
):  # fmt: skip
    eps, log2_eps = tl.cast(eps, tl.float32), tl.cast(log2_eps, tl.float32)  # inductor: fp64
    start, offsets, mask = _tile(length, inner, num_rows, AXIS, LENGTH, ROWS, WIDE)
    u = _load(a_ptr + start, offsets, mask, EVEN)
    if HAS_B:
        u += _load(b_ptr + start, offsets, mask, EVEN)
    if HAS_Z:
        z = _load(z_ptr + start, offsets, mask, EVEN)
    _, k, inv_p, inv_q, radius = _scalars(excess_ptr, radius_ptr, FAST)
    if _is_common(k):
        s = _pool(u, k, inv_p, inv_q, radius, eps, log2_eps, AXIS, FAST, True, HAS_EPS)
    else:
        s = _pool(u, k, inv_p, inv_q, radius, eps, log2_eps, AXIS, FAST, False, HAS_EPS)
    if HAS_STEP:
        step = tl.load(step_ptr).to(tl.float32)
        if HAS_Z:
            s = z + step * (s - z)
        else:
            s = step * s
    _store(out_ptr + start, offsets, s, mask, EVEN)


@triton.jit
def _finite(x):
    """The nearest finite number; NaN stays NaN."""
    return tl.clamp(x, -LARGEST, LARGEST, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _add2(a0, a1, b0, b1):
    return a0 + b0, a1 + b1


@triton.jit
def _add4(a0, a1, a2, a3, b0, b1, b2, b3):
    return a0 + b0, a1 + b1, a2 + b2, a3 + b3


@triton.jit
def _pool_backward(
    grad, u, step, excess, k, inv_p, inv_q, radius, eps, log2_eps,
    AXIS: tl.constexpr, FAST: tl.constexpr, COMMON: tl.constexpr, HAS_EPS: tl.constexpr,
):  # fmt: skip
    """Return the gradient for u, and the terms of each row for p and step size (without z).

    The upstream gradient of s is step·grad.
    """
    peak, empty, inv_peak, log2_peak, ratio, log2_ratio, weight = _weigh(u, k, AXIS, FAST, COMMON)
    # |u|^(k−1), by which s changes with its own u
    unit = inv_peak
    if COMMON:
        pull = grad * _exp2((k - 1.0) * log2_ratio, FAST)
    else:
        # Above p = 2 this may overflow before it is divided by the peak, and at u = 0 it does.
        pull = _exp2((k - 1.0) * log2_ratio - log2_peak, FAST)
        flat = tl.where(k == 1.0, inv_peak, 0.0)
        if not HAS_EPS:
            flat = tl.where(empty, 0.0, flat)
        zero = tl.abs(u) < SMALLEST  # at p = 2 the exponent of a subnormal would be 0·∞
        pull = _finite(grad * tl.where(zero | (peak == float("inf")), flat, pull))
        unit = inv_peak * 0.0 + 1.0

    # All sums along the row at once; s and its products still lack the factor `size`.
    s = tl.where(u > 0, -weight, weight)
    terms = grad * s
    share = weight * ratio
    scaled = tl.maximum(k * log2_ratio, NEGLIGIBLE)
    total, sum_terms, share_scaled, terms_scaled = tl.reduce(
        (share, terms, share * scaled, terms * scaled), AXIS, _add4, keep_dims=True
    )
    total = tl.where(total < 1.0, 1.0, total)
    log2_total = _log2(total, FAST)
    inv_total = _inverse(total, FAST)
    exponent = -inv_p * log2_total
    if HAS_EPS:
        log2_rho, beta = _damping(peak, empty, log2_peak, log2_total, k, inv_q, eps, log2_eps, FAST)
        exponent += k * log2_rho
    else:
        beta = 0.0 * log2_total
    size = radius * _exp2(exponent, FAST)
    by_step = size * sum_terms
    size *= step
    sum_terms *= size

    rho = 1.0 - beta
    capped = tl.where(k > GRADIENT_CAP, GRADIENT_CAP, k)
    constant = (excess == 0) | (excess == float("inf"))  # piecewise, in u; pull may be infinite
    slope = tl.where(constant, 0.0, capped)
    # Finite factors: rows of tiny numbers have infinite ones, and 0·∞ and ∞ − ∞ would be NaN.
    own = tl.where(constant, 0.0, _finite(-slope * size * unit) * pull)
    shared = _finite(slope * rho * inv_total * sum_terms * inv_peak)
    grad_u = _finite(own + shared * s)

    by_row = capped * inv_p * rho * (share_scaled * inv_total)
    if HAS_EPS:
        by_row -= capped * tl.maximum(k * log2_rho, NEGLIGIBLE)
    by_row += (1.0 + capped * beta) * log2_total * inv_p * inv_p
    by_p = LN2 * (sum_terms * by_row - capped * size * terms_scaled)
    return grad_u, by_p, by_step


@triton.jit
def backward_kernel(
    grad_u_ptr, grad_z_ptr, partial_ptr, grad_ptr, a_ptr, b_ptr, z_ptr, step_ptr, excess_ptr,
    radius_ptr, length, inner, num_rows, eps, log2_eps,
    AXIS: tl.constexpr, LENGTH: tl.constexpr, ROWS: tl.constexpr, EVEN: tl.constexpr,
    WIDE: tl.constexpr, FAST: tl.constexpr,
    HAS_B: tl.constexpr, HAS_Z: tl.constexpr, HAS_STEP: tl.constexpr, HAS_EPS: tl.constexpr,
):  # fmt: skip
    eps, log2_eps = tl.cast(eps, tl.float32), tl.cast(log2_eps, tl.float32)  # inductor: fp64
    start, offsets, mask = _tile(length, inner, num_rows, AXIS, LENGTH, ROWS, WIDE)
    u = _load(a_ptr + start, offsets, mask, EVEN)
    if HAS_B:
        u += _load(b_ptr + start, offsets, mask, EVEN)
    grad = _load(grad_ptr + start, offsets, mask, EVEN)
    step = 1.0
    if HAS_STEP:
        step = tl.load(step_ptr).to(tl.float32)
    if HAS_Z:
        z = _load(z_ptr + start, offsets, mask, EVEN)
        _store(grad_z_ptr + start, offsets, grad - step * grad, mask, EVEN)
    excess, k, inv_p, inv_q, radius = _scalars(excess_ptr, radius_ptr, FAST)
    if _is_common(k):
        grad_u, by_p, by_step = _pool_backward(
            grad, u, step, excess, k, inv_p, inv_q, radius, eps, log2_eps,
            AXIS, FAST, True, HAS_EPS,
        )  # fmt: skip
    else:
        grad_u, by_p, by_step = _pool_backward(
            grad, u, step, excess, k, inv_p, inv_q, radius, eps, log2_eps,
            AXIS, FAST, False, HAS_EPS,
        )  # fmt: skip
    _store(grad_u_ptr + start, offsets, grad_u, mask, EVEN)
    by_p, by_s = tl.reduce(tl.reduce((by_p, by_step), 1, _add2), 0, _add2)
    by_step = by_s
    if HAS_Z:
        by_step -= tl.sum(tl.sum(grad * z, 1), 0)
    partial_ptr += tl.program_id(0).to(tl.int64) * 3
    tl.store(partial_ptr, by_p)
    tl.store(partial_ptr + 1, step * by_s / radius)
    tl.store(partial_ptr + 2, by_step)
