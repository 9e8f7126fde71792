"""An active-set method for p = ∞: a splitting finds most of the face, exchanges correct the rest.

With A = Λ^(−1/2)·V (`whitened.py`) and y = Aᵀv, the dual problems are

    the constraint binds:     min ½‖v‖² − xᵀv + c‖y‖₁
    an exact code exists:     min ‖y‖₁  s.t.  xᵀv = 1

At a solution y_i = 0 for the entries F where the code is free, |z_i| ≤ τ, and z_i = τ·sign(y_i) for
the others, with τ = c or the least norm. Given F and the signs s of the others, let a = A s, and Π
the projection onto the v with A_Fᵀv = 0. A step goes from v towards the minimum with these signs,

    the constraint binds:     d = Π(x − c·a) − v
    an exact code exists:     d = λ·Πx − Πa,  with λ so that xᵀd = 0

until an entry of y changes its sign: it comes into F. Where none does, the minimum is reached, with
x − Az = v or 0 for z_F = (A_FᵀA_F)⁻¹A_Fᵀ(x − τ·a). Then the entry with the largest |z_i| > τ goes
out of F; without one, z is the solution. The objective falls with every step, so no F comes twice.

The first F comes from Douglas-Rachford splitting, in float32, whose iterations cost two products
with V each: take w to the nearest code u = w + Vᵀσ∘(x − Vw) that fits (σ = 1, or 1/(1 + ρΛ) where
the constraint binds), reflect it there, q = 2u − w, and go on from w + β(clip(q, ±τ) − u). For an
exact code τ is such that Σ(|q| − τ)₊ is a constant. F are the entries with |q| < τ.
"""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.solvers.exchange import exchanged
from fwnet.solvers.rows import RowState
from fwnet.solvers.whitened import Target, Whitened, cholesky_factor, dot

ITERATIONS = 100  # of the splitting
KNOWN_AFTER = (10, 20, 30)  # iterations after which it is tested whether the constraint binds
RELAXATION = 1.9  # β, in (0, 2)
NO_DIRECTION = 1e-9  # a direction so short, relative to Πa, is rounding
MOST_CHANGES = 16  # of signs in a step
MOST_STEPS = 100  # what is left then has ties, and needs another method
TIE = 1e-12  # a code may exceed its bound by this share of it


@dataclass(frozen=True)
class ActiveState(RowState):
    """A dual vector and the set F, whose entries have places, of which some may be empty."""

    target: Target
    x: Tensor  # in the coordinates of A, (rows, k)
    correlation: Tensor  # Aᵀx, (rows, m)
    v: Tensor  # (rows, k)
    y: Tensor  # Aᵀv, 0 in F, (rows, m)
    sign: Tensor  # s, 0 in F, (rows, m)
    index: Tensor  # which entry is in a place, (rows, places); 0 in an empty one
    used: Tensor  # which places are not empty
    inverse: Tensor  # (A_FᵀA_F)⁻¹, (rows, places, places); 0 in empty places
    free: Tensor  # z_F, (rows, places)
    level: Tensor  # τ, (rows, 1)
    binds: Tensor  # (rows, 1)
    ended: Tensor  # (rows,)
    steps: int = 0


