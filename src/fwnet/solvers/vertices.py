"""Exact codes of least norm for p = ∞, from vertex to vertex of the dual problem, in float32.

In whitened coordinates (`whitened.py`), with y = Vᵀv, the least norm τ of a code with Vz = x is

    1/τ = min ‖y‖₁  s.t.  xᵀv = 1

which has a solution at a vertex: y_i = 0 for k − 1 entries F. With the rows r_j, and v, of the
inverse of B = (V_F, x), the code of a vertex is

    z_i = τ·sign(y_i)  outside of F,      z_j = −τ·c_j  in F,      c_j = r_jᵀV sign(y)

If some |c_j| > 1, then ‖y‖₁ falls along v − t·sign(c_j)·r_j, up to a weighted median of the t
where entries of y change their signs. The entry whose t that is takes the place of j, and B⁻¹
changes by a matrix of rank one. The j with the largest (|c_j| − 1)/‖r_j‖, the steepest edge, is
taken. If there is none, z is the solution.

The first F comes from Douglas-Rachford splitting, whose iterations cost two products with V each:
take w to the nearest exact code u = w + Vᵀ(x − Vw), reflect it there, q = 2u − w, and go on from
w + β(clip(q, ±τ) − u), with τ such that Σ(|q| − τ)₊ is a constant. F are the entries with the
smallest |q|.

The last vertex is refined in the precision of the rows: B⁻¹ in float32 solves for the errors that
are left. Rows without an exact code in the ball, or with ties, need another method.
"""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.solvers.rows import RowState
from fwnet.solvers.whitened import Target, Whitened, dot

ITERATIONS = 60  # of the splitting
KNOWN_AFTER = (10, 20, 30)  # iterations after which it is tested whether the constraint binds
RELAXATION = 1.9  # β, in (0, 2)
CROWDED = 1.5  # with so many times k entries inside the bounds, no vertex is near
MOST_CHANGES = 16  # of signs in a step
MOST_STEPS = 60
TIE = 2e-5  # |c_j| may exceed 1 by this, which is rounding
REFINEMENTS = 3
# Matrices at a time on a CPU. Small ones stay in the cache. Of several large ones torch finds wrong
# inverses after a call of torch.set_num_threads (pytorch issue 142815).
INVERTED, SMALL = 64, 128


@dataclass(frozen=True)
class VertexState(RowState):
    """A vertex of the dual problem of every row."""

    target: Target
    y: Tensor  # Vᵀv, 0 in F, (rows, m)
    index: Tensor  # F and a place for x, (rows, k)
    inverse: Tensor  # B⁻¹, whose rows are the r_j and v, (rows, k, k)
    squares: Tensor  # ‖r_j‖², (rows, k)
    ended: Tensor  # (rows,)
    steps: int = 0


