"""The coding problems, and the certificates of their codes.

    constrained:   min ½‖x − Dz‖²   s.t.  z ∈ C;    of several solutions, the one of least norm
    penalized:     min ½‖x − Dz‖² + λ‖z‖_p

Any dual vector r bounds the minimum from below: by xᵀr − ½‖r‖² − h_C(Dᵀr) for the first problem,
where h_C is the support function, and by xᵀr − ½‖r‖² for the second if ‖Dᵀr‖_q ≤ λ. Any v in the
range of D bounds the gauge of every exact code from below by xᵀv/h_C(Dᵀv). So a pair (z, v) is a
certificate, whichever method found it. It is checked here, on the original data.
"""

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from fwnet.functional import dual_exponent, lp_norm, soft_threshold, value_of
from fwnet.sets import ConvexSet, LpBall
from fwnet.solvers.whitened import Whitened, dot, whiten


@dataclass(frozen=True)
class Certificate:
    """A feasible code with upper bounds on its gap and norm gap, in float64.

    The gap is relative to ½‖x‖², because ‖x‖² may overflow.
    """

    code: Tensor
    relative_gap: Tensor
    norm_gap: Tensor
    norm: Tensor
    binds: Tensor  # whether every exact code is proven to be outside the set


@dataclass(frozen=True)
class Problem(ABC):
    """½‖x − Dz‖² for one dictionary and many rows x.

    `factors`, if given, multiply the entries of Dz; the rows of x are already multiplied by them.
    `start` holds initial codes for the methods that use them.
    """

    dictionary: Tensor  # (n, m)
    factors: Tensor | None = dataclasses.field(default=None, kw_only=True)  # (rows, n)
    start: Tensor | None = dataclasses.field(default=None, kw_only=True)  # (rows, m)
    given_in: torch.dtype | None = dataclasses.field(default=None, kw_only=True)  # the user's dtype

    @cached_property
    def white(self) -> Whitened:
        """The dictionary, or the dictionary of every row, in whitened coordinates."""
        given_in = self.given_in or self.dictionary.dtype
        if self.factors is None:
            return whiten(self.dictionary, given_in)
        return whiten(self.factors.unsqueeze(-1) * self.dictionary, given_in)

    @cached_property
    def gram(self) -> Tensor:
        """DᵀD, without regard to the factors."""
        return self.dictionary.T @ self.dictionary

    @property
    def same_for_all_rows(self) -> bool:
        """Whether there are no factors and no initial codes."""
        return self.factors is None and self.start is None

    def to(self, dtype: torch.dtype) -> Self:
        """Return the same problem in another precision."""
        if dtype == self.dictionary.dtype:
            return self
        other = dataclasses.replace(
            self,
            dictionary=self.dictionary.to(dtype),
            factors=None if self.factors is None else self.factors.to(dtype),
            start=None if self.start is None else self.start.to(dtype),
            given_in=self.given_in or self.dictionary.dtype,
        )
        return self._share_white(other, slice(None))

    def select(self, rows: Tensor | slice) -> Self:
        """Return the problem of the given rows."""
        if self.same_for_all_rows:
            return self
        factors = None if self.factors is None else self.factors[rows]
        start = None if self.start is None else self.start[rows]
        return self._share_white(dataclasses.replace(self, factors=factors, start=start), rows)

    def _share_white(self, other: Self, rows: Tensor | slice) -> Self:
        """Return `other` with the decomposition of this problem, if it was computed already."""
        if "white" in self.__dict__:
            other.__dict__["white"] = self.white.select(rows)
        return other

    def decode(self, z: Tensor) -> Tensor:
        """z ↦ Dz."""
        image = z @ self.dictionary.T
        return image if self.factors is None else self.factors * image

    def correlate(self, r: Tensor) -> Tensor:
        """r ↦ Dᵀr."""
        return (r if self.factors is None else self.factors * r) @ self.dictionary

    def inside(self, x: Tensor) -> Tensor:
        """UUᵀx, the part of x in the range of D: x itself if D has full row rank.

        Singular values of D below its rounding count as zero; the certificate accounts for them.
        """
        if self._all_is_inside(x):
            return x
        white = self.white.to(x.dtype)
        return white.unwhiten(white.whiten(x) / white.metric)

    def has_part(self, x: Tensor) -> Tensor:
        """Return which rows have a part in the range of D, beyond rounding: (rows,)."""
        inside = self.inside(x).abs().amax(-1)
        return inside > 64 * torch.finfo(x.dtype).eps * x.abs().amax(-1)

    def _all_is_inside(self, x: Tensor) -> bool:
        return self.white.shared and self.white.basis.shape[0] == x.shape[-1]

    def _nothing_was_dropped(self) -> bool:
        """Return whether D has full rank, so that no singular value was treated as zero."""
        return self.white.shared and self.white.basis.shape[0] == min(self.dictionary.shape)

    @abstractmethod
    def prox(self, z: Tensor, step_size: Tensor) -> Tensor:
        """Return the proximal operator of the constraint or penalty."""

    @abstractmethod
    def gap(self, x: Tensor, z: Tensor, residual: Tensor) -> Tensor:
        """Return an upper bound on the suboptimality of z, from its residual x − Dz."""

    def solved(self, x: Tensor, z: Tensor, residual: Tensor, tol: float) -> Tensor:
        """Return which gaps are at most tol·½‖x‖²."""
        return self.gap(x, z, residual) <= tol * 0.5 * dot(x, x).squeeze(-1)

    @abstractmethod
    def certify(
        self, x: Tensor, code: Tensor, dual: Tensor, dtype: torch.dtype | None = None
    ) -> Certificate:
        """Return the bounds for a code, given a dual vector of any length.

        The code is rounded to dtype first.
        """


