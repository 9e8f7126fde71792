"""The step sizes γ_t as a module: fixed, or learned."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

LARGEST_LOGIT = 6.0  # γ = 1 has no finite logit; learning starts at sigmoid(6) = 0.9975


def harmonic_step_sizes(num_layers: int) -> list[float]:
    """γ_t = 2/(t + 2) for t = 0 … T − 1, the rule of the Frank-Wolfe algorithm."""
    return [2 / (t + 2) for t in range(num_layers)]


class StepSizes(nn.Module):
    """γ_t, one per layer: fixed, or sigmoid(θ_t) with learned θ.

    The state dict holds `logits` (θ) if they are learned and `fixed` if not.

    Args:
        values: The step sizes, or their initial values, each in [0, 1].
        learn: Whether they are parameters (default True).
    """

    def __init__(self, values: Sequence[float], *, learn: bool = True) -> None:
        super().__init__()
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
