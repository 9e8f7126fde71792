"""Forward and backward of pool_p, joined to autograd; which implementation runs is chosen here.

The contract of a kernel is that of `reference`: `forward` and `backward` take u in float32 or
float64, p − 1 and radius as 0-dim tensors, and agree with the reference on every edge case.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fwnet.kernels import reference

__all__ = ["pool"]


def pool(u: Tensor, excess: Tensor, radius: Tensor, eps: float, dim: int) -> Tensor:
    """Evaluate pool_p(u) for p = 1 + excess, differentiable in u, excess and radius.

    Arguments are taken as valid: `fwnet.functional` is where they are checked.
    """
    if u.ndim and u.shape[dim] == 0:
        return u.clone()
    # Half precision is widened outside the Function, so autograd narrows the gradient again.
    wide = u.to(torch.promote_types(u.dtype, torch.float32))
    output: Tensor = _Pool.apply(wide, excess, radius, eps, dim)
    return output.to(u.dtype)


class _Pool(torch.autograd.Function):
    """s = pool_p(u). Only the inputs are kept: backward recomputes what it needs."""

    generate_vmap_rule = True

    @staticmethod
    def forward(u: Tensor, excess: Tensor, radius: Tensor, eps: float, dim: int) -> Tensor:
        return reference.forward(u, excess, radius, eps, dim)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        u, excess, radius, ctx.eps, ctx.dim = inputs
        ctx.save_for_backward(u, excess, radius)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        u, excess, radius = ctx.saved_tensors
        grads = _PoolBackward.apply(grad, u, excess, radius, ctx.eps, ctx.dim)
        return (*grads, None, None)


class _PoolBackward(torch.autograd.Function):
    """The gradient of pool_p as an operation of its own, so that a second derivative can refuse."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        grad: Tensor, u: Tensor, excess: Tensor, radius: Tensor, eps: float, dim: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        grad_u, grad_excess, grad_radius = reference.backward(grad, u, excess, radius, eps, dim)
        return grad_u, grad_excess.to(excess.dtype), grad_radius.to(radius.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> None:
        raise RuntimeError(
            "pool_p has no second derivative: it was differentiated twice "
            "(create_graph=True, or a gradient of a gradient)"
        )
