"""`solve`: certified codes for batches of any size."""

import dataclasses
import warnings
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

from fwnet.functional import value_of
from fwnet.sets import ConvexSet, LpBall
from fwnet.solvers.any_set import any_set_problem, attach_set_gradient, finished_solution
from fwnet.solvers.arguments import (
    checked_limits,
    checked_problem,
    checked_start,
    checked_tol,
    present,
    weighted,
)
from fwnet.solvers.auto import Auto, method_for_set, solved_exponent
from fwnet.solvers.blocks import solve_in_its_precision
from fwnet.solvers.coordinate_descent import CoordinateDescent
from fwnet.solvers.cvx import CVX
from fwnet.solvers.frank_wolfe import FrankWolfe, PairwiseFrankWolfe
from fwnet.solvers.implicit import attach_gradient
from fwnet.solvers.loop import BindableMethod, SolveProgress
from fwnet.solvers.problem import Constrained
from fwnet.solvers.projected_gradient import ProjectedGradient
from fwnet.solvers.proximal import FISTA, ISTA
from fwnet.solvers.solution import Solution, Status, UncertifiedWarning, uncertified
from fwnet.solvers.splitting import ADMM

METHODS: dict[str, Callable[[], BindableMethod]] = {
    "auto": Auto,
    "frank-wolfe": FrankWolfe,
    "pairwise-frank-wolfe": PairwiseFrankWolfe,
    "projected-gradient": ProjectedGradient,
    "ista": ISTA,
    "fista": FISTA,
    "admm": ADMM,
    "coordinate-descent": CoordinateDescent,
    "cvx": CVX,
}


