"""Codes for p = 1 by exchanges of several entries per step; float32 finds the face.

With A = Λ^(−1/2)·V (`whitened.py`), let F be a set of entries with signs s. The best code on F of
norm c has, with G = A_FᵀA_F,

    z_F = G⁻¹(A_Fᵀx − λs),      λ such that sᵀz_F = c

and is optimal in the ball if no entry of z_F has another sign than s, and no correlation
Aᵀ(x − Az) exceeds λ. A step takes entries of the wrong sign out of F and lets those with large
correlations come in, up to `PER_STEP` in all, and updates G⁻¹. The method is not proven to end, but
does so for nearly all rows, in a few steps; the path of codes (`homotopy.py`) is for the others.

The steps are in float32. The code on the last face is then refined in the precision of the rows:
G⁻¹ in float32 solves for the error that is left.
"""

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from fwnet.functional import lp_norm
from fwnet.solvers.exchange import exchanged, times
from fwnet.solvers.rows import RowState
from fwnet.solvers.whitened import Target, Whitened, dot

PER_STEP = 4  # exchanges
NUM_PLACES = 8  # for entries at first; more are added when they are needed
SHARE = 0.5  # of the largest excess over λ: entries with a smaller one wait
MOST_STEPS = 60
TIE = 1e-5  # a correlation exceeds λ by this share of it
DEPENDENT = 1e-3  # an atom with this share of its square outside the span of F cannot come in
REFINEMENTS = 2
CPU_ENTRIES = 1 << 17
NUM_GROUPS = 8


@dataclass(frozen=True)
class PivotState(RowState):
    """The face of every row, whose entries have places; empty ones hold the atom 0."""

    target: Target
    x: Tensor  # in the coordinates of A, (rows, k)
    low: Tensor  # the same in float32
    correlation: Tensor  # Aᵀx, (rows, m + padding)
    candidates: Tensor  # entries that may come in, (rows, PER_STEP)
    strength: Tensor  # what their correlations exceed λ by; 0 if they should not come in
    new_sign: Tensor  # the signs they would have
    level: Tensor  # λ, (rows, 1)
    index: Tensor  # which entry is in a place, (rows, places)
    count: Tensor  # the number of places that were given away, (rows, 1)
    start: Tensor  # A_Fᵀx, (rows, places)
    sign: Tensor  # s; 0 in an empty place
    code: Tensor  # z_F
    inverse: Tensor  # G⁻¹, (rows, places, places)
    ended: Tensor  # (rows,)
    steps: int = 0


