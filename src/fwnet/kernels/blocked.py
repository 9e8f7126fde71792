"""pool_p on a CPU: the plain operators, applied to blocks that stay in the cache.

On whole images each operator reads and writes main memory, and the unit costs more than the
convolutions around it. Here a block of rows goes through all of them while it is in the cache, in
buffers that are made once; the operators use torch's threads.

For ordinary p a shorter form is exact enough: with 1 ≤ k ≤ 16 (p from 1.0625 to 2), log(|u|/max|u|)
needs no correction near 0, since its rounding is multiplied by k only, and entries whose ratio
underflows have weight 0 anyway. Everything else takes the reference's steps, block by block.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from fwnet.kernels import reference
from fwnet.kernels.layout import Layout

__all__ = ["backward", "forward"]

BLOCK_ENTRIES = 1 << 19  # two buffers of 2 MiB in float32
ORDINARY_K = (1.0, 16.0)


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
    """The kernel contract's forward, on a CPU."""
    layout = Layout.of(a, dim)
    compute = torch.promote_types(a.dtype, torch.float32)
    values = reference.scalars(excess, radius, compute)
    ordinary = ORDINARY_K[0] <= values.k.item() <= ORDINARY_K[1]
    out = layout.empty(a)
    axis = -1 if layout.along_last else 0
    ratio = weight = a.new_empty(0)
    for out_block, a_block, b_block, z_block in _blocks(layout, out, a, b, z):
        u = _sum(a_block, b_block, compute)
        if ratio.shape != u.shape:
            ratio, weight = u.new_empty(u.shape), u.new_empty(u.shape)
        # The plain unit in the compute dtype goes straight to its place.
        target = out_block if step_size is None and out.dtype == compute else ratio
        if not (ordinary and _pool_ordinary(u, values, eps, axis, ratio, weight, target)):
            target = reference.pool(u, values, eps, axis)
        if step_size is not None:
            step = step_size.to(compute)
            target = (
                step * target if z_block is None else torch.lerp(z_block.to(compute), target, step)
            )
        if target is not out_block:
            out_block.copy_(target)
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
    """The kernel contract's backward, on a CPU: the reference's, block by block."""
    layout = Layout.of(a, dim)
    grad_u = layout.empty(a)
    grad_z = a.new_empty(0) if z is None else layout.empty(z)
    out_z = None if z is None else grad_z
    sums: list[Tensor] = [torch.zeros_like(t) for t in (excess, radius)]
    sums.append(torch.zeros_like(excess if step_size is None else step_size))
    axis = -1 if layout.along_last else 0
    for u_block, z_out_block, grad_block, a_block, b_block, z_block in _blocks(
        layout, grad_u, out_z, grad, a, b, z
    ):
        by_u, by_z, *by_scalars = reference.backward(
            grad_block, a_block, b_block, z_block, step_size, excess, radius, eps, axis
        )
        u_block.copy_(by_u)
        if z_out_block is not None:
            z_out_block.copy_(by_z)
        sums = [total + part for total, part in zip(sums, by_scalars, strict=True)]
    return grad_u, grad_z, sums[0], sums[1], sums[2]


def _blocks(layout: Layout, *tensors: Tensor | None) -> Iterator[tuple[Tensor, ...]]:
    """Yield the same block of every tensor: (rows, length), or (length, rows) within an image.

    Views where the tensor is dense in the layout, as results must be; copies elsewhere.
    """
    dense = [t if t is None else layout.dense(t) for t in tensors]
    rows = max(1, BLOCK_ENTRIES // layout.length)
    if layout.along_last:
        flat = [t if t is None else t.view(-1, layout.length) for t in dense]
        for start in range(0, layout.num_rows, rows):
            yield tuple(t if t is None else t[start : start + rows] for t in flat)  # type: ignore[misc]
        return
    images = [t if t is None else t.view(-1, layout.length, layout.inner) for t in dense]
    for index in range(layout.num_rows // max(1, layout.inner)):
        for start in range(0, layout.inner, rows):
            yield tuple(t if t is None else t[index, :, start : start + rows] for t in images)  # type: ignore[misc]


def _sum(a: Tensor, b: Tensor | None, dtype: torch.dtype) -> Tensor:
    return a.to(dtype) if b is None else a.to(dtype) + b


def _pool_ordinary(
    u: Tensor,
    values: reference.Scalars,
    eps: float,
    axis: int,
    ratio: Tensor,
    weight: Tensor,
    out: Tensor,
) -> bool:
    """Write pool_p(u) to `out` in ten passes over the block; False if it holds NaN or infinity."""
    torch.abs(u, out=ratio)
    peak = ratio.amax(axis, keepdim=True)
    if not peak.isfinite().all():
        return False
    peak.masked_fill_(peak == 0, 1)
    torch.log2(ratio.div_(peak), out=weight)
    weight.mul_(values.k).exp2_()  # base 2 takes less than half the time of e
    log_sum = ratio.mul_(weight).sum(axis, keepdim=True).clamp_(min=1).log_()
    size = log_sum * -values.inv_p
    if eps > 0:
        norm = log_sum.mul_(values.inv_q).exp_().mul_(peak)
        size -= values.k * norm.reciprocal_().mul_(eps).log1p_()
    size.exp_().mul_(-values.radius)
    torch.mul(weight.copysign_(u), size, out=out)
    return True
