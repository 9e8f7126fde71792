"""Kernels as autograd functions: what forward saves and backward returns."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

import torch
from torch import Tensor

from fwnet.kernels import blocked, reference

_KERNELS: dict[str, ModuleType] = {"reference": reference, "blocked": blocked}


def save_inputs(ctx: Any, inputs: tuple[Any, ...]) -> None:
    """Save (a, b, z, step_size, excess, radius), eps and dim; backward recomputes the rest."""
    *tensors, ctx.eps, ctx.dim = inputs
    ctx.save_for_backward(*tensors)


def to_inputs(ctx: Any, gradients: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
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


def is_transformed(*arguments: Any) -> bool:
    """Return whether torch.func or a batched gradient is active: only the reference supports it."""
    return any(isinstance(t, Tensor) and _is_wrapped(t) for t in arguments)


def _is_wrapped(t: Tensor) -> bool:
    functorch = torch._C._functorch
    return functorch.is_functorch_wrapped_tensor(t) or functorch.is_legacy_batchedtensor(t)


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
        save_inputs(ctx, inputs[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        arguments = (grad, *ctx.saved_tensors, ctx.eps, ctx.dim)
        # Compiled code has no second derivatives, and PyTorch 2.11 drops the gradients of a
        # function inside the backward of another.
        if torch.compiler.is_compiling():
            gradients = _KERNELS[ctx.kernel].backward(*arguments)
        else:
            kernel = "reference" if is_transformed(grad) else ctx.kernel
            gradients = _PoolBackward.apply(kernel, *arguments)
        return None, *to_inputs(ctx, gradients)


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
