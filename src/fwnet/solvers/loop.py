"""The one loop of every solver: start, step, check, stop.

A method implements `Method`. The loop counts steps, checks the limits, removes finished rows from
the batch and calls the callback.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from fwnet.solvers.problem import Problem
from fwnet.solvers.solution import Status

LEAVING_SHARE = 0.25  # rows are removed when this share is done: removing copies the others


class Method(Protocol):
    """An iterative method for the rows of x. Its state is a `RowState`."""

    def init(self, x: Tensor) -> Any:
        """Return the state before the first step."""

    def step(self, state: Any, index: int) -> Any:
        """Return the state after one more step on every row; index counts from 0."""

    def finished(self, state: Any) -> Tensor:
        """Return which rows are within the tolerance, (rows,)."""

    def answer(self, state: Any) -> tuple[Tensor, Tensor]:
        """Return the code z (rows, m) and a dual vector v (rows, n) that certifies it."""


class BindableMethod(Protocol):
    """A method with its settings, not yet bound to a problem."""

    max_steps: int

    def bind(self, problem: Problem, tol: float, norm_tol: float) -> Method:
        """Return the method for this problem."""

    def uses_matrices(self, problem: Problem, tol: float) -> bool:
        """Return whether a step needs a k × k matrix per row, which limits the rows per block."""
        return False

    def block_size(self, problem: Problem) -> int:
        """Return how many times as many rows as usual a block should have on a CPU."""
        return 1

    def wants_float64(self, problem: Problem) -> bool:
        """Return whether float32 rows should be solved in float64."""
        return False

    def frees_python(self) -> bool:
        """Return whether its time is that of torch, so that threads with blocks of rows pay."""
        return True


@dataclass(frozen=True)
class SolveProgress:
    """The argument of a callback, after every step.

    >>> import fwnet, torch
    >>> D, x = torch.randn(20, 40), torch.randn(100, 20)
    >>> seen = []
    >>> count = lambda now: seen.append(now.rows_done)
    >>> _ = fwnet.solve(x, D, fwnet.LpBall(1.3, 0.5), callback=count)
    >>> seen[-1]
    100
    """

    step: int
    rows_done: int
    rows: int  # in all
    seconds: float  # since the start


@dataclass(frozen=True)
class Limits:
    """When to stop without a certificate. A callback that returns True stops the search."""

    max_steps: int
    deadline: float = float("inf")  # in the seconds of time.monotonic
    callback: Callable[[SolveProgress], bool | None] | None = None


@dataclass(frozen=True)
class Outcome:
    """The result of every row. CERTIFIED is the claim of the method; the caller verifies it."""

    code: Tensor
    dual: Tensor
    status: Tensor
    num_steps: Tensor


def iterate(method: Method, x: Tensor, limits: Limits) -> Outcome:
    """Run a method on the rows of x until every row is finished or a limit is reached."""
    start = time.monotonic()
    state = method.init(x)
    z, v = method.answer(state.select(slice(0, 1)))
    code, dual = (x.new_empty(len(x), t.shape[-1]) for t in (z, v))
    status = torch.full((len(x),), Status.STEP_LIMIT, dtype=torch.int8, device=x.device)
    num_steps = torch.zeros(len(x), dtype=torch.int32, device=x.device)
    rows = torch.arange(len(x), device=x.device)
    waiting = torch.ones_like(rows, dtype=torch.bool)  # rows of the state without a result yet
    step = 0
    while True:
        done = method.finished(state) & waiting
        waiting &= ~done
        left = int(waiting.sum())
        seconds = time.monotonic() - start
        stopped = _why_stop(limits, SolveProgress(step, len(x) - left, len(x), seconds))
        last = left == 0 or step >= limits.max_steps or stopped is not None
        leaving = (done | waiting if last else done).nonzero().squeeze(-1)
        if len(leaving):
            out = rows[leaving]
            code[out], dual[out] = method.answer(state.select(leaving))
            status[rows[done]], num_steps[out] = int(Status.CERTIFIED), step
        if last:
            if stopped is not None:
                status[rows[waiting]] = int(stopped)
            return Outcome(code, dual, status, num_steps)
        if left <= (1 - LEAVING_SHARE) * len(rows):
            kept = waiting.nonzero().squeeze(-1)
            state, rows, waiting = state.select(kept), rows[kept], waiting[kept]
        state = method.step(state, step)
        step += 1


def _why_stop(limits: Limits, progress: SolveProgress) -> Status | None:
    if limits.callback is not None and limits.callback(progress):
        return Status.STOPPED
    return Status.TIME_LIMIT if time.monotonic() >= limits.deadline else None
