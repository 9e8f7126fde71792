"""Learn p, and the radius, for signals without a dictionary: one is learned for every p tried.

    min_p Σ (x_i − (D_p z)_i)²  over held-out entries i,    z = code of the other entries of x

With a fixed radius a larger p never rebuilds the seen entries worse, because the balls grow; it
predicts held-out entries worse once the balls are too large.
"""

import math
from collections.abc import Callable
from itertools import islice

import torch
from torch import Tensor

from fwnet.coding.ball_search import (
    FINE_STEP,
    FINEST_STEP,
    BallSearch,
    excess_of,
    exponent_of,
    random_folds,
)
from fwnet.coding.learned_ball import LearnedBall, check_learnable
from fwnet.sets import LpBall
from fwnet.solvers.alternation import alternate
from fwnet.solvers.atoms import initial_atoms

GRID = (1.0, 1.15, 1.3, 1.5, 1.75, 2.0, 2.5, 4.0, math.inf)
REFINEMENTS = 2
MOST_TRIALS = len(GRID) + 2 * REFINEMENTS
LARGEST_SAMPLE = 2_000  # rows, of which a quarter is held out
HELD_OUT_ROWS = 0.25
ROUNDS = 10
FIRST_RADIUS = -1.0  # log2 of a radius to begin with, by the norm of exact codes


class _Trials:
    """Dictionaries for balls of several p, learned alike, and their errors on held-out rows."""

    def __init__(
        self,
        x: Tensor,
        num_atoms: int,
        radius: float | None,
        code_tol: float,
        generator: torch.Generator,
    ) -> None:
        chosen = torch.randperm(len(x), generator=generator)[:LARGEST_SAMPLE].to(x.device)
        num_held = max(1, round(HELD_OUT_ROWS * len(chosen)))
        self.held, self.train = x[chosen[:num_held]], x[chosen[num_held:]]
        self.folds = random_folds(x.shape[1], generator).to(x.device)
        self.first = initial_atoms(self.train, num_atoms, generator)
        self.radius, self.code_tol = radius, code_tol
        self.searches: dict[float, BallSearch] = {}  # by 1/p

    def add(self, inverse: float) -> float:
        """Learn a dictionary for one p; return the held-out error at its radius."""
        search = self._search(self.first)
        if self.radius is not None:
            search = self._learn(search, inverse, math.log2(self.radius), ROUNDS)
            search.best_radius(inverse, FINE_STEP)
        else:
            # The radius and the dictionary in turn: each needs the other.
            search = self._learn(search, inverse, search.unit(inverse) + FIRST_RADIUS, ROUNDS // 2)
            radius = search.best_radius(inverse, FINE_STEP)
            search = self._learn(search, inverse, radius, ROUNDS - ROUNDS // 2)
            search.best_radius(inverse, FINE_STEP)
        self.searches[inverse] = search
        return float(search.least(inverse).mean())

    def best(self) -> float:
        """Return the 1/p with the least error."""
        return min(self.searches, key=lambda one: float(self.searches[one].least(one).mean()))

    def near(self) -> list[float]:
        """Return the points halfway between the best 1/p and its neighbors."""
        inverses = sorted(self.searches)
        index = inverses.index(self.best())
        neighbors = inverses[max(0, index - 1) : index] + inverses[index + 1 : index + 2]
        return [(inverses[index] + other) / 2 for other in neighbors]

    def bound(self, side: int) -> float:
        """Return the 1/p, below or above, where the error is a standard error above the least."""
        best = self.best()
        least = self.searches[best].least(best)
        before, known = best, 0.0
        for inverse in sorted(self.searches, reverse=side < 0):
            if (inverse - best) * side <= 0:
                continue
            excess = excess_of(self.searches[inverse].least(inverse), least)
            if excess >= 1:
                return before + (inverse - before) * (1 - known) / (excess - known)
            before, known = inverse, max(excess, 0.0)
        return before

    def _search(self, atoms: Tensor) -> BallSearch:
        dictionary = atoms.T.contiguous()
        return BallSearch(self.held, dictionary, self.folds, self.radius, self.code_tol)

    def _learn(
        self, search: BallSearch, inverse: float, log_radius: float, num_rounds: int
    ) -> BallSearch:
        ball, atoms = LpBall(exponent_of(inverse), 2.0**log_radius), search.dictionary.T
        *_, learned = islice(alternate(self.train, atoms, ball, self.code_tol), num_rounds)
        return self._search(learned.atoms)


def search_exponent(
    x: Tensor,
    num_atoms: int,
    p: float | None,
    radius: float | None,
    code_tol: float,
    generator: torch.Generator,
    on_trial: Callable[[float, float], bool | None],
) -> tuple[LearnedBall, dict[float, float]]:
    """Return the best ball, and the exponents that were tried, rising, with their errors.

    A grid of p is tried, then points between the best and its neighbors. All p learn from the same
    rows for the same number of rounds, starting from the same atoms. `on_trial` is called with
    every p and its error; returning True ends the search. None for p or radius: it is learned.
    """
    check_learnable(x)
    trials = _Trials(x, num_atoms, radius, code_tol, generator)
    errors: dict[float, float] = {}

    def stops_at(inverse: float) -> bool:
        errors[exponent_of(inverse)] = error = trials.add(inverse)
        return bool(on_trial(exponent_of(inverse), error))

    stopped = any(stops_at(1 / one) for one in (GRID if p is None else (p,)))
    for _ in range(REFINEMENTS if p is None else 0):
        stopped = stopped or any(stops_at(inverse) for inverse in trials.near())
    best = trials.best()
    search = trials.searches[best]
    radii = (search.best_of(best),) * 2
    if radius is None:
        search.best_radius(best, FINEST_STEP, search.relative_radius())
        radii = search.radius_bound(-1), search.radius_bound(+1)
    inverses = trials.bound(-1), trials.bound(+1)
    return search.conclude(inverses, radii, p is None), dict(sorted(errors.items()))
