"""Forward and backward of pool_p and of the Frank-Wolfe step, differentiable.

The contract of a kernel is that of `reference`. With u = a (+ b) and s = pool_p(u),

    forward(a, b, z, step_size, excess, radius, eps, dim)          -> s,  γ·s  or  (1 − γ)·z + γ·s
    backward(grad, a, b, z, step_size, excess, radius, eps, dim)
                                   -> gradients for u (both a and b), z, p, radius and step_size

where b, z and step_size may be None (the gradient of an absent one is a placeholder),
excess = p − 1, radius and step_size are 0-dim tensors, and every edge case agrees with the
reference. Which kernel runs is chosen in `dispatch`.
"""

from __future__ import annotations

from torch import Tensor

from fwnet.kernels.dispatch import run, select, use_reference

__all__ = ["frank_wolfe_step", "pool", "select", "use_reference"]


def pool(u: Tensor, excess: Tensor, radius: Tensor, eps: float, dim: int) -> Tensor:
    """Evaluate pool_p(u) for p = 1 + excess, differentiable in u, excess and radius.

    Arguments are taken as valid: `fwnet.functional` is where they are checked.
    """
    return run(u, None, None, None, excess, radius, eps, dim)


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
    return run(a, b, z, step_size, excess, radius, eps, dim)
