"""A fixed or learned exponent p."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fwnet.functional import check_exponent


class Exponent(nn.Module):
    """p = 1 + exp(θ), where θ = log(p − 1) is learned: p > 1 always, and is precise near 1.

    The state dict holds `log_excess` (θ) if p is learned and `fixed_excess` (p − 1) if not.

    Args:
        p: The exponent, or its initial value if it is learned (then 1 < p < ∞).
        learn_p: Whether p is a parameter (default True).
        bounds: The interval of a learned p, 1 < low < high < ∞. At a bound only gradients that
            would leave the interval are dropped.

    >>> import fwnet
    >>> exponent = fwnet.nn.Exponent(1.5)
    >>> round(exponent.p.item(), 4), exponent.log_excess.requires_grad
    (1.5, True)
    """

    def __init__(
        self, p: float, *, learn_p: bool = True, bounds: Sequence[float] = (1.001, 100.0)
    ) -> None:
        super().__init__()
        check_exponent(p)
        check_plain("p", p)
        low, high = bounds
        if learn_p and not 1 < low < high < math.inf:
            raise ValueError(f"bounds must satisfy 1 < low < high < inf, got {bounds}")
        if learn_p and not low <= p <= high:
            raise ValueError(
                f"p must start within bounds {bounds} if it is learned, got {p}; or learn_p=False"
            )
        self.learn_p, self.bounds = learn_p, (float(low), float(high))
        if learn_p:
            self.log_excess = nn.Parameter(torch.tensor(math.log(p - 1)))
        else:
            self.fixed_excess: Tensor
            self.register_buffer("fixed_excess", torch.tensor(p - 1, dtype=torch.float64))

    @property
    def excess(self) -> Tensor:
        """p − 1 as a 0-dim tensor, differentiable if p is learned."""
        if not self.learn_p:
            return self.fixed_excess
        low, high = (math.log(bound - 1) for bound in self.bounds)
        theta: Tensor = _KeepWithin.apply(self.log_excess, low, high)
        return theta.exp()

    @property
    def p(self) -> Tensor:
        """The exponent as a 0-dim tensor, differentiable if it is learned."""
        return 1 + self.excess

    def extra_repr(self) -> str:
        """Return p and whether it is learned."""
        low, high = self.bounds
        how = f"learned in [{low:g}, {high:g}]" if self.learn_p else "fixed"
        return f"p={self.p.item():.4g} {how}"


def check_plain(name: str, number: object) -> None:
    """Raise for a tensor: a layer takes plain numbers."""
    if isinstance(number, Tensor):
        raise TypeError(f"{name} must be a number, got a tensor")


class _KeepWithin(torch.autograd.Function):
    """clamp(θ, low, high) that drops a gradient only if descent would leave the bounds.

    The gradient of `torch.clamp` is 0 outside the bounds: a θ that crossed one could never return.
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


def check_eps_fits(eps: float, p: float) -> None:
    """Raise for eps > 0 at p = 1, where the unit would be 0 everywhere."""
    if eps > 0 and p == 1:
        raise ValueError(
            f"eps must be 0 at p = 1, where eps > 0 makes the unit 0 everywhere, got eps = {eps!r}"
        )
