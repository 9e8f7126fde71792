"""An exponent for signals whose codes nobody knows: the one that predicts entries held out.

    min_p Σ (x_i − (D_p z)_i)²  over held-out entries i,    z = code of the other entries of x

With a fixed radius a larger p never rebuilds worse what it was shown, because the balls grow; what
it was not shown it predicts worse once they are too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import torch
from torch import Tensor

from fwnet.sets import LpBall
from fwnet.solvers import solve
from fwnet.solvers.alternation import alternate
from fwnet.solvers.atoms import initial_atoms

__all__ = ["ExponentSearch", "held_out_error", "search_exponent"]

GRID = (1.0, 1.15, 1.3, 1.5, 1.75, 2.0, 2.5, 4.0, math.inf)
REFINEMENTS = 2
LARGEST_SAMPLE = 2_000  # rows, of which a quarter is held out
HELD_OUT_ROWS, FOLDS = 0.25, 4
ROUNDS = 10


@dataclass(frozen=True)
class ExponentSearch:
    """The exponents that were tried, in order, with their errors.

    Attributes:
        exponents: p, rising.
        held_out: The mean squared error of held-out entries of held-out rows.
        seen: The mean squared error of the entries that the codes were made from.
    """

    most_trials: ClassVar[int] = len(GRID) + 2 * REFINEMENTS

    exponents: list[float]
    held_out: list[float]
    seen: list[float]

    @property
    def best(self) -> float:
        """The p with the least held-out error."""
        return self.exponents[self.held_out.index(min(self.held_out))]


def held_out_error(
    x: Tensor, atoms: Tensor, ball: LpBall, folds: Tensor, tol: float
) -> tuple[float, float]:
    """Predict every entry of x from those in other folds: mean squared error, and that of the seen.

    folds: For every feature the number of its fold, (n,). Rows share them: one dictionary a fold.
    """
    hidden_error = seen_error = 0.0
    num_folds = int(folds.max()) + 1
    for fold in range(num_folds):
        hidden = folds == fold
        code = solve(x, atoms.T.contiguous(), ball, weights=~hidden, tol=tol).code
        squares = (x - code @ atoms).square()
        hidden_error += float(squares[:, hidden].sum())
        seen_error += float(squares[:, ~hidden].sum())
    return hidden_error / x.numel(), seen_error / (x.numel() * (num_folds - 1))


def search_exponent(
    x: Tensor,
    num_atoms: int,
    radius: float,
    code_tol: float,
    generator: torch.Generator,
    on_trial: Callable[[float, float], bool | None] = lambda *_: None,
) -> ExponentSearch:
    """Try a grid of p, then points between the best and its neighbors.

    All p learn from the same rows for the same number of rounds, and begin with the same atoms.
    `on_trial` hears every p with its error; returning True ends the search.
    """
    if x.shape[1] < 2 or len(x) < 2:
        raise ValueError(
            f"p can be learned from at least 2 samples of 2 features, got {tuple(x.shape)}"
        )
    chosen = torch.randperm(len(x), generator=generator)[:LARGEST_SAMPLE].to(x.device)
    num_held = max(1, round(HELD_OUT_ROWS * len(chosen)))
    held, train = x[chosen[:num_held]], x[chosen[num_held:]]
    num_folds = min(FOLDS, x.shape[1])
    folds = torch.randperm(x.shape[1], generator=generator).to(x.device) % num_folds
    first = initial_atoms(train, num_atoms, generator)
    errors: dict[float, tuple[float, float]] = {}

    def tried(p: float) -> bool:
        ball = LpBall(p, radius)
        *_, learned = islice(alternate(train, first, ball, code_tol), ROUNDS)
        errors[p] = held_out_error(held, learned.atoms, ball, folds, code_tol)
        return bool(on_trial(p, errors[p][0]))

    stopped = any(tried(p) for p in GRID)
    for _ in range(REFINEMENTS):
        stopped = stopped or any(tried(p) for p in _between_neighbors(errors))
    exponents = sorted(errors)
    return ExponentSearch(
        exponents, [errors[p][0] for p in exponents], [errors[p][1] for p in exponents]
    )


def _between_neighbors(errors: dict[float, tuple[float, float]]) -> list[float]:
    """The points halfway, in 1/p, between the best p and its neighbors."""
    exponents = sorted(errors)
    best = min(exponents, key=lambda p: errors[p][0])
    index = exponents.index(best)
    neighbors = exponents[max(0, index - 1) : index] + exponents[index + 1 : index + 2]
    return [2 / (1 / best + 1 / other) for other in neighbors]
