"""pool_p on a CPU: the plain operators, applied to blocks that fit the cache.

On whole images each operator reads and writes main memory, and the unit costs more than the
convolutions around it. Here a block of rows goes through all operators while it is in the cache, in
buffers that are allocated once; the operators use torch's threads.

For ordinary p a shorter form is accurate enough: with k ≤ 16 (p ≥ 1.0625), log(|u|/max|u|) needs no
correction near 0, since its rounding error is only multiplied by k; and with k ≥ 1 (p ≤ 2), or
k ≥ 1.5 for gradients, entries whose ratio underflows have weight 0. All other p, and blocks with
NaN or infinity, use the reference. Powers have base 2, which takes less than half the time of e.

At p = 4/3, close to what image networks learn, k = 3 and q = 4: products are enough.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from fwnet.kernels import reference
from fwnet.kernels.reference import Scalars

BLOCK_ENTRIES = 1 << 19  # two buffers of 2 MiB in float32
ORDINARY_K = (1.0, 16.0)
ORDINARY_K_BACKWARD = (1.5, 16.0)
LEAST_PEAK = 1e-30  # of rows whose gradients, or whose eps/peak, stay within the numbers
CUBIC_NORMS = (1e-8, 1e8)  # where fourth powers keep all their digits


class Layout(NamedTuple):
    """Memory as (outer, length, inner): the entries of a row are `inner` apart.

    Rows along the last axis and channels-last images have inner = 1; the channels of an ordinary
    (b, c, h, w) image have inner = h·w.
    """

    dim: int
    along_last: bool  # the row's axis is innermost in memory
    length: int
    inner: int
    num_rows: int

    @classmethod
    def of(cls, u: Tensor, dim: int) -> Self:
        """Return the layout of u; a tensor in neither dense form is treated as an ordinary one."""
        dim = dim % u.ndim
        length = u.shape[dim]
        if dim == u.ndim - 1 or u.movedim(dim, -1).is_contiguous():
            return cls(dim, True, length, 1, u.numel() // length)
        return cls(dim, False, length, math.prod(u.shape[dim + 1 :]), u.numel() // length)

    def dense(self, t: Tensor) -> Tensor:
        """Return t in this layout; copy only if needed."""
        return t.movedim(self.dim, -1).contiguous() if self.along_last else t.contiguous()

    def empty(self, like: Tensor) -> Tensor:
        """Return an empty tensor of the shape of `like` in this layout."""
        if not self.along_last:
            return torch.empty_like(like, memory_format=torch.contiguous_format)
        moved = like.movedim(self.dim, -1)
        dense = torch.empty_like(moved, memory_format=torch.contiguous_format)
        return dense.movedim(-1, self.dim)


def forward(
    a: Tensor,
    b: Tensor | None,
    z: Tensor | None,
    step_size: Tensor | None,
    excess: Tensor,
    radius: Tensor,
    eps: float,
    dim: int,
    overwrite_z: bool = False,
) -> Tensor:
    """The kernel contract's forward, on a CPU; the result may take the place of z."""
    layout = Layout.of(a, dim)
    compute = torch.promote_types(a.dtype, torch.float32)
    values = reference.scalars(excess, radius, compute)
    k = values.k.item()
    ordinary, cubic = ORDINARY_K[0] <= k <= ORDINARY_K[1], math.isclose(k, 3, rel_tol=1e-6)
    # In place no memory is asked of the system, which takes as long as the unit for large images.
    in_place = overwrite_z and z is not None and z.stride() == a.stride()
    out = z if in_place and z is not None else layout.empty(a)
    step = None if step_size is None else step_size.to(compute)
    buffers: list[Tensor] = []
    for out_block, a_block, b_block, z_block in _blocks(layout, out, a, b, z):
        if not buffers or buffers[0].shape != a_block.shape:
            buffers = [torch.empty_like(a_block, dtype=compute) for _ in range(3)]
        total, ratio, weight = buffers
        u = a_block if b_block is None else torch.add(a_block, b_block, out=total)
        u = u.to(compute)
        # Results in the compute dtype are written directly to the output.
        written = out_block if out.dtype == compute else ratio
        s = written if step is None else ratio
        done = cubic and _pool_cubic(u, values, eps, weight, ratio, s)
        done = done or (ordinary and _pool_ordinary(u, values, eps, ratio, weight, s))
        if not done:
            s = reference.pool(u, values, eps, 1)
        if step is not None and z_block is None:
            s = torch.mul(s, step, out=written)
        elif step is not None:
            s = torch.lerp(z_block.to(compute), s, step, out=written)
        if s is not out_block:
            out_block.copy_(s)
    return out


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
    """The kernel contract's backward, on a CPU."""
    layout = Layout.of(a, dim)
    compute = torch.promote_types(a.dtype, torch.float32)
    values = reference.scalars(excess, radius, compute)
    ordinary = ORDINARY_K_BACKWARD[0] <= values.k.item() <= ORDINARY_K_BACKWARD[1]
    grad_u = layout.empty(a)
    grad_z = a.new_empty(0) if z is None else layout.empty(z)
    sums = [
        torch.zeros_like(t) for t in (excess, radius, excess if step_size is None else step_size)
    ]
    z_result = None if z is None else grad_z
    for u_out, z_out, g, a_block, b_block, z_block in _blocks(
        layout, grad_u, z_result, grad, a, b, z
    ):
        gradients = None
        if ordinary:
            gradients = _backward_ordinary(g, a_block, b_block, z_block, step_size, values, eps)
        if gradients is None:
            gradients = reference.backward(
                g, a_block, b_block, z_block, step_size, excess, radius, eps, 1
            )
        by_u, by_z, *by_scalars = gradients
        u_out.copy_(by_u)
        if z is not None:
            z_out.copy_(by_z)
        sums = [total + part for total, part in zip(sums, by_scalars, strict=True)]
    return grad_u, grad_z, sums[0], sums[1], sums[2]


