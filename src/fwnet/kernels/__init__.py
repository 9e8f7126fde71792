"""Forward and backward of pool_p, joined to autograd.

The contract of a kernel is that of `reference`. With u = a (+ b) and s = pool_p(u),

    forward(a, b, z, step_size, excess, radius, eps, dim)          -> s,  γ·s  or  (1 − γ)·z + γ·s
    backward(grad, a, b, z, step_size, excess, radius, eps, dim)
                                   -> gradients for u (both a and b), z, p, radius and step_size

where b, z and step_size may be None (the gradient of an absent one is a placeholder),
excess = p − 1, radius and step_size are 0-dim tensors, and every edge case agrees with the
reference. Which kernel runs is chosen in `dispatch`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fwnet.kernels.dispatch import KERNELS, select, use_reference

__all__ = ["frank_wolfe_step", "pool", "use_reference"]


def pool(u: Tensor, excess: Tensor, radius: Tensor, eps: float, dim: int) -> Tensor:
    """Evaluate pool_p(u) for p = 1 + excess, differentiable in u, excess and radius.

    Arguments are taken as valid: `fwnet.functional` is where they are checked.
    """
    return _apply(u, None, None, None, excess, radius, eps, dim)


def frank_wolfe_step(
    z: Tensor | None,
    a: Tensor,
    b: Tensor | None,
    step_size: Tensor,
    excess: Tensor,
    radius: Tensor,
    eps: float,
    dim: int,
) -> Tensor:
    """Evaluate (1 − γ)·z + γ·pool_p(a + b); z = None stands for zeros, b = None for no b."""
    return _apply(a, b, z, step_size, excess, radius, eps, dim)


def _apply(a: Tensor, *others: Any) -> Tensor:
    *_, dim = others
    if a.ndim and a.shape[dim] == 0:
        return a.clone()
    kernel = select(a, dim)
    unit = _Pool if kernel == "reference" else _FusedPool
    output: Tensor = unit.apply(kernel, a, *others)
    return output


class _Pool(torch.autograd.Function):
    """The unit or step; only the inputs are kept, backward recomputes what it needs."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
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
        output: Tensor = KERNELS[kernel].forward(a, b, z, step_size, excess, radius, eps, dim)
        return output

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.kernel, *tensors, ctx.eps, ctx.dim = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        _, b, z, step_size, *_ = ctx.saved_tensors
        by_u, by_z, by_p, by_radius, by_step = _PoolBackward.apply(
            ctx.kernel, grad, *ctx.saved_tensors, ctx.eps, ctx.dim
        )
        return (
            None,
            by_u,
            None if b is None else by_u,
            None if z is None else by_z,
            None if step_size is None else by_step,
            by_p,
            by_radius,
            None,
            None,
        )


class _FusedPool(_Pool):
    """The same through a fused kernel, which has no rule for a further batch axis of its own."""

    generate_vmap_rule = False

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        def plain(*inputs: Any) -> Tensor:
            output: Tensor = _Pool.apply("reference", *inputs[1:])
            return output

        return torch.vmap(plain, in_dims, randomness=info.randomness)(*inputs), 0


class _PoolBackward(torch.autograd.Function):
    """The gradient of pool_p as an operation of its own, so that a second derivative can refuse."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        kernel: str,
        grad: Tensor,
        a: Tensor,
        b: Tensor | None,
        z: Tensor | None,
        step_size: Tensor | None,
        excess: Tensor,
        radius: Tensor,
        eps: float,
        dim: int,
    ) -> tuple[Tensor, ...]:
        output: tuple[Tensor, ...] = KERNELS[kernel].backward(
            grad, a, b, z, step_size, excess, radius, eps, dim
        )
        return output

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> None:
        raise RuntimeError(
            "pool_p has no second derivative: it was differentiated twice "
            "(create_graph=True, or a gradient of a gradient)"
        )