@dataclass(frozen=True)
class Constrained(Problem):
    """min ½‖x − Dz‖²  s.t.  z ∈ C."""

    convex_set: ConvexSet

    @property
    def exponent(self) -> float:
        """The p of an Lp ball; NaN for other sets."""
        return value_of(self.convex_set.p) if isinstance(self.convex_set, LpBall) else math.nan

    @property
    def radius(self) -> float:
        """The factor from gauge to norm: the radius of an Lp ball, 1 for other sets."""
        return value_of(self.convex_set.radius) if isinstance(self.convex_set, LpBall) else 1.0

    def prox(self, z: Tensor, step_size: Tensor) -> Tensor:
        """Return the projection onto C."""
        return self.convex_set.project(z)

    def gap(self, x: Tensor, z: Tensor, residual: Tensor) -> Tensor:
        """½‖r‖² − (xᵀr − h_C(Dᵀr))₊²/(2‖r‖²): the Frank-Wolfe gap, for the best multiple of r."""
        support = self.convex_set.support(self.correlate(residual)).unsqueeze(-1)
        size = dot(residual, residual)
        margin = (dot(x, residual) - support).clamp(min=0)
        return (0.5 * (size - margin.square() / _positive(size))).squeeze(-1)

    def certify(
        self, x: Tensor, code: Tensor, dual: Tensor, dtype: torch.dtype | None = None
    ) -> Certificate:
        """Scale z into C and compute the bounds from v.

        The part of x outside the range of D adds the same constant to every objective, so it is
        left out. The dual vector is t·v with the best t ≥ 0. If singular values of D were treated
        as zero, h_C(Dᵀ(x − UUᵀx)) bounds their effect. Everything is computed in units of the
        largest entry of the row, so that no square overflows.
        """
        unit = _peak(x)
        code, gauge = self._into_set(code, dtype)
        all_of_x = x / unit
        energy = 0.5 * dot(all_of_x, all_of_x)
        x, v = self.inside(all_of_x), self.inside(dual / _peak(dual))
        missing = x - self.decode(code.to(x.dtype)) / unit
        xv = dot(x, v)
        reach = self.convex_set.support(self.correlate(v)).unsqueeze(-1)
        margin = (xv - reach / unit).clamp(min=0)
        gap = 0.5 * dot(missing, missing) - 0.5 * margin.square() / _positive(dot(v, v))
        if not self._all_is_inside(x) and not self._nothing_was_dropped():
            outside = self.correlate(all_of_x - x)
            gap = gap.clamp(min=0) + self.convex_set.support(outside).unsqueeze(-1) / unit
        bound = torch.where(reach > 0, unit * (xv / _positive(reach)), 0.0).squeeze(-1)
        norm = gauge.double() * self.radius
        least = bound.clamp(0, 1).double() * self.radius
        relative = (gap.clamp(min=0) / _positive(energy)).squeeze(-1).double()
        return Certificate(code, relative, (norm - least).clamp(min=0), norm, bound > 1)

    def _into_set(self, code: Tensor, dtype: torch.dtype | None) -> tuple[Tensor, Tensor]:
        """Return the code scaled into C, so that it stays there when rounded, and its gauge."""
        gauge = self.convex_set.gauge(code)
        margin_of_rounding = 0.0
        if dtype is not None and dtype != code.dtype:
            margin_of_rounding = 2 * torch.finfo(dtype).eps
        shrink = (gauge * (1 + margin_of_rounding)).clamp(min=1)
        code = torch.where((shrink > 1).unsqueeze(-1), code / shrink.unsqueeze(-1), code)
        return (code if dtype is None else code.to(dtype)), gauge / shrink


