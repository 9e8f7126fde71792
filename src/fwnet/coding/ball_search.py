"""Learn the ball of codes, p and radius, from signals and a dictionary: `learn_ball`.

    min_{p, c} Σ (x_i − (D z)_i)²  over held-out entries i,    z = code of the other entries of x

A ball that is too small cannot follow the signals; one that is too large follows the noise. The
interval holds the balls whose error exceeds the least by less than one standard error of the
difference; docs/learning_p.md derives both.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import torch
from torch import Tensor

from fwnet.checks import check_tensor
from fwnet.coding.learned_ball import (
    LARGEST_P,
    LEARN,
    LearnedBall,
    check_ball,
    check_learnable,
    find_doubts,
    norm_spread,
)
from fwnet.functional import lp_norm
from fwnet.hardware import widest_dtype
from fwnet.progress import Progress, ProgressCallback, silent
from fwnet.sets import LpBall
from fwnet.solvers import solve
from fwnet.solvers.arguments import checked_problem

GRID = (1.0, 0.85, 0.7, 0.5, 0.35, 1 / LARGEST_P)  # 1/p
NEXT_TO_1 = 0.96  # 1/p between this and 1 is not tried: nearly p = 1, but slow
FIRST_RADII = (-3.0, -1.5, -0.5, 0.0)  # log2 of the radius, by the median norm of exact codes
FARTHEST = 4.0  # of log2 radius from that norm
COARSE_STEP, FINE_STEP, FINEST_STEP = 1 / 4, 1 / 16, 1 / 64  # of log2 radius
EXPONENT_STEPS = (0.05, 0.025, 0.0125)  # of 1/p
FINEST_INVERSE = 0.0025  # of 1/p, where only norms are compared
LARGEST_SAMPLE, FOLDS, ROWS_FOR_UNIT = 400, 4, 128
CODE_TOL = 1e-7
NOISE_FACTOR = 2.0  # the bias of noise is at most about this many times what doubling it shows


def held_out_errors(
    x: Tensor, dictionary: Tensor, ball: LpBall, folds: Tensor, tol: float
) -> tuple[Tensor, Tensor]:
    """Predict every entry of x from those in other folds.

    Args:
        x: Signals, (count, n).
        dictionary: D, (n, m).
        ball: The ball of the codes.
        folds: For every feature the number of its fold, (n,). All rows share them.
        tol: Tolerance of the codes.

    Returns:
        The mean squared error of every row, (count,), and the codes, (folds, count, m).
    """
    errors, codes = x.new_zeros(len(x)), []
    for fold in folds.unique():
        hidden = folds == fold
        code = solve(x, dictionary, ball, weights=~hidden, tol=tol, warn=False).code
        errors += (x - code @ dictionary.T)[:, hidden].square().sum(-1)
        codes.append(code)
    return errors / x.shape[1], torch.stack(codes)


def random_folds(num_features: int, generator: torch.Generator) -> Tensor:
    """Return for every feature the number of its fold, at random, of at most four."""
    return torch.randperm(num_features, generator=generator) % min(FOLDS, num_features)


def excess_of(errors: Tensor, least: Tensor) -> float:
    """Return the mean of the differences of rows by its standard error; 0 if they are equal."""
    difference = errors - least
    spread = float(difference.std(correction=0)) / math.sqrt(len(difference))
    return float(difference.mean()) / spread if spread > 0 else 0.0


def exponent_of(inverse: float) -> float:
    """Return p for 1/p."""
    return round(1 / inverse, 12) if inverse else math.inf


Trials = dict[float, Tensor]  # errors of rows, by log2 radius


class BallSearch:
    """Held-out errors of balls for one dictionary, remembered, and the search for the least.

    Args:
        x: Signals, (count, n).
        dictionary: D, (n, m).
        folds: As in `held_out_errors`.
        radius: The radius, or None if it is to be learned.
        tol: Tolerance of the codes.
    """

    def __init__(
        self,
        x: Tensor,
        dictionary: Tensor,
        folds: Tensor,
        radius: float | None = None,
        tol: float = CODE_TOL,
    ) -> None:
        self.x, self.dictionary, self.folds = x, dictionary, folds
        self.radius, self.tol = radius, tol
        self.trials: dict[float, Trials] = {}  # by 1/p
        self._units: dict[float, float] = {}

    def best_radius(self, inverse: float, finest: float, start: float | None = None) -> float:
        """Return the log2 radius with the least error at one 1/p, to within a step `finest`.

        `start`: A log2 radius, relative to the norm of exact codes, to begin near. Default: try a
        wide range.
        """
        if self.radius is not None:
            self._try(inverse, math.log2(self.radius))
            return math.log2(self.radius)
        unit = self.unit(inverse)
        step = COARSE_STEP if start is None else max(FINE_STEP, 2 * finest)
        for first in FIRST_RADII if start is None else (start,):
            self._try(inverse, unit + first)
        while step >= finest:
            best = self.best_of(inverse)
            tried = len(self.trials[inverse])
            for radius in (best - step, best + step):
                if abs(radius - unit) <= FARTHEST:
                    self._try(inverse, radius)
            if self.best_of(inverse) == best or len(self.trials[inverse]) == tried:
                step /= 2
        return self.best_of(inverse)

    def best_of(self, inverse: float) -> float:
        """Return the log2 radius with the least error of those that were tried at one 1/p."""
        trials = self.trials[inverse]
        return min(trials, key=lambda radius: float(trials[radius].mean()))

    def least(self, inverse: float) -> Tensor:
        """Return the errors of rows at the best radius of one 1/p."""
        return self.trials[inverse][self.best_of(inverse)]

    def best_inverse(self) -> float:
        """Return the 1/p with the least error."""
        return min(self.trials, key=lambda inverse: float(self.least(inverse).mean()))

    def unit(self, inverse: float) -> float:
        """Return log2 of the median norm of exact codes, which makes the search unit-free."""
        if inverse not in self._units:
            p, x = exponent_of(inverse), self.x[(self.x @ self.dictionary).any(-1)]
            huge = LpBall(p, self._huge_radius())
            code = solve(x[:ROWS_FOR_UNIT], self.dictionary, huge, tol=1e-4, warn=False).code
            norms = lp_norm(code, p)
            self._units[inverse] = math.log2(float(norms[norms > 0].median()))
        return self._units[inverse]

    def refine(self, steps: Iterable[float]) -> tuple[float, float]:
        """Return the best 1/p and log2 radius, found from those that were tried, in these steps."""
        self.best_radius(self.best_inverse(), FINEST_STEP, self.relative_radius())
        for step in steps:
            while True:
                best = self.best_inverse()
                for other in (best - step, best + step):
                    self.follow(best, other)
                if self.best_inverse() == best:
                    break
        return self.best_inverse(), self.best_of(self.best_inverse())

    def best_by_norms(self) -> float:
        """Return the 1/p at which exact codes have the most equal norms.

        With little noise the error has a minimum so narrow that a grid would miss it; it is there.
        """
        huge = LpBall(2.0, self._huge_radius())
        code = solve(self.x, self.dictionary, huge, tol=self.tol, warn=False).code
        code = code[code.any(-1)]
        steps = round((NEXT_TO_1 - GRID[-1]) / FINEST_INVERSE)
        inverses = [1.0, *(GRID[-1] + FINEST_INVERSE * step for step in range(steps + 1))]
        spread = [float(lp_norm(code, 1 / one).log().std(correction=0)) for one in inverses]
        return inverses[spread.index(min(spread))]

    def relative_radius(self) -> float:
        """Return the log2 radius of the best ball, relative to the norm of exact codes."""
        best = self.best_inverse()
        return self.best_of(best) - self.unit(best)

    def follow(self, known: float, inverse: float) -> float | None:
        """Try another 1/p, with radii near the best of a known one; return the 1/p, if allowed."""
        if inverse > NEXT_TO_1:
            inverse = 1.0
        if inverse < GRID[-1] - 1e-9:
            return None
        if inverse not in self.trials:
            start = self.best_of(known) - self.unit(known) if self.radius is None else None
            self.best_radius(inverse, FINEST_STEP, start)
        return inverse

    def excess(self, inverse: float, radius: float) -> float:
        """Return the error above that of the best ball, in standard errors of the difference."""
        return excess_of(self.trials[inverse][radius], self.least(self.best_inverse()))

    def radius_bound(self, side: int) -> float:
        """Return the log2 radius where the excess reaches 1 at the best p, below or above."""
        inverse = self.best_inverse()
        best = self.best_of(inverse)

        def excess_at(distance: float) -> float | None:
            radius = best + side * distance
            if abs(radius - self.unit(inverse)) > FARTHEST:
                return None
            self._try(inverse, radius)
            return self.excess(inverse, radius)

        return best + side * _reach(excess_at, FINEST_STEP)

    def exponent_bound(self, side: int) -> tuple[float, float]:
        """Return the 1/p where the excess reaches 1, below or above, and its best log2 radius."""
        best = self.best_inverse()
        at = best

        def excess_at(distance: float) -> float | None:
            nonlocal at
            if side > 0 and at == 1.0:
                return None
            followed = self.follow(at, best + side * distance)
            if followed is None:
                return None
            at = followed
            return self.excess(at, self.best_of(at))

        reached = min(max(best + side * _reach(excess_at, EXPONENT_STEPS[-1]), GRID[-1]), 1.0)
        share = (reached - best) / (at - best) if at != best else 0.0
        return reached, (1 - share) * self.best_of(best) + share * self.best_of(at)

    def ends(self, inverse: float, radius: float, learn_p: bool) -> tuple[list[float], list[float]]:
        """Return the lowest and the highest 1/p and log2 radius that the spread of errors allows.

        `inverse` and `radius` are those of the best ball, which is between them.
        """
        lows, highs = [inverse, radius], [inverse, radius]
        if self.radius is None:
            lows[1], highs[1] = self.radius_bound(-1), self.radius_bound(+1)
        if learn_p:
            (lows[0], one), (highs[0], other) = (self.exponent_bound(side) for side in (-1, +1))
            below, above = max(0.0, radius - min(one, other)), max(0.0, max(one, other) - radius)
            lows[1] = radius - math.hypot(radius - lows[1], below)
            highs[1] = radius + math.hypot(highs[1] - radius, above)
        widths = (EXPONENT_STEPS[-1] * learn_p, FINEST_STEP * (self.radius is None))
        for axis, width in enumerate(widths):
            lows[axis] -= width / 2
            highs[axis] += width / 2
        return lows, highs

    def conclude(
        self, inverses: tuple[float, float], radii: tuple[float, float], learn_p: bool
    ) -> LearnedBall:
        """Return the best ball with its intervals, given in 1/p and log2 radius, and doubts."""
        inverse, x = self.best_inverse(), self.x
        ball = LpBall(exponent_of(inverse), 2.0 ** self.best_of(inverse))
        parts = held_out_errors(x, self.dictionary, ball, self.folds, self.tol)[1]
        whole = solve(x, self.dictionary, ball, tol=self.tol, warn=False).code
        norm = float(whole.square().sum(-1).mean().sqrt())
        change = float((parts - whole).square().sum(-1).mean().sqrt()) / norm if norm else math.inf
        learned = LearnedBall(
            p=exponent_of(inverse),
            radius=2.0 ** self.best_of(inverse) if self.radius is None else self.radius,
            p_interval=(exponent_of(min(inverses[1], 1.0)), exponent_of(max(inverses[0], 0.0))),
            radius_interval=(2.0 ** radii[0], 2.0 ** radii[1]),
            error=float(self.least(inverse).mean()),
            variance=float(x.var(0, correction=0).mean()),
            norm_spread=norm_spread(x),
            code_change=change,
            doubts=(),
            trials=[
                (exponent_of(inverse), 2.0**radius, float(errors.mean()))
                for inverse, trials in sorted(self.trials.items(), reverse=True)
                for radius, errors in sorted(trials.items())
            ],
        )
        at_end = self.radius is None and abs(self.relative_radius()) > FARTHEST - COARSE_STEP
        doubts = find_doubts(learned, learn_p, self.radius is None, at_end)
        return replace(learned, doubts=tuple(doubts))

    def _huge_radius(self) -> float:
        if not (self.x @ self.dictionary).any():
            raise ValueError(
                "p or radius cannot be learned from samples that are all orthogonal to the atoms"
            )
        size = float(self.dictionary.norm())
        if not 1e-150 < size < 1e150 or not 1e-150 < float(self.x.norm()) < 1e150:
            raise ValueError("p or radius can be learned from norms in (1e-150, 1e150) alone")
        return 1e6 * float(self.x.norm()) / size

    def _try(self, inverse: float, radius: float) -> None:
        if radius not in self.trials.setdefault(inverse, {}):
            ball = LpBall(exponent_of(inverse), 2.0**radius)
            errors, _ = held_out_errors(self.x, self.dictionary, ball, self.folds, self.tol)
            self.trials[inverse][radius] = errors


def _reach(excess_at: Callable[[float], float | None], step: float) -> float:
    """Return the distance where a function that rises from 0 reaches 1, in doubling steps.

    None from the function means that the range ends: the last distance is returned.
    """
    before, known = 0.0, 0.0
    while True:
        distance = before + step
        excess = excess_at(distance)
        if excess is None:
            return before
        if excess >= 1:
            return before + step * (1 - known) / (excess - known)
        before, known, step = distance, max(excess, 0.0), 2 * step


def learn_ball(
    x: Tensor,
    dictionary: Tensor,
    p: float | str = LEARN,
    radius: float | str = LEARN,
    *,
    seed: int = 0,
    tol: float = CODE_TOL,
    progress: ProgressCallback = silent,
) -> LearnedBall:
    """min_{p, c} Σ (x_i − (D z)_i)² over held-out entries i, z the code of the other entries.

    At most 400 rows are used. p in (1, 1.04) and above 5 is not tried.

    Args:
        x: Signals, (count, n), at least two rows of two entries.
        dictionary: D, (n, m).
        p: Exponent, or "learn".
        radius: Radius, or "learn".
        seed: Seed of the rows and folds.
        tol: Tolerance of the codes.
        progress: Called after every step.

    >>> import fwnet, torch
    >>> _ = torch.manual_seed(0)
    >>> D = torch.randn(12, 6, dtype=torch.float64)
    >>> codes = fwnet.LpBall(2.0).lmo(torch.randn(100, 6, dtype=torch.float64))
    >>> x = codes @ D.T + 0.05 * torch.randn(100, 12, dtype=torch.float64)
    >>> learned = fwnet.coding.learn_ball(x, D, p=2.0)
    >>> round(learned.radius, 1), learned.doubts
    (1.0, ())
    """
    check_learnable(x)
    check_tensor("dictionary", dictionary)
    check_ball(p, radius)
    learn_p, fixed = p == LEARN, None if radius == LEARN else float(radius)
    inverses = GRID if learn_p else (1 / float(p),)
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(x), generator=generator)[:LARGEST_SAMPLE].to(x.device)
    folds = random_folds(x.shape[1], generator).to(x.device)
    x, dictionary = (one.to(widest_dtype(one.device)) for one in (x[chosen], dictionary))
    checked_problem(x, dictionary, None)
    num_steps = len(inverses) + 3

    def report(done: int) -> None:
        progress(Progress("the best ball", done, num_steps))

    search = BallSearch(x, dictionary, folds, fixed, tol)
    for step, inverse in enumerate(inverses):
        search.best_radius(inverse, FINE_STEP, search.relative_radius() if step else None)
        report(step + 1)
    if learn_p:
        search.best_radius(search.best_by_norms(), FINEST_STEP, 0.0)
    steps = EXPONENT_STEPS if learn_p else ()
    inverse, log_radius = search.refine(steps)
    report(num_steps - 2)
    error = float(search.least(inverse).mean())

    lows, highs = search.ends(inverse, log_radius, learn_p)
    report(num_steps - 1)

    # Noise moves the best ball away from the true one; twice the noise tells how far.
    noise = torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x)
    noisy = BallSearch(x + math.sqrt(error) * noise, dictionary, folds, fixed, tol)
    noisy.best_radius(inverse, FINEST_STEP, search.relative_radius())
    moved = noisy.refine(steps[1:])
    for axis, (value, other) in enumerate(zip((inverse, log_radius), moved, strict=True)):
        ends = highs if value > other else lows
        ends[axis] += NOISE_FACTOR * (value - other)
    report(num_steps)

    return search.conclude((lows[0], highs[0]), (lows[1], highs[1]), learn_p)
