"""Choose the kernel by device, dtype and installed packages.

For debugging, `use_reference()` or the environment variable FWNET_KERNELS=reference forces the
plain operators.
"""

import contextlib
import functools
import importlib.util
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from fwnet.kernels.autograd import Pool, is_transformed

_HAS_TRITON = bool((torch.version.cuda or torch.version.hip) and importlib.util.find_spec("triton"))
if _HAS_TRITON:
    from fwnet.kernels import triton_ops

_force_reference = os.environ.get("FWNET_KERNELS", "") == "reference"


def run(a: Tensor, *others: Any) -> Tensor:
    """Run the forward of the kernel contract with the kernel for a; differentiable."""
    *_, dim = others
    if a.ndim and a.shape[dim] == 0:
        return a.clone()
    transformed = not torch.compiler.is_compiling() and is_transformed(a, *others)
    kernel = "reference" if transformed else select(a, dim)
    output: Tensor
    output = (
        triton_ops.forward(a, *others) if kernel == "triton" else Pool.apply(kernel, a, *others)
    )
    return output


def select(u: Tensor, dim: int) -> str:
    """Return the name of the fastest kernel that supports u."""
    compiling = torch.compiler.is_compiling()
    # An exported graph must consist of plain operators. (Some versions of dynamo report exporting
    # when they compile.)
    exporting = torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling()
    if _force_reference or exporting or u.ndim == 0:
        return "reference"
    if u.is_cuda and _HAS_TRITON:
        fits = u.dtype != torch.float64 and u.shape[dim] <= triton_ops.MAX_LENGTH
        return "triton" if fits and (compiling or _is_recent(u.device)) else "reference"
    # A compiler fuses the plain operators itself, and modes that trace or fake tensors need them;
    # in eager mode blocks stay in the cache.
    eager = not compiling and torch._C._len_torch_dispatch_stack() == 0
    return "blocked" if u.device.type == "cpu" and eager else "reference"


@contextlib.contextmanager
def use_reference() -> Iterator[None]:
    """Use the plain operators inside this context, on every device."""
    global _force_reference
    before, _force_reference = _force_reference, True
    try:
        yield
    finally:
        _force_reference = before


@functools.cache
def _is_recent(device: torch.device) -> bool:
    """Return whether Triton compiles for this GPU."""
    return bool(torch.version.hip) or torch.cuda.get_device_capability(device) >= (8, 0)
