"""`solve`: certified codes for batches of any size."""

import dataclasses
import math
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
from torch import Tensor

from fwnet.functional import value_of
from fwnet.sets import ConvexSet, LpBall, NonnegativeLpBall
from fwnet.solvers.active_set import ActiveSet
from fwnet.solvers.any_set import (
    any_set_problem,
    attach_set_gradient,
    finished_solution,
    has_projection,
)
from fwnet.solvers.arguments import (
    checked_limits,
    checked_problem,
    checked_start,
    checked_tol,
    present,
    weighted,
)
from fwnet.solvers.coordinate_descent import CoordinateDescent
from fwnet.solvers.cvx import CVX
from fwnet.solvers.dual_newton import DualNewton
from fwnet.solvers.frank_wolfe import FrankWolfe, PairwiseFrankWolfe, ShortStep
from fwnet.solvers.groups import Groups, orthogonal_groups
from fwnet.solvers.homotopy import Homotopy
from fwnet.solvers.implicit import attach_gradient
from fwnet.solvers.interior_point import InteriorPoint
from fwnet.solvers.loop import BindableMethod, Limits, Method, Outcome, Progress, iterate
from fwnet.solvers.pivots import Pivots
from fwnet.solvers.primal_newton import PrimalNewton
from fwnet.solvers.problem import Constrained, Problem
from fwnet.solvers.projected_gradient import ProjectedGradient
from fwnet.solvers.proximal import FISTA, ISTA
from fwnet.solvers.secular import Secular
from fwnet.solvers.solution import Solution, Status, UncertifiedWarning, uncertified
from fwnet.solvers.splitting import ADMM
from fwnet.solvers.threads import for_each, threads_for
from fwnet.solvers.vertices import Vertices

NORM_TOL = 10  # norm_gap may be this many times tol, relative to the norm
NEAREST_TO_1, LARGEST_P = 1e-7, 1e4
LOOSEST_PRIMAL = 1e-4
DIGITS_OF_CODE = 1e-12  # a tolerance below this asks for digits of the code itself
# Newton's steps are found by conjugate gradients for these p, but for less than this tolerance only
# where p is smooth.
NEWTON_ITERATIVE, TIGHTEST_ITERATIVE, SMOOTH = (1.0001, 12.0), 5e-14, (1.12, 2.0)
NONNEGATIVE = (1.05, 1.9)  # p of a `NonnegativeLpBall` for which the dual method is used
CPU_ENTRIES, CPU_MATRIX_ENTRIES = 1 << 18, 1 << 21
FEWEST_ROWS = 64  # per block, however wide: fewer would not keep the machine busy
# Between operators only one thread runs: t threads pay where each has t times as many entries.
ENTRIES_PER_THREAD = 1 << 15
GPU_ENTRIES, GPU_MATRIX_ENTRIES = 1 << 27, 1 << 28


def solved_exponent(p: float) -> float:
    """Return the p that is solved for: p itself, or 1 or ∞ where powers would lose their digits."""
    if p - 1 < NEAREST_TO_1:
        return 1.0
    return math.inf if p > LARGEST_P else p