def _blocks(layout: Layout, *tensors: Tensor | None) -> Iterator[list[Any]]:
    """Yield the same block of every tensor, with the rows along axis 1.

    Blocks are (rows, length) if rows lie along the last axis, else (images, length, pixels). They
    are views of tensors that are dense in the layout, as results must be, and copies of others.
    """
    dense = [t if t is None else layout.dense(t) for t in tensors]
    rows = max(1, BLOCK_ENTRIES // layout.length)
    if layout.along_last:
        flat = [t if t is None else t.view(-1, layout.length) for t in dense]
        for start in range(0, layout.num_rows, rows):
            yield [t if t is None else t[start : start + rows] for t in flat]
        return
    shape = (-1, layout.length, layout.inner)
    stacks = [t if t is None else t.view(shape) for t in dense]
    images = max(1, rows // layout.inner)
    for first in range(0, layout.num_rows // layout.inner, images):
        for start in range(0, layout.inner, rows):
            where = (slice(first, first + images), slice(None), slice(start, start + rows))
            yield [t if t is None else t[where] for t in stacks]


def _pool_ordinary(
    u: Tensor, values: Scalars, eps: float, ratio: Tensor, weight: Tensor, out: Tensor
) -> bool:
    """Write pool_p(u) to `out` in ten passes.

    Return False if u has NaN, infinity or, with eps, rows so small that eps/‖u‖ may overflow.
    """
    torch.abs(u, out=ratio)
    peak = ratio.amax(1, keepdim=True)
    if not peak.isfinite().all():
        return False
    peak.masked_fill_(peak == 0, 1)
    if eps > 0 and not (peak > LEAST_PEAK * max(1, eps)).all():
        return False
    torch.log2(ratio.div_(peak), out=weight)
    weight.mul_(values.k).exp2_()
    log_sum = ratio.mul_(weight).sum(1, keepdim=True).clamp_(min=1).log_()
    size = _exponent(log_sum, _log_rho(peak, log_sum, values, eps), values).exp_()
    torch.mul(weight.copysign_(u), size.mul_(-values.radius), out=out)
    return True


def _pool_cubic(
    u: Tensor, values: Scalars, eps: float, square: Tensor, root: Tensor, out: Tensor
) -> bool:
    """Write s = −radius·(u/(‖u‖₄ + eps))³ to `out` in five passes.

    Return False for rows whose fourth powers would leave the range of the numbers.
    """
    torch.mul(u, u, out=square)
    norm = torch.linalg.vector_norm(square, dim=1, keepdim=True).sqrt_()
    if not ((norm > CUBIC_NORMS[0]) & (norm < CUBIC_NORMS[1])).all():
        return False
    torch.mul(u, -values.radius.pow(1 / 3) / norm.add_(eps), out=root)
    torch.mul(torch.mul(root, root, out=square), root, out=out)
    return True


def _log_rho(peak: Tensor, log_sum: Tensor, values: Scalars, eps: float) -> Tensor | None:
    """log ρ = −log(1 + eps/‖u‖_q), or None for log 1."""
    if eps == 0:
        return None
    norm = (log_sum * values.inv_q).exp_().mul_(peak)
    return (eps / norm).log1p_().neg_()


def _exponent(log_sum: Tensor, log_rho: Tensor | None, values: Scalars) -> Tensor:
    """k·log ρ − log N / p."""
    exponent = log_sum * -values.inv_p
    return exponent if log_rho is None else exponent.add_(log_rho * values.k)


def _backward_ordinary(
    grad: Tensor,
    a: Tensor,
    b: Tensor | None,
    z: Tensor | None,
    step_size: Tensor | None,
    values: Scalars,
    eps: float,
) -> tuple[Tensor, ...] | None:
    """The reference's backward in half the passes.

    Return None if the block has NaN, infinity, or rows so small that gradients may overflow.
    `toward` is −s without the factor `size`, and `terms` is grad·toward.
    """
    compute, k = values.k.dtype, values.k
    u, grad = reference.widened_sum(a, b), grad.to(compute)
    ratio = u.abs()
    peak = ratio.amax(1, keepdim=True)
    peak.masked_fill_(peak == 0, 1)
    if not ((peak > LEAST_PEAK * max(1, eps)) & peak.isfinite()).all():
        return None
    logs = ratio.div_(peak).log2()
    weight = (logs * k).exp2_()
    pull = (logs * (k - 1)).exp2_().mul_(grad)
    share = ratio.mul_(weight)
    toward = weight.copysign_(u)
    terms = grad * toward
    scaled = logs.mul_(k * math.log(2)).clamp_(min=2 * math.log(torch.finfo(compute).tiny))
    total = share.sum(1, keepdim=True).clamp_(min=1)
    sum_terms = terms.sum(1, keepdim=True)
    share_scaled = share.mul_(scaled).sum(1, keepdim=True)
    terms_scaled = terms.mul_(scaled).sum(1, keepdim=True)

    log_sum = total.log()
    log_rho = _log_rho(peak, log_sum, values, eps)
    size = _exponent(log_sum, log_rho, values).exp_().mul_(values.radius)
    sum_gs = -size * sum_terms
    log_rho = torch.zeros_like(log_sum) if log_rho is None else log_rho
    rho, beta = log_rho.exp(), -log_rho.expm1()
    by_row = k * (values.inv_p * rho * share_scaled / total - k * log_rho)
    by_row += (1 + k * beta) * log_sum * values.inv_p**2
    by_p = (sum_gs * by_row + k * size * terms_scaled).sum()
    by_s = sum_gs.sum()

    shared = k * rho * sum_gs / total / peak
    by_u = pull.mul_(-k * size / peak).addcmul_(toward, shared, value=-1)
    by_z, by_step = by_u.new_empty(0), torch.zeros_like(by_s)
    if step_size is not None:
        step = step_size.to(compute)
        by_step = by_s if z is None else by_s - (grad * z).sum()
        by_z = by_z if z is None else grad * (1 - step)
        by_u, by_p, by_s = by_u.mul_(step), by_p * step, by_s * step
    return by_u, by_z, by_p, by_s / values.radius, by_step
