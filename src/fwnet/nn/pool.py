"""pool_p as a layer, with p fixed or learned."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from fwnet.functional import check_eps, check_exponent, check_radius, pool_excess

__all__ = ["PoolP"]


class PoolP(nn.Module):
    """s = pool_p(u) along one axis: `fwnet.pool_p` with a p of its own.

    A learned p is carried as θ = log(p − 1), so that p > 1 always and its digits near 1 are kept.
    The state dict holds `log_excess` (θ) when p is learned and `excess` (p − 1) when it is fixed.

    Args:
        p: The exponent, or the one that learning starts from (then 1 < p < ∞).
        learn_p: Whether p is a parameter.
        bounds: The interval that a learned p stays in, 1 < low < high < ∞. At a bound the gradient
            still acts when it points inward.
        radius: The radius of the ball.
        dim: The axis of a row; 1 pools across the channels of images.
        eps: See `fwnet.pool_p`; image models need it.

    A fixed p = 1 is allowed but blocks learning below it: the unit is then piecewise constant and
    passes no gradient to u. A fixed p = 1.01 is a differentiable stand-in.
    """

    def __init__(
        self,
        p: float = 2.0,
        *,
        learn_p: bool = True,
        bounds: tuple[float, float] = (1.001, 100.0),
        radius: float = 1.0,
        dim: int = -1,
        eps: float = 0.0,
    ) -> None:
        super().__init__()
        check_exponent(p)
        check_radius(radius)
        if any(isinstance(number, Tensor) for number in (p, radius)):
            raise TypeError("p and radius of a layer must be numbers, got a tensor")
        check_eps(eps)
        if eps > 0 and p == 1:
            raise ValueError("eps must be 0 at p = 1, where eps > 0 makes the unit 0 everywhere")
        low, high = bounds
        if learn_p and not 1 < low < high < math.inf:
            raise ValueError(f"bounds must satisfy 1 < low < high < inf, got {bounds}")
        if learn_p and not low <= p <= high:
            raise ValueError(f"a learned p must start within its bounds {bounds}, got {p}")
        self.learn_p, self.bounds = learn_p, (float(low), float(high))
        self.radius, self.dim, self.eps = float(radius), dim, float(eps)
        if learn_p:
            self.log_excess = nn.Parameter(torch.tensor(math.log(p - 1)))
        else:
            self.excess: Tensor
            self.register_buffer("excess", torch.tensor(float(p) - 1))

    @property
    def p(self) -> Tensor:
        """The exponent as a 0-dim tensor, attached to the graph when it is learned."""
        return 1 + self._excess()

    def forward(self, u: Tensor) -> Tensor:
        """Return pool_p(u), of the shape and dtype of u."""
        return pool_excess(u, self._excess(), self.radius, self.dim, self.eps)

    def extra_repr(self) -> str:
        """Say everything that the layer is in one line."""
        low, high = self.bounds
        how = f"learned in [{low:g}, {high:g}]" if self.learn_p else "fixed"
        p = self.p.item()
        return f"p={p:.4g} {how}, radius={self.radius:g}, dim={self.dim}, eps={self.eps:g}"

    def _excess(self) -> Tensor:
        if not self.learn_p:
            return self.excess
        low, high = (math.log(bound - 1) for bound in self.bounds)
        theta: Tensor = _KeepWithin.apply(self.log_excess, low, high)
        return theta.exp()


class _KeepWithin(torch.autograd.Function):
    """clamp(θ, low, high) whose gradient at a bound is dropped only where descent would leave it.

    The gradient of `torch.clamp` is 0 outside the bounds: a θ that crossed one by a single step
    would stay there for good.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(theta: Tensor, low: float, high: float) -> Tensor:
        return theta.clamp(low, high)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        theta, ctx.low, ctx.high = inputs
        ctx.save_for_backward(theta)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (theta,) = ctx.saved_tensors
        outward = ((theta <= ctx.low) & (grad > 0)) | ((theta >= ctx.high) & (grad < 0))
        return torch.where(outward, 0.0, grad), None, None
