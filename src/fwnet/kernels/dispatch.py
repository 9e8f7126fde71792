"""Which kernel runs: chosen here, by device, dtype and what is installed.

`use_reference()` or the environment variable FWNET_KERNELS=reference forces the plain operators,
for debugging.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
from collections.abc import Iterator
from types import ModuleType

import torch
from torch import Tensor

from fwnet.kernels import blocked, reference

__all__ = ["KERNELS", "select", "use_reference"]

KERNELS: dict[str, ModuleType] = {"reference": reference, "blocked": blocked}
if (torch.version.cuda or torch.version.hip) and importlib.util.find_spec("triton"):
    from fwnet.kernels import triton_ops

    KERNELS["triton"] = triton_ops

_force_reference = os.environ.get("FWNET_KERNELS", "") == "reference"


def select(u: Tensor, dim: int) -> str:
    """Name the fastest kernel that is right for u."""
    # An exported graph must consist of plain operators.
    if _force_reference or u.ndim == 0 or torch.compiler.is_exporting():
        return "reference"
    compiling = torch.compiler.is_compiling()
    if u.is_cuda and "triton" in KERNELS:
        fits = u.dtype != torch.float64 and u.shape[dim] <= triton_ops.MAX_LENGTH
        return "triton" if fits and (compiling or _is_recent(u.device)) else "reference"
    # A compiler fuses the plain operators itself; in eager mode blocks keep them in the cache.
    return "blocked" if u.device.type == "cpu" and not compiling else "reference"


@contextlib.contextmanager
def use_reference() -> Iterator[None]:
    """Run the plain operators inside this context, on every device."""
    global _force_reference
    before, _force_reference = _force_reference, True
    try:
        yield
    finally:
        _force_reference = before


@functools.cache
def _is_recent(device: torch.device) -> bool:
    """Tell whether Triton compiles for this GPU."""
    return bool(torch.version.hip) or torch.cuda.get_device_capability(device) >= (8, 0)
