"""The same problems solved by CVXPY (extra `cvx`), as an independent check.

The p-norm is written with power cones, exactly, and solved by Clarabel row by row. Where an exact
code exists, a second problem finds the one of least norm:  min ‖z‖_p  s.t.  Dz = UUᵀx.
"""

from __future__ import annotations

import dataclasses
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fwnet.sets import LpBall
from fwnet.solvers.loop import BindableMethod
from fwnet.solvers.problem import Constrained, Penalized, Problem
from fwnet.solvers.rows import RowState

EXACT = 1e-4  # a residual up to this share of x may belong to an exact code


@dataclass(frozen=True)
class CVXState(RowState):
    """The rows, and their codes once the solver has run."""

    problem: Problem
    x: Tensor
    code: Tensor
    dual: Tensor
    asked: Tensor  # whether the solver has run, (rows,)


@dataclass(frozen=True)
class CVX(BindableMethod):
    """CVXPY with Clarabel, or with another conic solver of CVXPY.

    Args:
        solver: CVXPY's name of the solver (default "CLARABEL").
        options: Keyword arguments for `cvxpy.Problem.solve`.
        least_norm: Whether to look for the shortest of several exact codes (default), or to return
            any of them.
        max_steps: One step solves the whole problem.

    >>> import fwnet, torch
    >>> x, D = torch.randn(2, 5, dtype=torch.float64), torch.randn(5, 8, dtype=torch.float64)
    >>> ball = fwnet.LpBall(1.3, radius=0.3)
    >>> theirs = fwnet.solve(x, D, ball, method="cvx", tol=1e-6)
    >>> bool((theirs.code - fwnet.solve(x, D, ball).code).abs().max() < 1e-3)
    True
    """

    solver: str = "CLARABEL"
    options: dict[str, Any] = field(default_factory=dict)
    least_norm: bool = True
    max_steps: int = 1

    def bind(self, problem: Problem, tol: float, norm_tol: float) -> _Rows:
        """Return the method for this problem."""
        try:
            import cvxpy as cp
        except ImportError as error:
            words = "method \"cvx\" needs CVXPY: pip install '.[cvx]' in the clone"
            raise ImportError(words) from error
        assert isinstance(problem, Constrained | Penalized)
        if isinstance(problem, Constrained) and not isinstance(problem.convex_set, LpBall):
            raise TypeError(f'convex_set must be an LpBall for "cvx", got {problem.convex_set}')
        return _Rows(cp, problem, self)

    def wants_float64(self, problem: Problem) -> bool:
        """Return True: CVXPY computes in float64."""
        return True

    def frees_python(self) -> bool:
        """Return False: the blocks share the problems of CVXPY, too."""
        return False


class _Rows:
    def __init__(self, cp: Any, problem: Constrained | Penalized, settings: CVX):
        self.cp, self.problem, self.settings = cp, problem, settings
        self._shared = self._models(problem.dictionary) if problem.factors is None else None

    def init(self, x: Tensor) -> CVXState:
        code = x.new_zeros(len(x), self.problem.dictionary.shape[1])
        asked = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        return CVXState(self.problem, x, code, torch.zeros_like(x), asked)

    def step(self, state: CVXState, index: int) -> CVXState:
        code, dual = np.zeros(state.code.shape), np.zeros(state.x.shape)
        x = state.x.double()
        reachable = state.problem.inside(x).cpu().numpy()
        for row, target in enumerate(x.cpu().numpy()):
            models = self._shared or self._models(self._dictionary(state.problem, row))
            code[row], dual[row] = self._solve(models, target, reachable[row])
        return dataclasses.replace(
            state,
            code=torch.from_numpy(code).to(state.code),
            dual=torch.from_numpy(dual).to(state.dual),
            asked=torch.ones_like(state.asked),
        )

    def finished(self, state: CVXState) -> Tensor:
        return state.asked

    def answer(self, state: CVXState) -> tuple[Tensor, Tensor]:
        return state.code, state.dual

    def _dictionary(self, problem: Problem, row: int) -> Tensor:
        assert problem.factors is not None
        return problem.factors[row].unsqueeze(-1) * problem.dictionary

    def _models(self, dictionary: Tensor) -> dict[str, Any]:
        """Return both problems, with x as a parameter."""
        cp, matrix = self.cp, dictionary.double().cpu().numpy()
        z, x = cp.Variable(matrix.shape[1]), cp.Parameter(matrix.shape[0])
        squares = 0.5 * cp.sum_squares(x - matrix @ z)
        models = {"z": z, "x": x, "matrix": matrix}
        norm = self._norm(z, self.problem.exponent)
        if isinstance(self.problem, Penalized):
            models["first"] = cp.Problem(cp.Minimize(squares + self.problem.penalty * norm))
            return models
        models["first"] = cp.Problem(cp.Minimize(squares), [norm <= self.problem.radius])
        if self.settings.least_norm:
            models["exact"] = cp.Problem(cp.Minimize(norm), [matrix @ z == x])
        return models

    def _norm(self, z: Any, p: float) -> Any:
        if p in (1, 2, np.inf):
            return self.cp.norm(z, "inf" if p == np.inf else p)
        return self.cp.pnorm(z, p, approx=False)

    def _solve(
        self, models: dict[str, Any], x: np.ndarray, reachable: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the code and a dual vector of one row; zeros if the solver fails."""
        z, nothing = models["z"], (np.zeros(models["z"].shape), np.zeros_like(x))
        if not self._ask(models["first"], models["x"], x):
            return nothing
        code = z.value
        residual = reachable - models["matrix"] @ code
        near = np.linalg.norm(residual) <= EXACT * np.linalg.norm(x)
        wanted = near and "exact" in models
        if wanted and self._ask(models["exact"], models["x"], reachable):
            assert isinstance(self.problem, Constrained)
            if models["exact"].value <= self.problem.radius * (1 + 1e-8):
                return z.value, -models["exact"].constraints[0].dual_value
        return code, x - models["matrix"] @ code

    def _ask(self, model: Any, parameter: Any, x: np.ndarray) -> bool:
        parameter.value = x
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "may be inaccurate": the certificate says so
                model.solve(solver=self.settings.solver, **self.settings.options)
        except self.cp.error.SolverError:
            return False
        return model.status in ("optimal", "optimal_inaccurate")