class Pivots:
    """Codes for p = 1 whose constraint binds; other rows need another method."""

    def __init__(self, white: Whitened, radius: float):
        self.white, self.radius = white, radius
        self.root = white.metric.sqrt()
        atoms = white.basis / self.root.unsqueeze(-1)
        self.num_atoms = atoms.shape[1]
        # At least one atom 0 for empty places, and groups of equal size.
        padding = NUM_GROUPS - self.num_atoms % NUM_GROUPS
        self.atoms = pad(atoms, (0, padding))
        self.low = self.atoms.to(torch.float32)
        self.gram = self.low.T @ self.low
        size = self.low.shape[1] // NUM_GROUPS
        self.first = torch.arange(0, self.low.shape[1], size, device=atoms.device)

    def init(self, x: Tensor) -> PivotState:
        """Start at the code 0."""
        target = Target.of(x, self.radius, self.white)
        x = target.x / self.root
        low = x.to(torch.float32)
        correlation = low @ self.low
        exact = (target.x * self.root).to(torch.float32) @ self.low
        in_ball = lp_norm(exact, 1) <= target.radius.squeeze(-1)
        places = low.new_zeros(len(x), NUM_PLACES)
        index = torch.full_like(places, self.num_atoms, dtype=torch.long)
        # A code of norm c changes no correlation by more than this.
        change = target.radius.to(torch.float32) * self.gram.diagonal().amax()
        level = (lp_norm(correlation, math.inf).unsqueeze(-1) - change).clamp(min=0)
        count = torch.zeros_like(index[:, :1])
        inverse = low.new_zeros(len(x), NUM_PLACES, NUM_PLACES)
        chosen = self._candidates(low, index, places, level)
        return PivotState(
            target,
            x,
            low,
            correlation,
            *chosen,
            level,
            index,
            count,
            places,
            places,
            places,
            inverse,
            in_ball,
        )

    def step(self, state: PivotState, index: int) -> PivotState:
        """Exchange entries, and find the code of the new face."""
        state = self._exchange(state)
        fit = times(state.inverse, state.start)
        by_level = times(state.inverse, state.sign)
        radius = state.target.radius.to(torch.float32)
        level = (dot(state.sign, fit) - radius) / dot(state.sign, by_level)
        level = level.clamp(min=0)
        code = fit - level * by_level
        candidates, strength, new_sign = self._candidates(state.low, state.index, code, level)
        right = (code * state.sign >= 0).all(-1) & (strength <= 0).all(-1)
        too_many = (state.count > 2 * len(self.atoms)).squeeze(-1)  # its exchanges go in circles
        ended = state.ended | right | too_many | (index + 1 >= MOST_STEPS)
        return dataclasses.replace(
            state,
            candidates=candidates,
            strength=strength,
            new_sign=new_sign,
            level=level,
            code=code,
            ended=ended,
        )

    def finished(self, state: PivotState) -> Tensor:
        """Return which rows have nothing to exchange, or none of this method's codes."""
        return state.ended

    def answer(self, state: PivotState) -> tuple[Tensor, Tensor]:
        """Return the refined code and its residual."""
        target, sign = state.target, state.sign.to(state.x.dtype)
        code, level = state.code.to(state.x.dtype), state.level.to(state.x.dtype)
        by_level = times(state.inverse, state.sign).to(code.dtype)
        spread = dot(sign, by_level)
        for _ in range(REFINEMENTS):
            residual = state.x - _dense(state, code) @ self.atoms.T
            error = (residual @ self.atoms).gather(-1, state.index) - level * sign
            code = code + times(state.inverse, error.to(torch.float32))
            change = (dot(sign, code) - target.radius) / spread
            code, level = code - change * by_level, level + change
        z = _dense(state, code)
        residual = state.x - z @ self.atoms.T
        return target.answer(z[:, : self.num_atoms], residual / self.root)

    def _candidates(
        self, x: Tensor, index: Tensor, code: Tensor, level: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return for every group the entry with the largest correlation.

        Also what it exceeds λ by, or 0 if it should not come in, and its sign.
        """
        count, m = len(x), self.low.shape[1]
        most, signed = (x.new_empty(count, NUM_GROUPS) for _ in range(2))
        which = index.new_empty(count, NUM_GROUPS)
        chunk = min(count, max(1, CPU_ENTRIES // m)) if x.device.type == "cpu" else count
        buffer, other = (x.new_empty(chunk, m) for _ in range(2))
        grouped = (NUM_GROUPS, m // NUM_GROUPS)
        for first in range(0, count, chunk):
            rows = slice(first, first + chunk)
            size = len(level[rows])
            z, a = buffer[:size], other[:size]
            z.zero_().scatter_(-1, index[rows], code[rows])
            residual = torch.addmm(x[rows], z, self.low.T, alpha=-1)
            correlation = torch.matmul(residual, self.low, out=z)
            torch.abs(correlation, out=a).scatter_(-1, index[rows], 0.0)
            found = torch.max(a.unflatten(-1, grouped), -1)
            most[rows], which[rows] = found.values, found.indices + self.first
            signed[rows] = correlation.gather(-1, which[rows])
        largest = most.amax(-1, keepdim=True)
        wanted = (most > (1 + TIE) * level) & (most - level > SHARE * (largest - level))
        return which, (most - level) * wanted, signed.sign()

    def _exchange(self, state: PivotState) -> PivotState:
        """Let entries of the wrong sign out and the candidates in."""
        places = state.sign.shape[-1]
        if int(state.count.max()) + PER_STEP > places:
            more = max(PER_STEP, places // 2)
            state = dataclasses.replace(
                state,
                index=pad(state.index, (0, more), value=self.num_atoms),
                start=pad(state.start, (0, more)),
                sign=pad(state.sign, (0, more)),
                code=pad(state.code, (0, more)),
                inverse=pad(state.inverse, (0, more, 0, more)),
            )
        index, start, sign, code = state.index, state.start, state.sign, state.code
        inverse, count, strength = state.inverse, state.count, state.strength
        moved = torch.zeros_like(state.ended)
        wanted = (strength > 0).sum(-1) + (code * sign < 0).sum(-1)
        # Rows that want more than the others wait.
        for _ in range(min(PER_STEP, math.ceil(float(wanted.to(code.dtype).mean())))):
            worst, leaving = (code * sign).min(-1, keepdim=True)
            best, which = strength.max(-1, keepdim=True)
            goes_out = worst < 0
            comes_in = (best > 0) & ~goes_out
            strength = strength.scatter(-1, which, best * goes_out)
            entering, new_sign = (t.gather(-1, which) for t in (state.candidates, state.new_sign))
            # The place of a row without an exchange is empty, and stays so.
            place = torch.where(goes_out, leaving, count)
            inverse, comes_in = exchanged(
                inverse, self.gram, index, sign != 0, place, entering, goes_out, comes_in, DEPENDENT
            )
            index = index.scatter(-1, place, torch.where(comes_in, entering, self.num_atoms))
            start = start.scatter(-1, place, state.correlation.gather(-1, entering) * comes_in)
            sign = sign.scatter(-1, place, new_sign * comes_in)
            code = code.scatter(-1, place, 0.0)
            count = count + comes_in
            moved |= (goes_out | comes_in).squeeze(-1)
        return dataclasses.replace(
            state,
            index=index,
            start=start,
            sign=sign,
            code=code,
            inverse=inverse,
            count=count,
            ended=~moved,
        )


def _dense(state: PivotState, values: Tensor) -> Tensor:
    """Return the vector of all entries for the values of those in places."""
    zeros = values.new_zeros(state.correlation.shape)
    return zeros.scatter_(-1, state.index, values)