@dataclass(frozen=True)
class Auto(BindableMethod):
    """The fast method for the p of an Lp ball: exchanges, Newton, interior point, a closed form.

    Attributes:
        careful: Whether it is the last try, for rows that the fast method did not certify.
        follows_path: Whether it is the second of three tries, which p = 1 and ∞ have.

    >>> import fwnet, torch
    >>> x, D = torch.randn(10, 5), torch.randn(5, 8)
    >>> fwnet.solve(x, D, fwnet.LpBall(1.3), method=fwnet.solvers.Auto(max_steps=100)).summary()
    {'certified': 10}
    """

    careful: bool = False
    follows_path: bool = False
    max_steps: int = 300  # most p take a few; the path to an extreme p is long

    def bind(self, problem: Problem, tol: float, norm_tol: float) -> Method:
        """Return the method for this p."""
        assert isinstance(problem, Constrained)
        p, radius = solved_exponent(problem.exponent), problem.radius
        if p in (1, math.inf) and self._exchanges(problem):
            white = problem.white.to(problem.dictionary.dtype)
            if p > 1:
                return (ActiveSet if self.follows_path else Vertices)(white, radius)
            return (Homotopy if self.follows_path else Pivots)(white, radius)
        if p in (1, math.inf):
            return InteriorPoint(problem.white, p, radius, tol, norm_tol)
        if p == 2:
            return Secular(problem.white, radius)
        direct = self._steps_directly(p, tol)
        if p < 2:
            if tol < DIGITS_OF_CODE:
                tol **= 1.5  # the error of the code is about the root of its gap
            return DualNewton(problem.white, p, radius, tol, norm_tol, direct)
        # It finds out during the search whether the constraint binds: do not stop before that.
        tol, norm_tol = min(tol, LOOSEST_PRIMAL), min(norm_tol, NORM_TOL * LOOSEST_PRIMAL)
        return PrimalNewton(problem.white, p, radius, tol, norm_tol, direct)

    def _exchanges(self, problem: Constrained) -> bool:
        return problem.factors is None and not self.careful

    def _steps_directly(self, p: float, tol: float) -> bool:
        if self.careful or not NEWTON_ITERATIVE[0] <= p <= NEWTON_ITERATIVE[1]:
            return True
        return tol < TIGHTEST_ITERATIVE and not SMOOTH[0] <= p <= SMOOTH[1]

    def second_try(self, problem: Constrained, dtype: torch.dtype) -> Self | None:
        """Return the method for rows that were not certified in this precision, if there is one."""
        extreme = solved_exponent(problem.exponent) in (1, math.inf)
        if extreme and self._exchanges(problem) and not self.follows_path:
            return dataclasses.replace(self, follows_path=True)
        if dtype == torch.float32 and not self.wants_float64(problem):
            return dataclasses.replace(self, careful=True)
        return None if self.careful else dataclasses.replace(self, careful=True)

    def uses_matrices(self, problem: Problem, tol: float) -> bool:
        """Return True for all but the path, and Newton's method with conjugate gradients."""
        assert isinstance(problem, Constrained)
        if solved_exponent(problem.exponent) == 1 and self._exchanges(problem):
            return False
        return self._steps_directly(problem.exponent, tol)

    def block_size(self, problem: Problem) -> int:
        """Return 4 for p = 1, whose steps are many small operations."""
        assert isinstance(problem, Constrained)
        one = solved_exponent(problem.exponent) == 1 and self._exchanges(problem)
        return 4 if one and not self.follows_path else 1

    def wants_float64(self, problem: Problem) -> bool:
        """Return True for p near 1 and large p, where powers and factorizations lose digits."""
        assert isinstance(problem, Constrained)
        if solved_exponent(problem.exponent) in (1, math.inf) and self._exchanges(problem):
            return False
        return not 1.01 <= problem.exponent <= NEWTON_ITERATIVE[1]


@dataclass(frozen=True)
class NonnegativeNewton(BindableMethod):
    """Dual Newton for a `NonnegativeLpBall` with p in NONNEGATIVE; else projected gradient."""

    max_steps: int = 300

    def bind(self, problem: Problem, tol: float, norm_tol: float) -> Method:
        """Return the method for this p."""
        assert isinstance(problem, Constrained)
        ball = problem.convex_set
        assert isinstance(ball, NonnegativeLpBall)
        p, radius = value_of(ball.p), value_of(ball.radius)
        return DualNewton(problem.white, p, radius, tol, norm_tol, nonnegative=True)

    def second_try(self, problem: Constrained, dtype: torch.dtype) -> BindableMethod | None:
        """Return the method for rows whose code is not on the sphere."""
        return ProjectedGradient()