class ActiveSet:
    """Codes for p = ∞, exact up to rounding. Rows with ties may need another method."""

    def __init__(self, white: Whitened, radius: float):
        self.white, self.radius = white, radius
        self.root = white.metric.sqrt()
        self.atoms = white.basis / self.root.unsqueeze(-1)  # A, (k, m)
        self.columns = self.atoms.T.contiguous()
        self.gram = self.columns @ self.atoms
        self._low = white.to(torch.float32)

    def init(self, x: Tensor) -> ActiveState:
        """Split until the face is roughly known; project v onto it."""
        target = Target.of(x, self.radius, self.white)
        x = target.x / self.root
        q, level, v, binds = self._split(target)
        places = min(self.atoms.shape)
        near = (q.abs() / level).topk(places, largest=False)
        used = near.values < 1
        used[:, -1:] &= False  # an exact code has at most k − 1 free entries
        index = near.indices * used
        own = self.columns.index_select(0, index.flatten()).view(*index.shape, -1)
        own *= used.unsqueeze(-1)  # (rows, places, k)
        gram = own @ own.mT
        empty = (~used).to(x.dtype)
        gram.diagonal(dim1=-2, dim2=-1).add_(empty)
        inverse = torch.cholesky_inverse(cholesky_factor(gram)).contiguous()
        inverse.diagonal(dim1=-2, dim2=-1).mul_(1 - empty)
        fit = inverse @ (own @ v.unsqueeze(-1))
        v = v - (own.mT @ fit).squeeze(-1)
        y = v @ self.atoms
        sign = y.sign().scatter_reduce_(-1, index, empty.to(y.dtype), "prod")
        y = y * sign.abs()
        free, ended = torch.zeros_like(empty), torch.zeros_like(used[:, 0])
        return ActiveState(
            target, x, x @ self.atoms, v, y, sign, index, used, inverse, free, level, binds, ended
        )

    def step(self, state: ActiveState, index: int) -> ActiveState:
        """Go to the minimum along a direction, and let an entry in or out."""
        state = self._with_known_problem(state)
        d, free, level, slope = self._direction(state)
        dy = (d @ self.atoms).mul_(state.sign.abs())
        length, entering, comes_in, turned = self._search(state, d, dy, slope)
        excess, leaving = (free.abs() * state.used).max(-1, keepdim=True)
        at_minimum = ~comes_in & ~turned
        goes_out = at_minimum & (excess > (1 + TIE) * level)
        empty = ~state.used
        comes_in &= empty.any(-1, keepdim=True)
        ended = state.ended | ~(comes_in | goes_out | turned).squeeze(-1)
        comes_in, goes_out = (event & ~ended.unsqueeze(-1) for event in (comes_in, goes_out))
        place = torch.where(goes_out, leaving, empty.to(torch.uint8).argmax(-1, keepdim=True))
        inverse, _ = exchanged(
            state.inverse, self.gram, state.index, state.used, place, entering, goes_out, comes_in
        )
        y = torch.addcmul(state.y, dy, length)
        sign = torch.where(y * state.sign < 0, -state.sign, state.sign)
        which = torch.where(comes_in, entering, state.index.gather(-1, place))
        new_sign = torch.where(goes_out, free.gather(-1, place).sign(), sign.gather(-1, which))
        stays = (~comes_in).to(y.dtype)
        return dataclasses.replace(
            state,
            v=torch.addcmul(state.v, d, length),
            y=y.scatter(-1, which, stays * y.gather(-1, which)),
            sign=sign.scatter(-1, which, stays * new_sign),
            index=state.index.scatter(-1, place, torch.where(goes_out, 0, which)),
            used=state.used.scatter(-1, place, ~empty.gather(-1, place) & ~goes_out | comes_in),
            inverse=inverse,
            free=free,
            level=level,
            ended=ended,
            steps=index + 1,
        )

    def finished(self, state: ActiveState) -> Tensor:
        """Return which rows have no entry to exchange, or too many."""
        return state.ended | (state.steps >= MOST_STEPS)

    def answer(self, state: ActiveState) -> tuple[Tensor, Tensor]:
        """Return the code and its dual vector."""
        code = (state.level * state.sign).scatter_add(-1, state.index, state.free * state.used)
        return state.target.answer(code, state.v / self.root)

    def _with_known_problem(self, state: ActiveState) -> ActiveState:
        """Move rows whose lower bound exceeds c to the problem whose constraint binds."""
        norm, xv = state.y.abs().sum(-1, keepdim=True), dot(state.x, state.v)
        new = ~state.binds & state.target.binds(xv / norm)
        length = (xv - state.target.radius * norm) / dot(state.v, state.v)
        length = torch.where(new, length, 1.0)
        return dataclasses.replace(
            state, v=state.v * length, y=state.y * length, binds=state.binds | new
        )

    def _direction(self, state: ActiveState) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return d, z_F and τ at the minimum for these signs, and the slope of the objective."""
        x, binds, radius = state.x, state.binds, state.target.radius
        a = state.sign @ self.atoms.T
        correlations = torch.stack([state.correlation, a @ self.atoms], -2)  # (rows, 2, m)
        places = state.index.unsqueeze(-2).expand(-1, 2, -1)
        used = state.used.unsqueeze(-2)  # empty places hold roundings
        fit = (correlations.gather(-1, places) * used) @ state.inverse * used
        image = torch.zeros_like(correlations).scatter_add_(-1, places, fit) @ self.atoms.T
        px, pa = x - image[:, 0], a - image[:, 1]  # Πx and Πa
        xx, xa = dot(x, px), dot(x, pa)
        level = torch.where(binds, radius, xx / xa)
        d = torch.where(binds, px - radius * pa - state.v, px * (xa / xx) - pa)
        # The direction of an exact code is 0, up to rounding, if F has k − 1 entries.
        moves = binds | (dot(d, d) > NO_DIRECTION**2 * dot(pa, pa))
        d = torch.where(moves, d, 0.0)
        slope = torch.where(binds, -dot(d, d), dot(a, d))
        return d, fit[:, 0] - level * fit[:, 1], level, slope

    @staticmethod
    def _search(
        state: ActiveState, d: Tensor, dy: Tensor, slope: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Find the minimum of the objective along d.

        Returns the length of the step; the entry of y that is 0 there; whether there is one, which
        comes into F; and whether, without one, other entries have changed their signs.
        """
        binds = state.binds
        curvature = torch.where(binds, dot(d, d), 0.0)
        tiny = torch.finfo(d.dtype).tiny
        rate = (-state.sign * dy).div_(state.y.abs().clamp_(min=tiny))
        rates, changes = rate.topk(min(MOST_CHANGES, rate.shape[-1]), -1)
        lengths = 1 / rates.clamp(min=tiny)
        # Where an entry of y changes its sign, the slope jumps.
        jumps = 2 * torch.where(binds, state.target.radius, 1.0) * dy.gather(-1, changes).abs()
        jumps = jumps * (rates > 0)
        jumped = jumps.cumsum(-1)
        after = slope + curvature * lengths + jumped
        rises = after >= 0
        rises[:, -1] = True
        last = rises.to(torch.uint8).argmax(-1, keepdim=True)
        length, entering = lengths.gather(-1, last), changes.gather(-1, last)
        before = (after - jumps).gather(-1, last)
        between = binds & (before >= 0)  # the slope is 0 before that change
        comes_in = ~between & (rates.gather(-1, last) > 0)
        risen = (slope + jumped - jumps).gather(-1, last)
        length = torch.where(between, -risen / curvature.clamp(min=tiny), length)
        length = torch.where(comes_in | between, length, 0.0)
        return length, entering, comes_in, between & (last > 0)

    def _split(self, target: Target) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return q, τ, a dual vector in the coordinates of A, and whether the constraint binds."""
        white, metric = self._low, self._low.metric
        x, radius = target.x.to(torch.float32), target.radius.to(torch.float32)
        w = white.analyze(x)
        k, m = white.basis.shape
        total = (0.5 * m / k) ** 0.5 * w.abs().sum(-1, keepdim=True)
        level, stiff = torch.zeros_like(radius), torch.zeros_like(radius)
        share = torch.ones_like(x)
        # Large temporaries are allocated once: allocation costs more than the arithmetic.
        image, u, q = torch.empty_like(x), torch.empty_like(w), torch.empty_like(w)
        beyond, count = torch.empty_like(w), torch.empty_like(w)
        for iteration in range(ITERATIONS):
            torch.sub(x, white.synthesize(w, out=image), out=image).mul_(share)
            white.analyze(image, out=u).add_(w)
            torch.sub(u, w, out=q).add_(u)
            for _ in range(1 if iteration else 10):
                torch.sub(torch.abs(q, out=beyond), level, out=beyond).clamp_(min=0)
                excess = beyond.sum(-1, keepdim=True) - total
                number = torch.sign(beyond, out=count).sum(-1, keepdim=True)
                level = level + excess / number.clamp_(min=1)
            level = torch.where(stiff > 0, radius, level.clamp_(min=0))
            torch.clamp(q, -level, level, out=beyond)
            if iteration in KNOWN_AFTER:
                v = white.synthesize(q - beyond)
                norm = white.analyze(v).abs().sum(-1, keepdim=True)
                binds = (stiff > 0) | (dot(x, v) > (1 + 1e-5) * radius * norm)
                missing = x - white.synthesize(q.clamp(-radius, radius))
                pull = white.analyze(missing / metric).abs().sum(-1, keepdim=True)
                stiff = torch.where(binds, pull / total, 0.0)
                share = 1 / (1 + stiff * metric)
            w.add_(beyond.sub_(u), alpha=RELAXATION)
        q, level = q.to(target.x.dtype), level.to(target.x.dtype)
        inside = q.clamp(-level, level)
        fits = (target.x - self.white.synthesize(inside)) / self.root
        binds = stiff > 0
        v = torch.where(binds, fits, self.white.synthesize(q - inside) * self.root)
        return q, level, v, binds