@dataclass(frozen=True)
class Penalized(Problem):
    """min ½‖x − Dz‖² + λ‖z‖_p."""

    exponent: float  # p
    penalty: float

    def prox(self, z: Tensor, step_size: Tensor) -> Tensor:
        """Return the soft threshold of z, for p = 1."""
        return soft_threshold(z, step_size * self.penalty)

    def gap(self, x: Tensor, z: Tensor, residual: Tensor) -> Tensor:
        """Return the primal minus the dual objective."""
        primal = 0.5 * residual.square().sum(-1) + self.penalty * lp_norm(z, self.exponent)
        return primal - self._reached(x, residual, self.penalty).squeeze(-1)

    def certify(
        self, x: Tensor, code: Tensor, dual: Tensor, dtype: torch.dtype | None = None
    ) -> Certificate:
        """Compute the gap from the best multiple of v; the norm gap is 0 by convention."""
        unit = _peak(x)
        x = x / unit
        v = dual / _peak(dual)
        code = code if dtype is None else code.to(dtype)
        wide = code.to(x.dtype)
        missing = x - self.decode(wide) / unit
        norm = lp_norm(wide, self.exponent).unsqueeze(-1)
        penalty = self.penalty / unit
        primal = 0.5 * dot(missing, missing) + penalty * (norm / unit)
        gap = (primal - self._reached(x, v, penalty)).clamp(min=0) / _positive(0.5 * dot(x, x))
        relative = gap.squeeze(-1).double()
        zeros, no = torch.zeros_like(relative), torch.zeros_like(relative, dtype=torch.bool)
        return Certificate(code, relative, zeros, norm.squeeze(-1).double(), no)

    def _reached(self, x: Tensor, r: Tensor, penalty: float | Tensor) -> Tensor:
        """max_t t·xᵀr − ½t²‖r‖² over the t ≥ 0 with ‖Dᵀ(tr)‖_q ≤ λ."""
        size = _positive(dot(r, r))
        dual_norm = lp_norm(self.correlate(r), dual_exponent(self.exponent)).unsqueeze(-1)
        t = (dot(x, r) / size).clamp(min=0)
        t = torch.where(t * dual_norm > penalty, penalty / _positive(dual_norm), t)
        return t * dot(x, r) - 0.5 * t.square() * size


def _peak(rows: Tensor) -> Tensor:
    return _positive(rows.abs().amax(-1, keepdim=True))


def _positive(value: Tensor) -> Tensor:
    """Replace 0 by 1 in a divisor whose quotient is not used or is 0."""
    return torch.where(value > 0, value, 1.0)