def _method_of(problem: Constrained) -> BindableMethod:
    """Return the method for a set that is not an Lp ball."""
    convex_set = problem.convex_set
    if not has_projection(convex_set, problem.dictionary.shape[1]):
        return FrankWolfe(step_rule=ShortStep())
    if isinstance(convex_set, NonnegativeLpBall) and problem.same_for_all_rows:
        first, last = NONNEGATIVE
        if first <= value_of(convex_set.p) <= last:
            return NonnegativeNewton()
    return ProjectedGradient()


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
    callback: Callable[[Progress], bool | None] | None = None,
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
            solved by accelerated projected gradient, or by Frank-Wolfe if `project` raises
            NotImplementedError. Any optimal code is accepted for them: norm_gap is NaN. The gap is
            relative to ½‖x − Dz₀‖², where z₀ is the point of C nearest to 0.
        tol: A code is certified if its gap is at most tol·½‖x‖² and its norm_gap at most 10·tol of
            its norm. Default 1e-10 in float64, 1e-6 in float32.
        method: "auto", or one of METHODS, or an object such as `FrankWolfe(step_rule=ShortStep())`.
        weights: Weights ≥ 0 of the entries of x, (n,) or (…, n). The objective is then
            ½ Σ weight_i·(x_i − (Dz)_i)². Booleans are a mask: entries of x where it is False are
            treated as missing and may be NaN.
        start: Initial codes, (…, m), for "admm", "ista", "fista" and for sets other
            than Lp balls. Other methods ignore them.
        max_steps: The largest number of steps per row (default: the method's own limit).
        time_limit: The largest number of seconds (default: none). Unfinished rows have the status
            TIME_LIMIT.
        callback: Called with a `Progress` after every step, on a CPU also from other threads, one
            at a time. Return True to stop the search.
        warn: Whether an `UncertifiedWarning` says how many codes of method "auto" are not
            certified, other than by a limit that was given here, and what to do.

    If x, dictionary, or p, radius and other tensors of the set require gradients, the code is
    differentiable in them (once),
    through the optimality conditions. Codes that are not optimal, and codes of rows that are not
    finite, have the gradient 0. Weights have no gradient.

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
        chosen = _method_of(problem)
    limits = checked_limits(chosen, max_steps, time_limit, callback)
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
        if isinstance(convex_set, LpBall):
            solution = solve_in_its_precision(problem, rows, chosen, tol, limits)
        else:
            other, rows, origin = any_set_problem(problem, rows)
            solution = solve_in_its_precision(other, rows, chosen, tol, limits)
            solution = finished_solution(solution, origin)
    if warn and automatic:
        _warn_of_uncertified(solution, step_limit=max_steps is None)
    if _asks_gradient(x, dictionary, convex_set):
        if isinstance(convex_set, LpBall):
            ball = LpBall(solved_exponent(problem.exponent), problem.radius)
            same = dataclasses.replace(problem, convex_set=ball)
            code = attach_gradient(solution, same, x_rows, dictionary, convex_set)
        else:
            code = attach_set_gradient(solution, problem, x_rows, dictionary, convex_set)
        solution = dataclasses.replace(solution, code=code)
    return solution.reshape(x.shape[:-1])


def _warn_of_uncertified(solution: Solution, step_limit: bool) -> None:
    if solution.certified.all():
        return
    reasons = [Status.OPTIMAL, Status.STALLED, *([Status.STEP_LIMIT] if step_limit else [])]
    codes = Counter(solution.status_code.tolist())
    counts = {int(status): codes[status] for status in reasons if codes[status]}
    if counts:
        message = uncertified(counts, len(solution.gap))
        warnings.warn(message, UncertifiedWarning, stacklevel=3)


def solve_in_its_precision(
    problem: Problem, x: Tensor, method: BindableMethod, tol: float, limits: Limits
) -> Solution:
    """Solve in float64 if the method needs it; then again the rows that were not certified."""
    dtype = x.dtype
    if dtype == torch.float32 and method.wants_float64(problem):
        problem, x = problem.to(torch.float64), x.double()
    solution = solve_rows(problem, x, method, tol, limits, dtype)
    if not isinstance(method, Auto | NonnegativeNewton) or not isinstance(problem, Constrained):
        return solution
    done = torch.tensor(
        [Status.CERTIFIED, Status.NOT_FINITE, Status.TIME_LIMIT, Status.STOPPED],
        device=x.device,
        dtype=torch.int8,
    )
    next_method: BindableMethod | None = method.second_try(problem, x.dtype)
    while next_method is not None:
        index = (~torch.isin(solution.status_code, done)).nonzero().squeeze(-1)
        if not len(index):
            break
        shifted = _shifted(limits, len(x) - len(index), len(x), time.monotonic())
        wide = problem.select(index).to(torch.float64)
        again = solve_rows(wide, x[index].double(), next_method, tol, shifted, dtype)
        for field in dataclasses.fields(solution):
            getattr(solution, field.name)[index] = getattr(again, field.name)
        next_method = (
            next_method.second_try(problem, torch.float64)
            if isinstance(next_method, Auto)
            else None
        )
    return solution


def solve_rows(
    problem: Problem,
    x: Tensor,
    method: BindableMethod,
    tol: float,
    limits: Limits,
    dtype: torch.dtype | None = None,
) -> Solution:
    """Solve in blocks that suit the machine, and certify the codes, which are of dtype."""
    count, m = len(x), problem.dictionary.shape[1]
    dtype = dtype or x.dtype
    # Rounding codes to float32 takes part of the tolerance: search for half of it.
    inner = 0.5 * tol if dtype == torch.float32 else tol
    code = x.new_empty(count, m, dtype=dtype)
    binds = torch.empty(count, dtype=torch.bool, device=x.device)
    gap, norm_gap = (x.new_empty(count, dtype=torch.float64) for _ in range(2))
    status = torch.empty(count, dtype=torch.int8, device=x.device)
    num_steps = torch.empty(count, dtype=torch.int32, device=x.device)
    bind = partial(method.bind, tol=inner, norm_tol=NORM_TOL * inner)
    with threads_for(problem.dictionary):
        groups = _groups(problem, method, bind)
        shared = bind(problem) if problem.same_for_all_rows and groups is None else None
    side_by_side = x.device.type == "cpu" and method.frees_python()
    most_threads = max(1, math.isqrt(count * m // ENTRIES_PER_THREAD)) if side_by_side else 1
    most_rows = _block_rows(problem, method, inner, x.device.type)
    size = _rows_per_block(count, most_rows, most_threads)
    done = [0] * -(-count // size)  # rows of each block
    start, one_at_a_time = time.monotonic(), threading.Lock()

    def search(some: Problem, x: Tensor, limits: Limits) -> Outcome:
        return groups.search(x, limits) if groups else iterate(shared or bind(some), x, limits)

    def solve_block(number: int) -> None:
        def report(progress: Progress) -> bool | None:
            assert limits.callback is not None
            with one_at_a_time:
                done[number] = progress.rows_done
                seconds = time.monotonic() - start
                return limits.callback(Progress(progress.step, sum(done), count, seconds))

        own = limits if limits.callback is None else dataclasses.replace(limits, callback=report)
        rows = slice(number * size, (number + 1) * size)
        part = problem.select(rows)
        block = _solve_block(part, x[rows], search, tol, own, dtype)
        code[rows], gap[rows], norm_gap[rows] = block.code, block.gap, block.norm_gap
        binds[rows], status[rows] = block.binds, block.status_code
        num_steps[rows] = block.num_steps

    for_each(solve_block, range(len(done)), min(torch.get_num_threads(), most_threads))
    return Solution(code, gap, norm_gap, binds, status, num_steps)


def _groups(
    problem: Problem, method: BindableMethod, bind: Callable[[Problem], Method]
) -> Groups | None:
    """Return the groups of atoms that are solved one by one, if there are several."""
    if not isinstance(method, Auto) or not problem.same_for_all_rows:
        return None
    assert isinstance(problem, Constrained)
    newton = 2 < solved_exponent(problem.exponent) < math.inf
    found = orthogonal_groups(problem) if newton else []
    return Groups(problem, found, bind) if found else None


def _solve_block(
    problem: Problem,
    x: Tensor,
    search: Callable[[Problem, Tensor, Limits], Outcome],
    tol: float,
    limits: Limits,
    dtype: torch.dtype,
) -> Solution:
    """Run the loop on the rows that need a search, and certify all codes."""
    finite = x.isfinite().all(-1)
    searched = problem.has_part(torch.where(finite.unsqueeze(-1), x, 0.0))
    everything = bool(searched.all())
    index = slice(None) if everything else searched.nonzero().squeeze(-1)
    code = x.new_zeros(len(x), problem.dictionary.shape[1])
    dual = torch.where(finite.unsqueeze(-1), x, 0.0)
    status = torch.full((len(x),), Status.CERTIFIED, dtype=torch.int8, device=x.device)
    num_steps = torch.zeros(len(x), dtype=torch.int32, device=x.device)
    if len(status[index]):
        outcome = search(problem.select(index), x[index], limits)
        code[index], dual[index] = outcome.code, outcome.dual
        status[index], num_steps[index] = outcome.status, outcome.num_steps
    # Certificates are computed in float64, whatever the precision of the search.
    certificate = problem.to(torch.float64).certify(x.double(), code.double(), dual.double(), dtype)
    gap, norm_gap, norm = certificate.relative_gap, certificate.norm_gap, certificate.norm
    optimal = gap <= tol
    shortest = norm_gap <= NORM_TOL * tol * norm
    gave_up = status != Status.CERTIFIED
    status = torch.where(gave_up, status, int(Status.STALLED))
    status = torch.where(optimal, int(Status.OPTIMAL), status)
    status = torch.where(optimal & shortest, int(Status.CERTIFIED), status)
    status = torch.where(finite, status, int(Status.NOT_FINITE)).to(torch.int8)
    energy = 0.5 * x.double().square().sum(-1)
    return Solution(
        torch.where(finite.unsqueeze(-1), certificate.code, torch.nan),
        torch.where(finite, torch.where(gap > 0, gap * energy, 0.0), torch.nan),
        torch.where(finite, norm_gap, torch.nan),
        certificate.binds,
        status,
        num_steps,
    )


def _block_rows(problem: Problem, method: BindableMethod, tol: float, device: str) -> int:
    """Return the number of rows per block: what fits the cache of a CPU or the memory of a GPU."""
    n, m = problem.dictionary.shape
    entries, matrix_entries = (
        (CPU_ENTRIES, CPU_MATRIX_ENTRIES) if device == "cpu" else (GPU_ENTRIES, GPU_MATRIX_ENTRIES)
    )
    scale = method.block_size(problem) if device == "cpu" else 1
    rows = max(FEWEST_ROWS, scale * entries // max(n, m))
    if scale > 1:  # matrices of the size of the codes' faces
        rows = min(rows, max(FEWEST_ROWS, 16 * matrix_entries // min(n, m) ** 2))
    if problem.factors is not None:
        rows = min(rows, matrix_entries // (n * m))
    elif method.uses_matrices(problem, tol):
        rows = min(rows, matrix_entries // min(n, m) ** 2)
    return max(1, rows)


def _rows_per_block(count: int, most: int, most_threads: int) -> int:
    """Return the size of blocks that are as large as each other, of at most so many rows.

    Their number suits 2, 4 and 8 threads. It does not depend on how many threads there are:
    rounding depends on the block that a row is in.
    """
    number = max(-(-count // most), 2 ** (most_threads.bit_length() - 1))
    if most_threads > 1:
        step = min(8, 2 ** (number - 1).bit_length())
        number = -(-number // step) * step
    return -(-count // number) or 1


def _shifted(limits: Limits, before: int, rows: int, start: float) -> Limits:
    """Make the callback report on all rows instead of those of a block."""
    callback = limits.callback
    if callback is None:
        return limits

    def report(progress: Progress) -> bool | None:
        seconds = time.monotonic() - start
        return callback(Progress(progress.step, before + progress.rows_done, rows, seconds))

    return Limits(limits.max_steps, limits.deadline, report)


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
