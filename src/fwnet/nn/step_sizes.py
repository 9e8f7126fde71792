"""The step sizes γ of the layers, fixed or learned, and factors of exact ones."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fwnet.checks import check_list, check_number

LARGEST_LOGIT = 6.0  # γ = 1 has no finite logit; learning starts at sigmoid(6) = 0.9975


def harmonic_step_sizes(num_layers: int) -> list[float]:
    """γ_t = 2/(t + 2) for t = 0 … T − 1, the rule of the Frank-Wolfe algorithm.

    >>> import fwnet
    >>> fwnet.nn.harmonic_step_sizes(3)
    [1.0, 0.6666666666666666, 0.5]
    """
    return [2 / (t + 2) for t in range(num_layers)]


class StepSizes(nn.Module):
    """γ_t, one per layer: fixed, or sigmoid(θ_t) with learned θ.

    The state dict holds `logits` (θ) if they are learned and `fixed` if not.

    Args:
        values: The step sizes, or their initial values, each in [0, 1].
        learn: Whether they are parameters (default True).

    >>> import fwnet
    >>> fwnet.nn.StepSizes([0.5, 0.25], learn=False)()
    tensor([0.5000, 0.2500], dtype=torch.float64)
    """

    def __init__(self, values: Sequence[float], *, learn: bool = True) -> None:
        super().__init__()
        check_list("step_sizes", values)
        for value in values:
            check_number("a step size", value, or_tensor=True)
        if not len(values) or not all(0 <= value <= 1 for value in values):
            raise ValueError(f"step_sizes must be numbers in [0, 1], got {list(values)}")
        self.learn = learn
        start = torch.tensor([float(value) for value in values], dtype=torch.float64)
        if learn:
            logits = start.logit().clamp(-LARGEST_LOGIT, LARGEST_LOGIT)
            self.logits = nn.Parameter(logits.to(torch.get_default_dtype()))
        else:
            self.fixed: Tensor
            self.register_buffer("fixed", start)

    def forward(self) -> Tensor:
        """Return the step sizes, of shape (T,)."""
        return self.logits.sigmoid() if self.learn else self.fixed

    def extra_repr(self) -> str:
        """Return the step sizes and whether they are learned."""
        values = ", ".join(f"{value:.3g}" for value in self().tolist())
        return f"{values} {'learned' if self.learn else 'fixed'}"


class StepFactors(nn.Module):
    """a_t, one per layer, learned from 1: the exact step size is multiplied by it.

    >>> import fwnet
    >>> fwnet.nn.StepFactors(2)().tolist()
    [1.0, 1.0]
    """

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.ones(num_layers))

    def forward(self) -> Tensor:
        """Return the factors, of shape (T,)."""
        return self.values

    def extra_repr(self) -> str:
        """Return the factors."""
        return ", ".join(f"{value:.3g}" for value in self.values.tolist())
