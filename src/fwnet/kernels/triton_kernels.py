"""pool_p as two Triton kernels, forward and backward, each one pass over memory.

A program holds whole rows in registers: it reads each entry once, reduces along the row, and writes
each result once. Both kernels serve the plain unit and the Frank-Wolfe step,

    u = a (+ b),      s = pool_p(u),      out = s,  γ·s  or  (1 − γ)·z + γ·s

so that the sum and the convex combination cost no traffic of their own. The mathematics is that of
`reference`, in logarithms to the base 2; backward recomputes the row rather than read it stored.
"""

import triton
import triton.language as tl

INFINITY = tl.constexpr(float("inf"))
LARGEST = tl.constexpr(3.4028234663852886e38)
SMALLEST = tl.constexpr(1.1754943508222875e-38)
LN2 = tl.constexpr(0.6931471805599453)
LOG2_E = tl.constexpr(1.4426950408889634)
NEGLIGIBLE = tl.constexpr(-252.0)  # 2 to this power is 0 in float32
GRADIENT_CAP = tl.constexpr(1e12)  # beyond this k every l < 0 has weight 0


@triton.jit
def _tile(
    pid, length, inner, num_rows, AXIS: tl.constexpr, LENGTH: tl.constexpr, ROWS: tl.constexpr
):
    """Offsets and mask of the rows of program pid: entries lie along AXIS of the tile."""
    entry = tl.arange(0, LENGTH)
    if AXIS == 1:  # rows are contiguous: (row, entry)
        row = pid.to(tl.int64) * ROWS + tl.arange(0, ROWS)
        offsets = row[:, None] * length + entry[None, :]
        mask = (row[:, None] < num_rows) & (entry[None, :] < length)
        index = entry[None, :]
    else:  # neighbors in memory belong to neighboring rows: (entry, row)
        blocks = tl.cdiv(inner, ROWS)
        outer = (pid // blocks).to(tl.int64)
        place = (pid % blocks) * ROWS + tl.arange(0, ROWS)
        offsets = outer * length * inner + entry[:, None] * inner + place[None, :]
        mask = (place[None, :] < inner) & (entry[:, None] < length)
        index = entry[:, None]
    return offsets, mask, index


@triton.jit
def _scalars(excess_ptr, radius_ptr):
    """k = 1/(p − 1) inside the finite positive numbers, 1/p, 1/q and radius; NaN if invalid."""
    excess = tl.load(excess_ptr)
    k = tl.where(excess >= 0, 1.0 / tl.abs(excess), float("nan"))
    k = tl.where(k < SMALLEST, SMALLEST, tl.where(k > LARGEST, LARGEST, k)).to(tl.float32)
    inv_q = 1.0 / (1.0 + k)
    # k/(1 + k), where k itself may be the largest number
    inv_p = tl.where(k > 1.0, 1.0 / (1.0 + 1.0 / k), k * inv_q)
    radius = tl.load(radius_ptr).to(tl.float32)
    return excess, k, inv_p, inv_q, tl.where(radius > 0, radius, float("nan"))


@triton.jit
def _log2_1p(x):
    """log₂(1 + x) for x ≥ 0, by its series where 1 + x would lose digits of x."""
    series = x * (1 / 7)
    series = x * (1 / 6 - series)
    series = x * (1 / 5 - series)
    series = x * (1 / 4 - series)
    series = x * (1 / 3 - series)
    series = x * (1 / 2 - series)
    return tl.where(x < 0.05, LOG2_E * (x - x * series), tl.log2(1.0 + x))


@triton.jit
def _analyze(u, k, inv_q, eps, log2_eps, AXIS: tl.constexpr, HAS_EPS: tl.constexpr):
    """The row quantities of `reference.analyze`: |u|, peak, ratio, log₂ ratio, weight, N, ρ."""
    magnitude = tl.abs(u)
    peak = tl.max(magnitude, AXIS, keep_dims=True)
    infinite = peak == INFINITY
    empty = peak == 0.0
    # An infinite entry counts as 1, its finite neighbors as 0, and NaN stays NaN.
    magnitude = tl.where(infinite, tl.where(magnitude == INFINITY, 1.0, magnitude * 0.0), magnitude)
    peak = tl.where(infinite | empty, 1.0, peak)

    # One quarter keeps 1/peak a normal number for the largest peaks.
    unit = tl.where(peak > 1.0, 0.25, 1.0)
    inverse = 1.0 / (peak * unit)
    ratio = (magnitude * unit) * inverse
    # What rounding took from the ratio, to first order: it is all there is of log(ratio) near 1.
    lost = tl.fma(-ratio, peak * unit, magnitude * unit) * inverse
    close = ratio > 9.5367431640625e-07
    log2_peak = tl.log2(peak)
    log2_ratio = tl.log2(tl.where(close, ratio, magnitude))
    log2_ratio += tl.where(close, lost * LOG2_E, -log2_peak)
    log2_ratio = tl.where((magnitude == peak) | (log2_ratio > 0), 0.0, log2_ratio)

    weight = tl.exp2(k * log2_ratio)
    total = tl.sum(weight * ratio, AXIS, keep_dims=True)
    total = tl.where(total < 1.0, 1.0, total)
    log2_total = tl.log2(total)
    if HAS_EPS:
        log2_norm = inv_q * log2_total
        over = eps / (peak * tl.exp2(log2_norm))
        log2_rho = tl.where(over > 1e30, log2_peak + log2_norm - log2_eps, -_log2_1p(over))
        beta = tl.where(over > 1e30, 1.0, over / (1.0 + over))
        log2_rho = tl.where(infinite, 0.0, tl.where(empty, -INFINITY, log2_rho))
        beta = tl.where(infinite, 0.0, tl.where(empty, 1.0, beta))
    else:
        log2_rho = log2_total * 0.0
        beta = log2_total * 0.0
    return (
        magnitude, peak, ratio, log2_ratio, weight, total, log2_total, log2_peak, log2_rho, beta,
        infinite, empty,
    )  # fmt: skip


@triton.jit
def forward_kernel(
    out_ptr, a_ptr, b_ptr, z_ptr, step_ptr, excess_ptr, radius_ptr,
    length, inner, num_rows, eps, log2_eps,
    AXIS: tl.constexpr, LENGTH: tl.constexpr, ROWS: tl.constexpr,
    HAS_B: tl.constexpr, HAS_Z: tl.constexpr, HAS_STEP: tl.constexpr, HAS_EPS: tl.constexpr,
):  # fmt: skip
    offsets, mask, _ = _tile(tl.program_id(0), length, inner, num_rows, AXIS, LENGTH, ROWS)
    _, k, inv_p, inv_q, radius = _scalars(excess_ptr, radius_ptr)
    u = tl.load(a_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    if HAS_B:
        u += tl.load(b_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    (
        _, _, _, _, weight, _, log2_total, _, log2_rho, _, _, _,
    ) = _analyze(u, k, inv_q, eps, log2_eps, AXIS, HAS_EPS)  # fmt: skip
    exponent = -inv_p * log2_total
    if HAS_EPS:
        exponent += k * log2_rho
    s = weight * (radius * tl.exp2(exponent))
    s = tl.where(u > 0, -s, s)
    if HAS_STEP:
        step = tl.load(step_ptr).to(tl.float32)
        if HAS_Z:
            z = tl.load(z_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
            s = z + step * (s - z)
        else:
            s = step * s
    tl.store(out_ptr + offsets, s.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def backward_kernel(
    grad_u_ptr, grad_z_ptr, partial_ptr, grad_ptr, a_ptr, b_ptr, z_ptr, step_ptr, excess_ptr,
    radius_ptr, length, inner, num_rows, eps, log2_eps,
    AXIS: tl.constexpr, LENGTH: tl.constexpr, ROWS: tl.constexpr,
    HAS_B: tl.constexpr, HAS_Z: tl.constexpr, HAS_STEP: tl.constexpr, HAS_EPS: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    offsets, mask, index = _tile(pid, length, inner, num_rows, AXIS, LENGTH, ROWS)
    excess, k, inv_p, inv_q, radius = _scalars(excess_ptr, radius_ptr)
    u = tl.load(a_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    if HAS_B:
        u += tl.load(b_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    grad = tl.load(grad_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    (
        magnitude, peak, ratio, log2_ratio, weight, total, log2_total, log2_peak, log2_rho, beta,
        infinite, empty,
    ) = _analyze(u, k, inv_q, eps, log2_eps, AXIS, HAS_EPS)  # fmt: skip
    exponent = -inv_p * log2_total
    if HAS_EPS:
        exponent += k * log2_rho
    size = radius * tl.exp2(exponent)
    s = weight * size
    s = tl.where(u > 0, -s, s)

    by_step = 0.0
    if HAS_STEP:
        step = tl.load(step_ptr).to(tl.float32)
        moved = s
        if HAS_Z:
            moved -= tl.load(z_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
            grad_z = grad - step * grad
            tl.store(grad_z_ptr + offsets, grad_z.to(grad_z_ptr.dtype.element_ty), mask=mask)
        by_step = tl.sum(tl.sum(grad * moved, 1), 0)
        grad = step * grad

    rho = 1.0 - beta
    inv_total = 1.0 / total
    capped = tl.where(k > GRADIENT_CAP, GRADIENT_CAP, k)
    slope = tl.where(excess == 0, 0.0, capped)  # at p = 1 the unit is piecewise constant
    terms = grad * s
    sum_terms = tl.sum(terms, AXIS, keep_dims=True)
    pi = weight * ratio * inv_total

    # s/u and pi/u without dividing by u
    power = tl.exp2((k - 1.0) * log2_ratio - log2_peak)
    at_zero = tl.where(k == 1.0, 1.0 / peak, 0.0)
    power = tl.where(magnitude == 0.0, at_zero, power)
    shared = (slope * rho * inv_total * sum_terms / peak) * weight
    grad_u = -(slope * size) * grad * power - tl.where(u > 0, shared, -shared)

    # The peak's own entry cancels; homogeneity gives it from the others without loss.
    first = tl.min(tl.where(magnitude == peak, index, 1 << 30), AXIS, keep_dims=True)
    is_peak = index == first
    others = tl.where(is_peak, 0.0, terms - rho * pi * sum_terms)
    others = slope * tl.sum(others, AXIS, keep_dims=True)
    at_peak = (slope * beta * sum_terms - others) / peak
    grad_u = tl.where(is_peak, tl.where(u > 0, at_peak, -at_peak), grad_u)
    grad_u = tl.where(grad_u > LARGEST, LARGEST, tl.where(grad_u < -LARGEST, -LARGEST, grad_u))
    nothing = 0.0 * total  # NaN in a row that has one
    of_empty = grad * nothing
    if HAS_EPS:
        of_empty += tl.where(k == 1.0, -radius * grad / eps, 0.0)
    grad_u = tl.where(empty, of_empty, tl.where(infinite, nothing, grad_u))
    tl.store(grad_u_ptr + offsets, grad_u.to(grad_u_ptr.dtype.element_ty), mask=mask)

    scaled = k * log2_ratio
    scaled = tl.where(scaled < NEGLIGIBLE, NEGLIGIBLE, scaled)
    mean = tl.sum(pi * scaled, AXIS, keep_dims=True)
    damping = k * log2_rho
    damping = tl.where(damping < NEGLIGIBLE, NEGLIGIBLE, damping)
    by_row = capped * (inv_p * rho * mean - damping)
    by_row += (1.0 + capped * beta) * log2_total * inv_p * inv_p
    by_p = LN2 * (sum_terms * by_row - capped * tl.sum(terms * scaled, AXIS, keep_dims=True))
    partial_ptr += pid.to(tl.int64) * 3
    tl.store(partial_ptr, tl.sum(tl.sum(by_p, 1), 0))
    tl.store(partial_ptr + 1, tl.sum(tl.sum(sum_terms, 1), 0) / radius)
    tl.store(partial_ptr + 2, by_step)