def solve(
    x: Tensor,
    dictionary: Tensor | None,
    convex_set: ConvexSet,
    *,
    tol: float | None = None,
    method: str | BindableMethod = "auto",
    weights: Tensor | None = None,
    start: Tensor | None = None,
    max_steps: int | None = None,
    time_limit: float | None = None,
    callback: Callable[[SolveProgress], bool | None] | None = None,
    warn: bool = True,
) -> Solution:
    """min_z ½‖x − Dz‖²  s.t.  z ∈ C, for every row of x, each code with its certificate.

    If several codes are optimal, method "auto" returns the one of least norm.

    Args:
        x: Signals, (…, n), float32 or float64. The code has the same dtype and device. A row with
            NaN or infinite entries gets a code of NaN and the status NOT_FINITE.
        dictionary: D of shape (n, m), one atom per column: the paper's convention, the transpose of
            scikit-learn's `components_`. None means the identity.
        convex_set: C: `LpBall(p, radius)` or another of `fwnet.sets`. Other sets than Lp balls are
            solved by ADMM and Newton steps on faces, then by projected gradient steps, or by
            Frank-Wolfe if `project` raises NotImplementedError. Any optimal code is accepted for
            them: norm_gap is NaN. The gap is relative to ½‖x − Dz₀‖², where z₀ is the point of C
            nearest to 0.
        tol: A code is certified if its gap is at most tol·½‖x‖² and its norm_gap at most 10·tol of
            its norm. Default 1e-10 in float64, 1e-6 in float32.
        method: "auto", or one of METHODS, or an object such as `FrankWolfe(step_rule=ShortStep())`.
        weights: Weights ≥ 0 of the entries of x, (n,) or (…, n). The objective is then
            ½ Σ weight_i·(x_i − (Dz)_i)². Booleans are a mask: entries of x where it is False are
            treated as missing and may be NaN.
        start: Initial codes, (…, m), for "admm", "ista", "fista", "projected-gradient" and for
            sets other than Lp balls. Other methods ignore them.
        max_steps: The largest number of steps per row (default: the method's own limit).
        time_limit: The largest number of seconds (default: none). Unfinished rows have the status
            TIME_LIMIT.
        callback: Called with a `SolveProgress` after every step, on a CPU also from other threads,
            one at a time. Return True to stop the search.
        warn: Whether an `UncertifiedWarning` says how many codes of method "auto" are not
            certified, other than by a limit that was given here, and what to do.

    The code is differentiable (once) in x, the dictionary and the tensors of the set, such as p and
    radius, through the optimality conditions. Codes that are not optimal, and codes of rows that
    are not finite, have the gradient 0. Weights have no gradient.

    >>> import fwnet, torch
    >>> D = torch.nn.functional.normalize(torch.randn(50, 100), dim=0)
    >>> x = torch.randn(1000, 50)
    >>> solution = fwnet.solve(x, D, fwnet.LpBall(p=1.3, radius=2.5))
    >>> solution.code.shape, solution.summary()
    (torch.Size([1000, 100]), {'certified': 1000})
    >>> energy = 0.5 * x.square().sum(-1)
    >>> bool((solution.gap <= 1e-6 * energy).all())
    True

    The gradient of a loss of the codes in p and radius:

    >>> p, radius = (torch.tensor(value, requires_grad=True) for value in (1.3, 2.5))
    >>> fwnet.solve(x, D, fwnet.LpBall(p, radius)).code.square().sum().backward()
    >>> bool(p.grad.isfinite() and radius.grad > 0)
    True
    """
    if isinstance(convex_set, type) or not isinstance(convex_set, ConvexSet):
        raise TypeError(f"convex_set must be a ConvexSet such as LpBall(1.3), got {convex_set!r}")
    numbers = convex_set  # the set without gradients, in full precision
    if isinstance(convex_set, LpBall):
        numbers = LpBall(value_of(convex_set.p), value_of(convex_set.radius))
    x, dictionary, weights = checked_problem(x, dictionary, weights)
    chosen = checked_method(method)
    automatic = isinstance(chosen, Auto)
    tol = checked_tol(tol, x.dtype)
    n = x.shape[-1]
    x_rows, dictionary, factors = weighted(x.reshape(-1, n), dictionary, weights)
    rows = x_rows.detach() if factors is None else present(x_rows.detach(), factors)
    begin = checked_start(start, x, dictionary)
    problem = Constrained(dictionary.detach(), numbers, factors=factors, start=begin)
    if automatic and not isinstance(convex_set, LpBall):
        chosen = method_for_set(problem)
    limits = checked_limits(chosen, max_steps, time_limit, callback)
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
        if isinstance(convex_set, LpBall):
            solution = solve_in_its_precision(problem, rows, chosen, tol, limits)
        else:
            other, rows, origin = any_set_problem(problem, rows)
            solution = solve_in_its_precision(other, rows, chosen, tol, limits)
            solution = finished_solution(solution, origin)
    if warn and automatic:
        warn_of_uncertified(solution, step_limit=max_steps is None)
    if _asks_gradient(x, dictionary, convex_set):
        if isinstance(convex_set, LpBall):
            ball = LpBall(solved_exponent(problem.exponent), problem.radius)
            same = dataclasses.replace(problem, convex_set=ball)
            code = attach_gradient(solution, same, x_rows, dictionary, convex_set)
        else:
            code = attach_set_gradient(solution, problem, x_rows, dictionary, convex_set)
        solution = dataclasses.replace(solution, code=code)
    return solution.reshape(x.shape[:-1])


def warn_of_uncertified(solution: Solution, step_limit: bool) -> None:
    """Warn the caller of the caller of codes that are not certified, by no limit of the user."""
    if solution.certified.all():
        return
    reasons = [Status.OPTIMAL, Status.STALLED, *([Status.STEP_LIMIT] if step_limit else [])]
    codes = Counter(solution.status_code.tolist())
    counts = {int(status): codes[status] for status in reasons if codes[status]}
    if counts:
        message = uncertified(counts, len(solution.gap))
        warnings.warn(message, UncertifiedWarning, stacklevel=3)


def _asks_gradient(x: Tensor, dictionary: Tensor, convex_set: ConvexSet) -> bool:
    asking = [x, dictionary]
    asking += [
        value for value in getattr(convex_set, "__dict__", {}).values() if isinstance(value, Tensor)
    ]
    return torch.is_grad_enabled() and any(value.requires_grad for value in asking)


def checked_method(method: str | BindableMethod) -> BindableMethod:
    """Return the method of this name, or the given object."""
    if isinstance(method, str):
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
        return METHODS[method]()
    if isinstance(method, type) or not hasattr(method, "bind"):
        raise TypeError(f"method must be a name or a solver object, got {type(method).__name__}")
    return method