class Vertices:
    """Exact codes for p = ∞."""

    def __init__(self, white: Whitened, radius: float):
        self.white, self.radius = white, radius
        self._low = white.to(torch.float32)
        self._atoms = self._low.basis.T.contiguous()
        self._wide = self._atoms.double()

    def init(self, x: Tensor) -> VertexState:
        """Split until F is roughly known; go to its vertex."""
        target = Target.of(x, self.radius, self.white.to(x.dtype))
        low = target.x.to(torch.float32)
        q, ended = self._split(low, target.radius.to(torch.float32))
        k = low.shape[-1]
        # The last place is that of x.
        index = q.abs().topk(k, largest=False).indices
        inverse = self._inverse(low, index)
        y = self._low.analyze(inverse[:, -1]).scatter_(-1, index[:, :-1], 0.0)
        squares = inverse.square().sum(-1)
        ended = ended.squeeze(-1) | ~squares.sum(-1).isfinite()
        return VertexState(target, y, index, inverse, squares, ended)

    def step(self, state: VertexState, index: int) -> VertexState:
        """Go to the best vertex along the steepest edge."""
        y, inverse, squares = state.y, state.inverse, state.squares
        sign = y.sign()
        slopes = _times(self._low.synthesize(sign), inverse.mT)
        excess = slopes.abs() - 1
        excess[:, -1] = 0  # not an edge
        leaving = (excess * squares.rsqrt()).argmax(-1, keepdim=True)
        excess = excess.gather(-1, leaving)
        side = -slopes.gather(-1, leaving).sign()
        edge = side * _row(inverse, leaving)
        dy = self._low.analyze(edge).scatter_(-1, state.index[:, :-1], 0.0)
        tiny = torch.finfo(y.dtype).tiny
        rate = (-sign * dy).div_(y.abs().clamp_(min=tiny))
        rates, changes = rate.topk(min(MOST_CHANGES, rate.shape[-1]), -1)
        # Where an entry of y changes its sign, the slope jumps.
        risen = (2 * dy.gather(-1, changes).abs()).cumsum(-1) >= excess
        risen[:, -1] = True
        last = risen.to(torch.uint8).argmax(-1, keepdim=True)
        rate, entering = rates.gather(-1, last), changes.gather(-1, last)
        exact = y.abs().sum(-1, keepdim=True) * state.target.radius >= 1
        moves = (excess > TIE) & (rate > 0) & exact & ~state.ended.unsqueeze(-1)
        length = torch.where(moves, 1 / rate, 0.0)
        atom = self._atoms.index_select(0, entering.squeeze(-1))
        change = _times(atom, inverse.mT).scatter_add_(-1, leaving, -torch.ones_like(excess))
        change *= moves
        new = edge / torch.where(moves, dy.gather(-1, entering), 1.0)
        along = _times(new, inverse.mT)
        squares = squares + change * (change * dot(new, new) - 2 * along)
        squares.scatter_(-1, leaving, torch.where(moves, dot(new, new), 1.0))
        inverse.addcmul_(change.unsqueeze(-1), new.unsqueeze(-2), value=-1)
        left = state.index.gather(-1, leaving)
        y = torch.addcmul(y, dy, length)
        y.scatter_(-1, entering, y.gather(-1, entering) * ~moves)
        y.scatter_add_(-1, left, length * side)
        return dataclasses.replace(
            state,
            y=y,
            index=state.index.scatter(-1, leaving, torch.where(moves, entering, left)),
            squares=squares.clamp_(min=tiny),
            ended=~moves.squeeze(-1),
            steps=index + 1,
        )

    def finished(self, state: VertexState) -> Tensor:
        """Return which rows have no edge to follow, or followed too many."""
        return state.ended | (state.steps >= MOST_STEPS)

    def answer(self, state: VertexState) -> tuple[Tensor, Tensor]:
        """Return the refined code and its dual vector."""
        target, inverse, index = state.target, state.inverse, state.index[:, :-1]
        x, white, low = target.x, target.white, inverse.dtype
        v = inverse[:, -1].to(x.dtype)
        for _ in range(REFINEMENTS):
            error = torch.cat([-white.analyze(v).gather(-1, index), 1 - dot(x, v)], -1)
            v = v + _times(error.to(low), inverse)
        y = white.analyze(v).scatter_(-1, index, 0.0)
        code = y.sign() / y.abs().sum(-1, keepdim=True)
        for _ in range(REFINEMENTS):
            missing = (x - white.synthesize(code)).to(low)
            code.scatter_add_(-1, index, _times(missing, inverse.mT)[:, :-1].to(x.dtype))
        return target.answer(code, v)

    def _inverse(self, x: Tensor, index: Tensor) -> Tensor:
        """Return B⁻¹, computed in float64."""
        out = x.new_empty(*index.shape, x.shape[-1])
        one_by_one = 1 if x.shape[-1] > SMALL else INVERTED
        count = one_by_one if x.device.type == "cpu" else len(x)
        for first in range(0, len(x), count):
            rows = slice(first, first + count)
            own = self._wide.index_select(0, index[rows].flatten()).view_as(out[rows])
            own[:, -1] = x[rows]
            out[rows] = torch.linalg.inv_ex(own.mT).inverse
        return out

    def _split(self, x: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
        """Return q, and which rows need another method: the constraint binds, or F is too large."""
        white = self._low
        w = white.analyze(x)
        k, m = white.basis.shape
        total = (0.5 * m / k) ** 0.5 * w.abs().sum(-1, keepdim=True)
        level, binds = torch.zeros_like(radius), torch.zeros_like(radius, dtype=torch.bool)
        # Large temporaries are allocated once: allocation costs more than the arithmetic.
        missing, shift, q = torch.empty_like(x), torch.empty_like(w), torch.empty_like(w)
        inside, count = torch.empty_like(w), torch.empty_like(w)
        for iteration in range(ITERATIONS):
            torch.sub(x, white.synthesize(w, out=missing), out=missing)
            torch.add(w, white.analyze(missing, out=shift), alpha=2, out=q)  # u = w + shift
            for _ in range(1 if iteration else 10):
                beyond = torch.sub(torch.abs(q, out=inside), level, out=inside).clamp_(min=0)
                excess = beyond.sum(-1, keepdim=True) - total
                number = torch.sign(beyond, out=count).sum(-1, keepdim=True)
                level = level + excess / number.clamp_(min=1)
            level.clamp_(min=0)
            torch.clamp(q, -level, level, out=inside)
            if iteration in KNOWN_AFTER:
                v = white.synthesize(q - inside)
                norm = white.analyze(v).abs().sum(-1, keepdim=True)
                binds |= dot(x, v) > (1 + 1e-5) * radius * norm
                if binds.all():
                    break
            w.lerp_(inside, RELAXATION).sub_(shift, alpha=RELAXATION)
        return q, binds | ((q.abs() < level).sum(-1, keepdim=True) > CROWDED * k)


def _row(matrix: Tensor, index: Tensor) -> Tensor:
    """Return one row of the matrix of every row, which index (rows, 1) says."""
    count, k = matrix.shape[:2]
    first = torch.arange(0, count * k, k, device=index.device)
    return matrix.view(count * k, -1).index_select(0, first + index.squeeze(-1))


def _times(vector: Tensor, matrix: Tensor) -> Tensor:
    """Return vᵀM for every row, which is faster than M times a vector."""
    return torch.bmm(vector.unsqueeze(-2), matrix).squeeze(-2)
