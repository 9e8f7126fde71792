"""The Triton kernels as PyTorch operators: layouts and launches.

`fwnet::pool_forward` and `fwnet::pool_backward` are registered with `triton_op`, so that
torch.compile can trace into the kernels. Importing this module requires Triton.
"""

import math
from typing import Any

import torch
import triton
from torch import Tensor
from torch.library import triton_op, wrap_triton

from fwnet.kernels import triton_kernels
from fwnet.kernels.blocked import Layout

MAX_LENGTH = 4096  # the longest row that one program holds in registers
# NVIDIA's fast logarithm and exponential, which the interpreter and other vendors do not have.
FAST = torch.version.cuda is not None and not triton.knobs.runtime.interpret
ENTRIES_PER_WARP = 1024


def _launch(kernel: Any, programs: int, *arguments: Any, **options: Any) -> None:
    # Triton's interpreter, which tests use without a GPU, replaces the type of the kernel.
    traceable = wrap_triton(kernel) if isinstance(kernel, triton.JITFunction) else kernel
    with torch.cuda.device_of(arguments[0]):  # Triton launches on the current device
        traceable[(programs,)](*arguments, **options)


def _blocks(layout: Layout, itemsize: int) -> tuple[int, dict[str, int]]:
    """Return the number of programs and their tile: the fastest of many tried on an H200.

    One warp per program needs no barriers. Across channels a wider tile reads longer lines: two
    warps in float32, and one in half precision, where a thread loads more rows at once.
    """
    length = triton.next_power_of_2(layout.length)
    rows = max(1, (1 if layout.along_last else 2) * ENTRIES_PER_WARP // length)
    entries_per_warp = ENTRIES_PER_WARP if layout.along_last or itemsize > 2 else 2048
    if layout.along_last:
        rows = min(rows, triton.next_power_of_2(layout.num_rows))
        programs = triton.cdiv(layout.num_rows, rows)
        even = layout.num_rows % rows == 0
    else:
        rows = min(rows, triton.next_power_of_2(layout.inner))
        programs = (layout.num_rows // layout.inner) * triton.cdiv(layout.inner, rows)
        even = layout.inner % rows == 0
    return programs, {
        "AXIS": 1 if layout.along_last else 0,
        "LENGTH": length,
        "ROWS": rows,
        "EVEN": even and length == layout.length,
        "WIDE": layout.length * layout.inner >= 2**31,
        "FAST": FAST,
        "num_warps": min(8, max(1, length * rows // entries_per_warp)),
    }


def _flags(b: Tensor | None, z: Tensor | None, step: Tensor | None, eps: float) -> dict[str, bool]:
    return {
        "HAS_B": b is not None,
        "HAS_Z": z is not None,
        "HAS_STEP": step is not None,
        "HAS_EPS": eps > 0,
    }


@triton_op("fwnet::pool_forward", mutates_args={})
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
    """The kernel contract's forward, on a GPU."""
    layout = Layout.of(a, dim)
    out = layout.empty(a)
    if a.numel() == 0:
        return out
    tensors = [t if t is None else layout.dense(t) for t in (a, b, z)]
    a, b, z = (t if t is not None else tensors[0] for t in tensors)  # type: ignore[assignment]
    programs, blocks = _blocks(layout, a.element_size())
    _launch(
        triton_kernels.forward_kernel, programs, out, a, b, z,
        excess if step_size is None else step_size, excess, radius,
        layout.length, layout.inner, layout.num_rows, eps, math.log2(eps) if eps else 0.0,
        **blocks, **_flags(tensors[1], tensors[2], step_size, eps),
    )  # fmt: skip
    return out


@triton_op("fwnet::pool_backward", mutates_args={})
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
    """The kernel contract's backward, on a GPU. Sums over programs are deterministic."""
    layout = Layout.of(a, dim)
    grad_u = layout.empty(a)
    grad_z = a.new_empty(0) if z is None else layout.empty(z)
    if a.numel() == 0:
        zeros = [torch.zeros_like(t) for t in (excess, radius, excess)]
        return grad_u, grad_z, zeros[0], zeros[1], zeros[2]
    tensors = [t if t is None else layout.dense(t) for t in (grad, a, b, z)]
    grad, a, b, z = (t if t is not None else tensors[1] for t in tensors)  # type: ignore[assignment]
    programs, blocks = _blocks(layout, a.element_size())
    partial = torch.empty(programs, 3, dtype=torch.float32, device=a.device)
    _launch(
        triton_kernels.backward_kernel, programs, grad_u, grad_z, partial, grad, a, b, z,
        excess if step_size is None else step_size, excess, radius,
        layout.length, layout.inner, layout.num_rows, eps, math.log2(eps) if eps else 0.0,
        **blocks, **_flags(tensors[2], tensors[3], step_size, eps),
    )  # fmt: skip
    by_p, by_radius, by_step = partial.sum(0).unbind()
    step_dtype = excess.dtype if step_size is None else step_size.dtype
    return (
        grad_u,
        grad_z,
        by_p.to(excess.dtype, copy=True),
        by_radius.to(radius.dtype, copy=True),
        by_step.to(step_dtype, copy=True),
    )
