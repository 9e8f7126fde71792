"""The path of codes from radius 0 to c, for p = 1: exact, one entry in or out per step.

With A = Λ^(−1/2)·V (`whitened.py`), the code of ½‖x − Az‖² in a small ball has correlations
Aᵀ(x − Az) of equal magnitude λ where it is not 0, and smaller ones elsewhere. As the ball grows, λ
falls and the entries F that are not 0 move along a straight line,

    dz_F = −G⁻¹ s dλ,      d(Aᵀr) = Aᵀ A_F G⁻¹ s dλ,      G = A_Fᵀ A_F,   s = sign(z_F),

until another correlation reaches λ (its entry comes in), an entry reaches 0 (it goes out), or the
path ends: at ‖z‖₁ = c, or at λ = 0, where z is an exact code of least norm (or fits best). Short
codes need few steps, each with two products with A; G⁻¹ is updated. This is LARS (Efron et al.,
2004; Osborne et al., 2000) for many rows at a time.
"""

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from fwnet.functional import lp_norm
from fwnet.solvers.exchange import exchanged
from fwnet.solvers.rows import RowState
from fwnet.solvers.whitened import Target, Whitened, cholesky_factor, cholesky_solve, dot

NUM_PLACES = 8  # for entries at first; more are added when one is needed


@dataclass(frozen=True)
class PathState(RowState):
    """A point of the path of every row. Entries have places, of which some may be empty."""

    target: Target
    correlation: Tensor  # Aᵀ(x − Az), (rows, m)
    level: Tensor  # λ, (rows, 1)
    norm: Tensor  # ‖z‖₁, (rows, 1)
    index: Tensor  # which entry is in a place, (rows, places); 0 in an empty one
    sign: Tensor  # its sign; 0 in an empty place
    code: Tensor  # its value
    inverse: Tensor  # G⁻¹, (rows, places, places); 0 in empty ones
    present: Tensor  # which entries have a place, (rows, m)
    ended: Tensor  # whether the path has ended, (rows,)


