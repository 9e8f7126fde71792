"""What is learned about the ball of codes, p and radius; the checks before and the doubts after."""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from fwnet.checks import check_tensor
from fwnet.functional import value_of
from fwnet.sets import LpBall

LEARN = "learn"
LEARNED = ("p_interval_", "radius_interval_", "doubts_")  # attributes of an estimator
LARGEST_P = 5.0  # that is tried
WIDEST_P, WIDEST_RADIUS = 0.1, 1.1  # a wider interval is reported as a doubt
LOOSEST_CODES = 0.25
WIDEST_NORMS = 4.0  # of norms of signals: the 90th percentile by the 10th


class UnidentifiedWarning(UserWarning):
    """The data do not tell p or the radius: the message says why.

    >>> import fwnet, numpy as np, warnings
    >>> rng = np.random.default_rng(0)
    >>> noise, D = rng.standard_normal((60, 8)), rng.standard_normal((6, 8))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = fwnet.LpCoder(D, p=2.0, radius="learn").fit(noise)
    >>> caught[0].category.__name__
    'UnidentifiedWarning'
    """


@dataclass(frozen=True)
class LearnedBall:
    """The ball that predicts held-out entries best, and how well the data determine it.

    Attributes:
        p: Exponent, given or learned.
        radius: Radius, given or learned.
        p_interval: Lowest and highest p that the data allow, at about 95 %.
        radius_interval: The same for the radius.
        error: Mean squared error of held-out entries.
        variance: Variance of the entries around the mean of their feature.
        norm_spread: The 90th percentile of the norms of the signals by the 10th.
        code_change: How much codes change if a quarter of the entries is hidden: the root mean
            square change by the root mean square norm.
        doubts: Reasons, in words, why p or the radius may not be identified; empty if there are
            none.
        trials: All balls that were tried: (p, radius, error).

    >>> import fwnet, torch
    >>> _ = torch.manual_seed(0)
    >>> x, D = torch.randn(60, 8), torch.randn(8, 6)
    >>> learned = fwnet.coding.learn_ball(x, D, p=2.0)
    >>> learned.doubts[0]
    'held-out entries are predicted no better than by their mean ...'
    """

    p: float
    radius: float
    p_interval: tuple[float, float]
    radius_interval: tuple[float, float]
    error: float
    variance: float
    norm_spread: float
    code_change: float
    doubts: tuple[str, ...]
    trials: list[tuple[float, float, float]] = field(repr=False)


def find_doubts(
    learned: LearnedBall, learn_p: bool, learn_radius: bool, at_end: bool
) -> Iterator[str]:
    """Yield the reasons why p or radius may not be identified."""
    (low_p, high_p), (low, high) = learned.p_interval, learned.radius_interval
    if learned.error >= learned.variance:
        yield (
            f"held-out entries are predicted no better than by their mean (mean squared error "
            f"{learned.error:.3g}, variance {learned.variance:.3g})"
        )
    if at_end:
        yield f"the best radius, {learned.radius:.3g}, is at the end of the range"
    if learn_p and learned.p > LARGEST_P - 1e-6:
        yield f"the best p, {learned.p:.3g}, is at the end of the range"
    if learn_p and max(high_p - learned.p, learned.p - low_p) > WIDEST_P:
        yield f"p may be anything from {low_p:.3g} to {high_p:.3g}"
    if learn_radius and max(high / learned.radius, learned.radius / low) > WIDEST_RADIUS:
        yield f"the radius may be anything from {low:.3g} to {high:.3g}"
    if learned.norm_spread > WIDEST_NORMS:
        yield (
            f"the norms of the signals differ by a factor of {learned.norm_spread:.3g} (90th by "
            "10th percentile), so no radius suits all: divide every signal by its norm"
        )
    if learned.code_change > LOOSEST_CODES:
        yield (
            f"codes change by {learned.code_change:.0%} if a quarter of the entries is hidden: the "
            "signals do not determine them"
        )


def norm_spread(x: Tensor) -> float:
    """Return the 90th percentile of the norms of rows by the 10th."""
    low, high = x.norm(dim=-1).quantile(x.new_tensor([0.1, 0.9])).tolist()
    return high / low if low > 0 else math.inf


def check_learnable(x: Tensor) -> None:
    """Raise if entries of signals cannot be held out, are not finite, or are all 0."""
    check_tensor("signals", x)
    if x.ndim != 2 or min(x.shape) < 2:
        raise ValueError(
            "p or radius can be learned from at least 2 samples of 2 features, got "
            f"{tuple(x.shape)}"
        )
    if not x.isfinite().all():
        raise ValueError("p or radius can be learned from finite samples, got NaN or infinity")
    if not x.any():
        raise ValueError("p or radius cannot be learned from samples that are all 0")


def check_ball(p: float | str, radius: float | str) -> None:
    """Raise unless p is in [1, ∞] and radius > 0, or "learn"."""
    for name, value, kind in (("p", p, "in [1, inf]"), ("radius", radius, "> 0")):
        if isinstance(value, str) and value != LEARN:
            raise ValueError(f"{name} must be {kind} or {LEARN!r}, got {value!r}")
    LpBall(*(1.0 if isinstance(one, str) else value_of(one) for one in (p, radius)))


def note_learned_ball(estimator: Any, learned: LearnedBall) -> None:
    """Set the attributes of an estimator that tell what was learned, and warn of doubts."""
    estimator.p_, estimator.radius_ = learned.p, learned.radius
    for name in LEARNED:
        setattr(estimator, name, getattr(learned, name.rstrip("_")))
    if learned.doubts:
        warnings.warn(
            f"the data do not determine p and the radius: {'; '.join(learned.doubts)}. p = "
            f"{learned.p:.3g} and radius = {learned.radius:.3g} predict held-out entries best",
            UnidentifiedWarning,
            stacklevel=3,
        )
