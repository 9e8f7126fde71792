"""The step sizes γ_t as a module: fixed, or learned."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__ = ["StepSizes", "harmonic_step_sizes"]

LARGEST_LOGIT = 6.0  # γ = 1 has no finite logit; sigmoid(6) = 0.9975 is where learning starts


def harmonic_step_sizes(num_layers: int) -> list[float]:
    """γ_t = 2/(t + 2) for t = 0 … T − 1, the rule of the Frank-Wolfe algorithm."""
    return [2 / (t + 2) for t in range(num_layers)]


class StepSizes(nn.Module):
    """γ_t, one a layer: as given, or sigmoid(θ_t) with θ learned from there.

    The state dict holds `logits` (θ) when they are learned and `fixed` when they are not.

    Args:
        values: The step sizes, or those that learning starts from, each in [0, 1].
        learn: Whether they are parameters.
    """

    def __init__(self, values: Sequence[float], *, learn: bool = True) -> None:
        super().__init__()
        if not len(values) or not all(0 <= value <= 1 for value in values):
            raise ValueError(f"step sizes must be in [0, 1], at least one, got {list(values)}")
        self.learn = learn
        start = torch.tensor([float(value) for value in values], dtype=torch.float64)
        if learn:
            logits = start.logit().clamp(-LARGEST_LOGIT, LARGEST_LOGIT)
            self.logits = nn.Parameter(logits.to(torch.get_default_dtype()))
        else:
            self.fixed: Tensor
            self.register_buffer("fixed", start)

    def forward(self) -> Tensor:
        """Return all of them, of shape (T,)."""
        return self.logits.sigmoid() if self.learn else self.fixed

    def extra_repr(self) -> str:
        """Say what they are and whether they move."""
        values = ", ".join(f"{value:.3g}" for value in self().tolist())
        return f"{values} {'learned' if self.learn else 'fixed'}"
