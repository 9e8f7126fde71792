"""Rows are solved in blocks that suit the machine, and certified; those that fail, once more."""

import dataclasses
import math
import threading
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from fwnet.solvers.auto import NORM_TOL, Auto, NonnegativeNewton, solved_exponent
from fwnet.solvers.groups import Groups, orthogonal_groups
from fwnet.solvers.loop import BindableMethod, Limits, Method, Outcome, SolveProgress, iterate
from fwnet.solvers.problem import Constrained, Problem
from fwnet.solvers.solution import Solution, Status
from fwnet.solvers.threads import for_each, threads_for

CPU_ENTRIES, CPU_MATRIX_ENTRIES = 1 << 18, 1 << 21
FEWEST_ROWS = 64  # per block, however wide: fewer would not keep the machine busy
# Between operators only one thread runs: t threads pay where each has t times as many entries.
ENTRIES_PER_THREAD = 1 << 15
GPU_ENTRIES, GPU_MATRIX_ENTRIES = 1 << 27, 1 << 28


def solve_in_its_precision(
    problem: Problem, x: Tensor, method: BindableMethod, tol: float, limits: Limits
) -> Solution:
    """Solve in float64 if the method needs it; then again the rows that were not certified."""
    dtype, start = x.dtype, time.monotonic()
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
        if limits.max_steps == method.max_steps:  # the default
            limits = dataclasses.replace(limits, max_steps=next_method.max_steps)
        shifted = _shifted(limits, len(x) - len(index), len(x), start)
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
        if problem.factors is None:
            _ = problem.white  # once, for all blocks
        groups = _groups(problem, method, bind)
        shared = bind(problem) if problem.same_for_all_rows and groups is None else None
    side_by_side = x.device.type == "cpu" and method.frees_python()
    per_thread = ENTRIES_PER_THREAD * math.isqrt(method.block_size(problem))
    most_threads = max(1, math.isqrt(count * m // per_thread)) if side_by_side else 1
    most_rows = _block_rows(problem, method, inner, x.device.type)
    size = _rows_per_block(count, most_rows, most_threads)
    done = [0] * -(-count // size)  # rows of each block
    start, one_at_a_time = time.monotonic(), threading.Lock()

    def search(some: Problem, x: Tensor, limits: Limits) -> Outcome:
        return groups.search(x, limits) if groups else iterate(shared or bind(some), x, limits)

    def solve_block(number: int) -> None:
        def report(progress: SolveProgress) -> bool | None:
            assert limits.callback is not None
            with one_at_a_time:
                done[number] = progress.rows_done
                seconds = time.monotonic() - start
                return limits.callback(SolveProgress(progress.step, sum(done), count, seconds))

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

    def report(progress: SolveProgress) -> bool | None:
        seconds = time.monotonic() - start
        return callback(SolveProgress(progress.step, before + progress.rows_done, rows, seconds))

    return Limits(limits.max_steps, limits.deadline, report)