class Homotopy:
    """Codes for p = 1, exact up to rounding.

    Rows whose path does not end well, and rows whose exact code of least L2 norm is in the ball,
    need another method.
    """

    def __init__(self, white: Whitened, radius: float):
        self.white, self.radius = white, radius
        eps = torch.finfo(white.basis.dtype).eps
        # An event so near the end does not matter, and at λ = 0 all come at once.
        self.near_the_end = 1 - 0.1 * eps**0.5
        # A correlation is smaller than λ by this share of it, at least; it may be equal, up to
        # rounding.
        self.tie = 4 * eps
        self.atoms = white.basis / white.metric.sqrt().unsqueeze(-1)  # A, (k, m)
        self.gram = self.atoms.T @ self.atoms

    def init(self, x: Tensor) -> PathState:
        """Start at the code 0; the entry with the largest correlation comes in."""
        target = Target.of(x, self.radius, self.white)
        correlation = (target.x / self.white.metric.sqrt()) @ self.atoms
        level, first = correlation.abs().max(-1, keepdim=True)
        places = x.new_zeros(len(x), NUM_PLACES)
        index = torch.zeros_like(places, dtype=torch.long)
        index[:, :1] = first
        sign, inverse = places.clone(), torch.diag_embed(places)
        sign[:, :1] = correlation.gather(-1, first).sign()
        inverse[:, 0, :1] = 1 / self.gram.diagonal()[first]
        present = torch.zeros_like(correlation, dtype=torch.bool).scatter_(-1, first, True)
        # Where an exact code is known to be in the ball, the path would be long: leave it out.
        ended = lp_norm(target.white.analyze(target.x), 1) <= target.radius.squeeze(-1)
        norm = torch.zeros_like(level)
        return PathState(
            target, correlation, level, norm, index, sign, places, inverse, present, ended
        )

    def step(self, state: PathState, index: int) -> PathState:
        """Move to the next event, and let an entry in or out."""
        change = torch.bmm(state.sign.unsqueeze(-2), state.inverse).squeeze(-2)
        change.mul_(state.sign.abs())  # empty places hold roundings
        by_level = (_dense(state, change) @ self.atoms.T) @ self.atoms
        # The inverse of the distance to each event: the largest comes first.
        least = self.tie * state.level
        enters = (1 - by_level).div_(torch.maximum(state.level - state.correlation, least))
        other = (1 + by_level).div_(torch.maximum(state.level + state.correlation, least))
        torch.maximum(enters, other, out=enters)
        fastest, entering = enters.masked_fill_(state.present, -math.inf).max(-1, keepdim=True)
        leaves = torch.where(state.code != 0, -change / state.code, -math.inf)
        soonest, leaving = leaves.max(-1, keepdim=True)
        rate = dot(state.sign, change)
        to_the_end = torch.minimum((state.target.radius - state.norm) / rate, state.level)
        to_event = 1 / torch.maximum(fastest, soonest).clamp(min=torch.finfo(rate.dtype).tiny)
        ends = ~(to_event < self.near_the_end * to_the_end)
        length = torch.where(ends, to_the_end, to_event)
        moved = dataclasses.replace(
            state,
            correlation=torch.addcmul(state.correlation, by_level, length, value=-1),
            level=state.level - length,
            norm=state.norm + length * rate,
            code=state.code + length * change,
            ended=state.ended | ends.squeeze(-1),
        )
        return self._exchanged(moved, entering, leaving, goes_out=soonest > fastest)

    def finished(self, state: PathState) -> Tensor:
        """Return which paths have ended."""
        return state.ended

    def answer(self, state: PathState) -> tuple[Tensor, Tensor]:
        """Return the code, computed anew for its entries, and the dual vector."""
        target, metric = state.target, self.white.metric
        root = metric.sqrt()
        used = state.sign != 0
        own = self.atoms.T[state.index] * used.unsqueeze(-1)  # (rows, places, k)
        gram = own @ own.mT
        gram.diagonal(dim1=-2, dim2=-1).add_((~used).to(gram.dtype))
        factor = cholesky_factor(gram)
        right = torch.stack([(own @ (target.x / root).unsqueeze(-1)).squeeze(-1), state.sign], -1)
        solved = cholesky_solve(factor, right)
        solved = solved + cholesky_solve(factor, right - gram @ solved)  # refine once
        fit, by_level = solved.unbind(-1)
        level = (dot(state.sign, fit) - target.radius) / dot(state.sign, by_level)
        binds = level > 0
        values = fit - level.clamp(min=0) * by_level
        same_face = (values * state.sign >= 0).all(-1, keepdim=True)
        code = _dense(state, torch.where(same_face & state.ended[:, None], values, state.code))
        residual = (target.x - target.white.synthesize(code)) / metric
        # An exact code has no residual: there the last direction of the path is the dual vector.
        direction = (by_level.unsqueeze(-2) @ own).squeeze(-2) / root
        return target.answer(code, torch.where(binds, residual, direction))

    def _exchanged(
        self, state: PathState, entering: Tensor, leaving: Tensor, goes_out: Tensor
    ) -> PathState:
        """Let an entry of every row out or in, and update G⁻¹; rows that ended stay as they are."""
        if not (state.sign == 0).any(-1).all():
            more = state.sign.shape[-1] // 2
            state = dataclasses.replace(
                state,
                index=pad(state.index, (0, more)),
                sign=pad(state.sign, (0, more)),
                code=pad(state.code, (0, more)),
                inverse=pad(state.inverse, (0, more, 0, more)),
            )
        stays = state.ended.unsqueeze(-1)
        goes_out, comes_in = goes_out & ~stays, ~goes_out & ~stays
        empty = (state.sign == 0).to(torch.uint8).argmax(-1, keepdim=True)
        place = torch.where(goes_out, leaving, empty)
        here = torch.arange(state.sign.shape[-1], device=place.device) == place
        inverse, _ = exchanged(
            state.inverse,
            self.gram,
            state.index,
            state.sign != 0,
            place,
            entering,
            goes_out,
            comes_in,
        )
        old = state.index.gather(-1, place)
        which = torch.where(comes_in, entering, old)
        there = torch.where(comes_in, True, state.present.gather(-1, which) & ~goes_out)
        sign = torch.where(comes_in, state.correlation.gather(-1, entering).sign(), 0.0)
        return dataclasses.replace(
            state,
            index=state.index.scatter(-1, place, torch.where(comes_in, entering, 0)),
            sign=state.sign.scatter(-1, place, sign),
            code=torch.where(here, 0.0, state.code),
            inverse=inverse,
            present=state.present.scatter(-1, which, there),
        )


def _dense(state: PathState, values: Tensor) -> Tensor:
    """Return the vector of all entries, (rows, m), for the values of those in places."""
    return torch.zeros_like(state.correlation).scatter_add_(-1, state.index, values)
