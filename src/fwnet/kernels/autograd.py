"""Choose the kernel by device, dtype and installed packages, and join it to autograd.

For debugging, `use_reference()` or the environment variable FWNET_KERNELS=reference forces the
plain operators.
"""

import contextlib
import functools
import importlib.util
import os
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, NoReturn

import torch
from torch import Tensor

from fwnet.hardware import is_exporting
from fwnet.kernels import blocked, reference

_KERNELS: dict[str, ModuleType] = {"reference": reference, "blocked": blocked}
_HAS_TRITON = bool((torch.version.cuda or torch.version.hip) and importlib.util.find_spec("triton"))
if _HAS_TRITON:
    from fwnet.kernels import triton_ops

_force_reference = os.environ.get("FWNET_KERNELS", "") == "reference"


def run(a: Tensor, *others: Any, overwrite_z: bool = False) -> Tensor:
    """Run the forward of the kernel contract with the kernel for a; differentiable.

    overwrite_z: Whether the result may take the place of z; only where nothing needs a gradient.
    """
    if torch.jit.is_tracing() and torch.onnx.is_in_onnx_export():  # type: ignore[attr-defined]
        raise RuntimeError(
            "fwnet exports with torch.onnx.export(..., dynamo=True); the old exporter "
            "(dynamo=False) would write constants"
        )
    *_, dim = others
    if a.ndim and a.shape[dim] == 0:
        return a.clone()
    transformed = not torch.compiler.is_compiling() and _is_transformed(a, *others)
    kernel = "reference" if transformed else select(a, dim)
    if kernel == "blocked" and overwrite_z and not torch.is_grad_enabled():
        return blocked.forward(a, *others, overwrite_z=True)  # type: ignore[misc]
    output: Tensor
    output = (
        triton_ops.forward(a, *others) if kernel == "triton" else Pool.apply(kernel, a, *others)
    )
    return output


def select(u: Tensor, dim: int) -> str:
    """Return the name of the fastest kernel that supports u."""
    compiling = torch.compiler.is_compiling()
    # An exported graph must consist of plain operators.
    if _force_reference or is_exporting() or u.ndim == 0:
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


def _save_inputs(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    """Save (a, b, z, step_size, excess, radius), eps and dim; backward recomputes the rest."""
    *tensors, ctx.eps, ctx.dim = inputs
    ctx.save_for_backward(*tensors)


def _to_inputs(ctx: Any, gradients: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """Order the results of a kernel's backward like the arguments of its forward."""
    _, b, z, step_size, *_ = ctx.saved_tensors
    by_u, by_z, by_p, by_radius, by_step = gradients
    return (
        by_u,
        None if b is None else by_u,
        None if z is None else by_z,
        None if step_size is None else by_step,
        by_p,
        by_radius,
        None,
        None,
    )


def _is_transformed(*arguments: Any) -> bool:
    """Return whether torch.func or a batched gradient is active: only the reference supports it."""
    functorch = torch._C._functorch
    return any(
        functorch.is_functorch_wrapped_tensor(t) or functorch.is_legacy_batchedtensor(t)
        for t in arguments
        if isinstance(t, Tensor)
    )


def refuse_second_derivative(ctx: Any, *grads: Tensor) -> NoReturn:
    """Raise: the backward of every gradient that is an autograd function itself."""
    raise RuntimeError(
        "this operation has no second derivative, but was differentiated twice "
        "(create_graph=True, or a gradient of a gradient)"
    )


class Pool(torch.autograd.Function):
    """The kernel of the given name as an operation; the reference works under vmap too."""

    generate_vmap_rule = True

    @staticmethod
    def forward(  # written out: dynamo takes the first of *arguments for a context
        kernel: str,
        a: Tensor,
        b: Tensor | None,
        z: Tensor | None,
        step_size: Tensor | None,
        excess: Tensor,
        radius: Tensor,
        eps: float,
        dim: int,
    ) -> Tensor:
        output: Tensor = _KERNELS[kernel].forward(a, b, z, step_size, excess, radius, eps, dim)
        return output

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.kernel = inputs[0]
        _save_inputs(ctx, inputs[1:], output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        arguments = (grad, *ctx.saved_tensors, ctx.eps, ctx.dim)
        # Compiled code has no second derivatives, and PyTorch 2.11 drops the gradients of a
        # function inside the backward of another.
        if torch.compiler.is_compiling():
            gradients = _KERNELS[ctx.kernel].backward(*arguments)
        else:
            kernel = "reference" if _is_transformed(grad) else ctx.kernel
            gradients = _PoolBackward.apply(kernel, *arguments)
        return None, *_to_inputs(ctx, gradients)


class _PoolBackward(torch.autograd.Function):
    """The gradient of pool_p as an operation of its own, so that a second derivative raises."""

    generate_vmap_rule = True

    @staticmethod
    def forward(kernel: str, *arguments: Any) -> tuple[Tensor, ...]:
        gradients: tuple[Tensor, ...] = _KERNELS[kernel].backward(*arguments)
        return gradients

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    backward = staticmethod(refuse_second_derivative)


if _HAS_TRITON:

    def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        kernel: Any = reference.backward if _is_transformed(grad) else triton_ops.backward
        return _to_inputs(ctx, kernel(grad, *ctx.saved_tensors, ctx.eps, ctx.dim))

    triton_ops.forward.register_autograd(_differentiate, setup_context=_save_inputs)
    triton_ops.backward.register_autograd(refuse_second_derivative)
