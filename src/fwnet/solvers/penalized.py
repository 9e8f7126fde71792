"""The penalized form of the coding problem: the paper's (4), for every p ≥ 1.

    min_z ½‖x − Dz‖² + λ‖z‖_p

Its solution is that of the constrained problem for one radius c, and λ is then the multiplier of
that constraint, ‖Dᵀ(x − Dz)‖_q, which falls as c grows. So c is found by a bracketing search, row
by row, on the certified codes of the constrained problem, until the gap of the penalized problem
itself is small. (With a factor ½ on the squares, λ is half of the paper's.)
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable

import torch
from torch import Tensor

from fwnet.functional import check_exponent, dual_exponent, lp_norm
from fwnet.sets import LpBall
from fwnet.solvers.arguments import (
    checked_limits,
    checked_problem,
    checked_tol,
    present,
    weighted,
)
from fwnet.solvers.certified import Auto, checked_method, solve_rows
from fwnet.solvers.coordinate_descent import CoordinateDescent
from fwnet.solvers.cvx import CVX
from fwnet.solvers.loop import BindableMethod, Limits, Progress
from fwnet.solvers.problem import Constrained, Penalized
from fwnet.solvers.proximal import FISTA, ISTA
from fwnet.solvers.solution import Solution, Status
from fwnet.solvers.splitting import ADMM

__all__ = ["solve_penalized"]

MAX_SEARCHES = 60
INNER_TOL = 1e-3  # of the tolerance that is asked for


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
    callback: Callable[[Progress], bool | None] | None = None,
) -> Solution:
    """min_z ½‖x − Dz‖² + penalty·‖z‖_p for every row of x, each answer with its certificate.

    The arguments are those of `solve`; "ista", "fista", "admm" and "coordinate-descent" take p = 1
    only. All optimal codes have the same norm here, and norm_gap is NaN. No gradients.
    """
    check_exponent(p)
    if not 0 < penalty < math.inf:
        raise ValueError(f"penalty must be > 0 and finite, got {penalty!r}")
    chosen = checked_method(method)
    if not isinstance(chosen, Auto | CVX) and p != 1:
        raise ValueError(f'method {method!r} takes p = 1 only, got p = {p!r}; use "auto"')
    if not isinstance(chosen, Auto | CVX | ISTA | FISTA | ADMM | CoordinateDescent):
        raise ValueError(f"method {method!r} is for the constrained problem only")
    x, dictionary, weights = checked_problem(x, dictionary, weights)
    x = x.detach()
    tol = checked_tol(tol, x.dtype)
    limits = checked_limits(chosen, max_steps, time_limit, callback)
    n = x.shape[-1]
    rows, dictionary, factors = weighted(x.reshape(-1, n), dictionary.detach(), weights)
    rows = rows if factors is None else present(rows, factors)
    problem = Penalized(dictionary, p, penalty, factors=factors)
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
        if isinstance(chosen, Auto):
            solution = _search_radius(problem.to(torch.float64), rows.double(), chosen, tol, limits)
        else:
            solution = solve_rows(problem, rows, chosen, tol, limits)
    unknown = torch.full_like(solution.gap, torch.nan)
    solution = dataclasses.replace(solution, code=solution.code.to(x.dtype), norm_gap=unknown)
    return solution.reshape(x.shape[:-1])


def _search_radius(
    problem: Penalized, x: Tensor, method: BindableMethod, tol: float, limits: Limits
) -> Solution:
    """Close in on the radius whose multiplier is the penalty, by regula falsi (Illinois)."""
    start, count = time.monotonic(), len(x)
    code = x.new_zeros(count, problem.dictionary.shape[1])
    relative_gap = torch.zeros_like(x[:, 0])
    num_steps = torch.zeros(count, dtype=torch.int32, device=x.device)
    finite = x.isfinite().all(-1)
    q = dual_exponent(problem.p)
    largest = lp_norm(problem.correlate(torch.where(finite.unsqueeze(-1), x, 0.0)), q)
    rows = (
        (finite & (largest > problem.penalty)).nonzero().squeeze(-1)
    )  # the others have the code 0
    stopped = False

    low, at_low = torch.zeros_like(largest[rows]), largest[rows] - problem.penalty
    # Any exact code is long enough: at its norm the multiplier is 0.
    white = problem.select(rows).white
    shortest = white.analyze(white.whiten(x[rows]) / white.scale)
    high = lp_norm(shortest, problem.p)
    at_high = torch.full_like(low, -problem.penalty)
    side = torch.full_like(low, -1, dtype=torch.int8)  # where the last radius was: nowhere yet
    for search in range(MAX_SEARCHES):
        if not len(rows) or stopped:
            break
        radius = (low * at_high - high * at_low) / (at_high - at_low)
        radius = torch.where((radius > low) & (radius < high), radius, 0.5 * (low + high))
        # A row with radius c is a row x/c with radius 1.
        part = problem.select(rows)
        unit_ball = Constrained(
            part.dictionary,
            LpBall(problem.p, 1.0),
            factors=part.factors,
            given_in=part.given_in,
        )
        scaled = x[rows] / radius.unsqueeze(-1)
        quiet = dataclasses.replace(limits, callback=None)
        inner = solve_rows(unit_ball, scaled, method, INNER_TOL * tol, quiet)
        z = inner.code * radius.unsqueeze(-1)
        residual = x[rows] - part.decode(z)
        certificate = part.certify(x[rows], z, residual)
        code[rows], relative_gap[rows] = z, certificate.relative_gap
        num_steps[rows] += inner.num_steps

        excess = lp_norm(part.correlate(residual), q) - problem.penalty
        above = (excess > 0).to(torch.int8)
        again = torch.where(above == side, 0.5, 1.0)  # the end that stays twice counts half
        side, above = above, excess > 0
        at_low = torch.where(above, excess, again * at_low)
        at_high = torch.where(above, again * at_high, excess)
        low, high = torch.where(above, radius, low), torch.where(above, high, radius)
        left = ~(certificate.relative_gap <= tol)  # NaN is left, too
        rows, low, high = rows[left], low[left], high[left]
        at_low, at_high, side = at_low[left], at_high[left], side[left]
        done = Progress(search + 1, count - len(rows), count, time.monotonic() - start)
        stopped = time.monotonic() >= limits.deadline
        stopped |= limits.callback is not None and bool(limits.callback(done))

    status = torch.zeros(count, dtype=torch.int8, device=x.device)
    short = ~(relative_gap <= tol)
    status[short] = int(Status.STALLED)
    if stopped:
        late = time.monotonic() >= limits.deadline
        status[short] = int(Status.TIME_LIMIT if late else Status.STOPPED)
    status[~finite] = int(Status.NOT_FINITE)
    energy = 0.5 * x.square().sum(-1)
    return Solution(
        torch.where(finite.unsqueeze(-1), code, torch.nan),
        torch.where(relative_gap > 0, relative_gap * energy, 0.0),
        torch.zeros_like(energy),
        torch.zeros_like(finite),
        status,
        num_steps,
    )
