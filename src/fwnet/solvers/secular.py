"""p = 2 in closed form, up to one number per row.

In whitened coordinates the code is z = Vᵀζ with ζ = x/(1 + λΛ), entry by entry: λ = 0 if ‖x‖ ≤ c,
else the root of ‖ζ(λ)‖ = c. Newton's method on 1/‖ζ(λ)‖, which is concave and nearly linear in λ,
always converges to it from below.
"""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.solvers.rows import RowState
from fwnet.solvers.whitened import Target, Whitened, dot


@dataclass(frozen=True)
class SecularState(RowState):
    """The multiplier of every row, and whether it has converged."""

    target: Target
    multiplier: Tensor  # λ, (rows, 1)
    settled: Tensor  # (rows, 1)


class Secular:
    """Codes for p = 2, up to rounding."""

    def __init__(self, white: Whitened, radius: float):
        self.white, self.radius = white, radius

    def init(self, x: Tensor) -> SecularState:
        """Start at λ = 0, the solution if the exact code of least norm is in the ball."""
        target = Target.of(x, self.radius, self.white.to(x.dtype))
        inside = dot(target.x, target.x) <= target.radius.square()
        return SecularState(target, torch.zeros_like(target.radius), inside)

    def step(self, state: SecularState, index: int) -> SecularState:
        """Take one Newton step for 1/‖ζ(λ)‖ = 1/c."""
        x, metric = state.target.x, state.target.white.metric
        slope = metric / (1 + state.multiplier * metric)
        zeta = x / (1 + state.multiplier * metric)
        peak = zeta.abs().amax(-1, keepdim=True)
        relative = zeta / peak  # its squares are in range for every λ
        size = dot(relative, relative)
        move = size / dot(relative, relative * slope)
        move = move * (peak * size.sqrt() / state.target.radius - 1)
        move = torch.where(state.settled, 0.0, move)
        scale = state.multiplier + 1 / metric.amax(-1, keepdim=True)
        settled = state.settled | (move.abs() <= 8 * torch.finfo(x.dtype).eps * scale)
        return dataclasses.replace(
            state, multiplier=(state.multiplier + move).clamp(min=0), settled=settled
        )

    def finished(self, state: SecularState) -> Tensor:
        """Return which λ have converged."""
        return state.settled.squeeze(-1)

    def answer(self, state: SecularState) -> tuple[Tensor, Tensor]:
        """Return z = Vᵀζ, and ζ, which has the direction of the dual vector λζ."""
        zeta = state.target.x / (1 + state.multiplier * state.target.white.metric)
        return state.target.answer(state.target.white.analyze(zeta), zeta)
