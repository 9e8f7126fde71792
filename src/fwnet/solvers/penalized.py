"""The penalized form of the coding problem: the paper's (4), for every p ≥ 1.

    min_z ½‖x − Dz‖² + λ‖z‖_p

Its solution solves the constrained problem for some radius c, and λ is then the multiplier of the
constraint, ‖Dᵀ(x − Dz)‖_q, which decreases as c grows. So c is found by a bracketing search for
every row, on certified codes of the constrained problem, until the gap of the penalized problem is
small. (Because of the factor ½ on the squares, λ is half of the paper's.)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.checks import check_number
from fwnet.functional import check_exponent, dual_exponent, lp_norm
from fwnet.sets import LpBall
from fwnet.solvers.arguments import (
    checked_limits,
    checked_problem,
    checked_tol,
    present,
    weighted,
)
from fwnet.solvers.auto import Auto
from fwnet.solvers.blocks import solve_in_its_precision, solve_rows
from fwnet.solvers.certified import checked_method, warn_of_uncertified
from fwnet.solvers.coordinate_descent import CoordinateDescent
from fwnet.solvers.cvx import CVX
from fwnet.solvers.loop import BindableMethod, Limits, SolveProgress
from fwnet.solvers.problem import Constrained, Penalized, Problem
from fwnet.solvers.proximal import FISTA, ISTA
from fwnet.solvers.rows import RowState
from fwnet.solvers.solution import Solution
from fwnet.solvers.splitting import ADMM

INNER_TOL = 1e-3  # tolerance of the constrained codes, relative to the requested one


def solve_penalized(
    x: Tensor,
    dictionary: Tensor | None,
    penalty: float,
    p: float = 1.0,
    *,
    tol: float | None = None,
    method: str | BindableMethod = "auto",
    weights: Tensor | None = None,
    max_steps: int | None = None,
    time_limit: float | None = None,
    callback: Callable[[SolveProgress], bool | None] | None = None,
    warn: bool = True,
) -> Solution:
    """min_z ½‖x − Dz‖² + penalty·‖z‖_p for every row of x, each code with its certificate.

    The arguments are those of `solve`, without `start`. A step of "auto" is one radius per row.
    "ista", "fista", "admm" and "coordinate-descent" support p = 1 only. All optimal codes have the
    same norm here, so norm_gap is NaN. The codes have no gradients.

    >>> import fwnet, torch
    >>> D = torch.nn.functional.normalize(torch.randn(20, 40, dtype=torch.float64), dim=0)
    >>> x = torch.randn(3, 20, dtype=torch.float64)
    >>> solution = fwnet.solvers.solve_penalized(x, D, penalty=0.5, p=1.0)
    >>> solution.summary(), bool((solution.code == 0).any())
    ({'certified': 3}, True)
    """
    check_exponent(p)
    check_number("penalty", penalty)
    if not 0 < penalty < math.inf:
        raise ValueError(f"penalty must be > 0 and finite, got {penalty!r}")
    chosen = checked_method(method)
    if not isinstance(chosen, Auto | CVX) and p != 1:
        raise ValueError(f'method {method!r} needs p = 1, got p = {p!r}; use "auto"')
    if not isinstance(chosen, Auto | CVX | ISTA | FISTA | ADMM | CoordinateDescent):
        raise ValueError(f"method {method!r} is for the constrained problem only")
    if isinstance(chosen, Auto):
        chosen = RadiusSearch()
    x, dictionary, weights = checked_problem(x, dictionary, weights)
    x = x.detach()
    tol = checked_tol(tol, x.dtype)
    limits = checked_limits(chosen, max_steps, time_limit, callback)
    n = x.shape[-1]
    rows, dictionary, factors = weighted(x.reshape(-1, n), dictionary.detach(), weights)
    rows = rows if factors is None else present(rows, factors)
    problem = Penalized(dictionary, p, penalty, factors=factors)
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
        if chosen.wants_float64(problem):
            problem, rows = problem.to(torch.float64), rows.double()
        solution = solve_rows(problem, rows, chosen, tol, limits, x.dtype)
    if warn and isinstance(chosen, RadiusSearch):
        warn_of_uncertified(solution, step_limit=max_steps is None)
    unknown = torch.full_like(solution.gap, torch.nan)
    return dataclasses.replace(solution, norm_gap=unknown).reshape(x.shape[:-1])


@dataclass(frozen=True)
class RadiusState(RowState):
    """The code at the last radius, and the bracket of the radius with both values of the search."""

    problem: Penalized
    x: Tensor
    z: Tensor
    residual: Tensor  # x − Dz
    low: Tensor  # a radius that is too small, (rows, 1)
    high: Tensor  # a radius that is too large
    at_low: Tensor  # the multiplier minus λ at `low`, > 0
    at_high: Tensor  # and at `high`, < 0
    moved: Tensor  # the end that moved last: 1 for low, −1 for high, 0 before the first step


class RadiusSearch(BindableMethod):
    """Find the radius whose multiplier is the penalty, by regula falsi (Illinois)."""

    max_steps = 60

    def bind(self, problem: Problem, tol: float, norm_tol: float) -> _Radii:
        """Return the method for this problem."""
        assert isinstance(problem, Penalized)
        return _Radii(problem, tol)

    def wants_float64(self, problem: Problem) -> bool:
        """Return True: the search compares nearby radii."""
        return True


class _Radii:
    def __init__(self, problem: Penalized, tol: float):
        self.problem, self.tol = problem, tol
        self.inner = Auto()

    def init(self, x: Tensor) -> RadiusState:
        """Start with the code 0, whose radius is too small unless it is optimal."""
        problem, white = self.problem, self.problem.white
        z = x.new_zeros(len(x), problem.dictionary.shape[1])
        # At the norm of an exact code the multiplier is 0.
        exact = white.analyze(white.whiten(x) / white.scale)
        high = lp_norm(exact, problem.exponent).unsqueeze(-1)
        low, at_high = torch.zeros_like(high), torch.full_like(high, -problem.penalty)
        return RadiusState(problem, x, z, x, low, high, _excess(problem, x), at_high, low)

    def step(self, state: RadiusState, index: int) -> RadiusState:
        """Solve the constrained problem at the next radius and shrink the bracket."""
        problem, low, high = state.problem, state.low, state.high
        radius = (low * state.at_high - high * state.at_low) / (state.at_high - state.at_low)
        radius = torch.where((radius > low) & (radius < high), radius, 0.5 * (low + high))
        # A row x with radius c is a row x/c with radius 1.
        unit_ball = Constrained(
            problem.dictionary,
            LpBall(problem.exponent, 1.0),
            factors=problem.factors,
            given_in=problem.given_in,
        )
        limits = Limits(self.inner.max_steps)
        inner = solve_in_its_precision(
            unit_ball, state.x / radius, self.inner, INNER_TOL * self.tol, limits
        )
        z = inner.code * radius
        residual = state.x - problem.decode(z)
        excess = _excess(problem, residual)
        above = excess > 0
        moved = torch.where(above, 1.0, -1.0).to(low)
        again = torch.where(moved == state.moved, 0.5, 1.0).to(
            low
        )  # an end that stays twice counts half
        return RadiusState(
            problem,
            state.x,
            z,
            residual,
            low=torch.where(above, radius, low),
            high=torch.where(above, high, radius),
            at_low=torch.where(above, excess, again * state.at_low),
            at_high=torch.where(above, again * state.at_high, excess),
            moved=moved,
        )

    def finished(self, state: RadiusState) -> Tensor:
        """Return which codes have a small gap."""
        certificate = state.problem.certify(state.x, state.z, state.residual)
        return certificate.relative_gap <= self.tol

    def answer(self, state: RadiusState) -> tuple[Tensor, Tensor]:
        """Return the code and its residual."""
        return state.z, state.residual


def _excess(problem: Penalized, residual: Tensor) -> Tensor:
    """‖Dᵀr‖_q − λ, (rows, 1)."""
    multiplier = lp_norm(problem.correlate(residual), dual_exponent(problem.exponent))
    return multiplier.unsqueeze(-1) - problem.penalty
