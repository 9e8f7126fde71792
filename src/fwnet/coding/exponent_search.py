"""Choose an exponent for signals without codes: the one that predicts held-out entries best.

    min_p Σ (x_i − (D_p z)_i)²  over held-out entries i,    z = code of the other entries of x

With a fixed radius a larger p never rebuilds the seen entries worse, because the balls grow; it
predicts held-out entries worse once the balls are too large.
"""

import math
from collections.abc import Callable
from itertools import islice

import torch
from torch import Tensor

from fwnet.sets import LpBall
from fwnet.solvers import solve
from fwnet.solvers.alternation import alternate
from fwnet.solvers.atoms import initial_atoms

GRID = (1.0, 1.15, 1.3, 1.5, 1.75, 2.0, 2.5, 4.0, math.inf)
REFINEMENTS = 2
MOST_TRIALS = len(GRID) + 2 * REFINEMENTS
LARGEST_SAMPLE = 2_000  # rows, of which a quarter is held out
HELD_OUT_ROWS, FOLDS = 0.25, 4
ROUNDS = 10


def held_out_error(x: Tensor, atoms: Tensor, ball: LpBall, folds: Tensor, tol: float) -> float:
    """Return the mean squared error of every entry of x, predicted from those in other folds.

    Args:
        x: Signals, (count, n).
        atoms: D, (m, n).
        ball: The ball of the codes.
        folds: For every feature the number of its fold, (n,). All rows share them.
        tol: Tolerance of the codes.
    """
    error = 0.0
    for fold in folds.unique():
        hidden = folds == fold
        code = solve(x, atoms.T.contiguous(), ball, weights=~hidden, tol=tol).code
        error += float((x - code @ atoms)[:, hidden].square().sum())
    return error / x.numel()


def search_exponent(
    x: Tensor,
    num_atoms: int,
    radius: float,
    code_tol: float,
    generator: torch.Generator,
    on_trial: Callable[[float, float], bool | None] = lambda *_: None,
) -> dict[float, float]:
    """Return the exponents that were tried, rising, with their held-out errors.

    A grid of p is tried, then points between the best and its neighbors. All p learn from the same
    rows for the same number of rounds, starting from the same atoms. `on_trial` is called with
    every p and its error; returning True ends the search.
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
    errors: dict[float, float] = {}

    def stops_at(p: float) -> bool:
        ball = LpBall(p, radius)
        *_, learned = islice(alternate(train, first, ball, code_tol), ROUNDS)
        errors[p] = held_out_error(held, learned.atoms, ball, folds, code_tol)
        return bool(on_trial(p, errors[p]))

    stopped = any(stops_at(p) for p in GRID)
    for _ in range(REFINEMENTS):
        stopped = stopped or any(stops_at(p) for p in _between_neighbors(errors))
    return dict(sorted(errors.items()))


def _between_neighbors(errors: dict[float, float]) -> list[float]:
    """Return the points halfway, in 1/p, between the best p and its neighbors."""
    exponents = sorted(errors)
    best = min(exponents, key=errors.__getitem__)
    index = exponents.index(best)
    neighbors = exponents[max(0, index - 1) : index] + exponents[index + 1 : index + 2]
    return [2 / (1 / best + 1 / other) for other in neighbors]
