"""Which method finds certified codes: by the set, by p, and in up to three tries."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Self

import torch

from fwnet.functional import value_of
from fwnet.sets import NonnegativeLpBall
from fwnet.solvers.active_set import ActiveSet
from fwnet.solvers.any_set import has_projection
from fwnet.solvers.dual_newton import DualNewton
from fwnet.solvers.frank_wolfe import FrankWolfe, ShortStep
from fwnet.solvers.homotopy import Homotopy
from fwnet.solvers.interior_point import InteriorPoint
from fwnet.solvers.loop import BindableMethod, Method
from fwnet.solvers.pivots import Pivots
from fwnet.solvers.primal_newton import PrimalNewton
from fwnet.solvers.problem import Constrained, Problem
from fwnet.solvers.projected_gradient import ProjectedGradient
from fwnet.solvers.secular import Secular
from fwnet.solvers.vertices import Vertices

NORM_TOL = 10  # norm_gap may be this many times tol, relative to the norm
NEAREST_TO_1, LARGEST_P = 1e-7, 1e4
LOOSEST_PRIMAL = 1e-4
DIGITS_OF_CODE = 1e-12  # a tolerance below this asks for digits of the code itself
# Newton's steps are found by conjugate gradients for these p, but for less than this tolerance only
# where p is smooth.
NEWTON_ITERATIVE, TIGHTEST_ITERATIVE, SMOOTH = (1.0001, 12.0), 5e-14, (1.12, 2.0)
NONNEGATIVE = (1.05, 1.9)  # p of a `NonnegativeLpBall` for which the dual method is used


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


def method_for_set(problem: Constrained) -> BindableMethod:
    """Return the method for a set that is not an Lp ball."""
    convex_set = problem.convex_set
    if not has_projection(convex_set, problem.dictionary.shape[1]):
        return FrankWolfe(step_rule=ShortStep())
    if isinstance(convex_set, NonnegativeLpBall) and problem.same_for_all_rows:
        first, last = NONNEGATIVE
        if first <= value_of(convex_set.p) <= last:
            return NonnegativeNewton()
    return ProjectedGradient()
