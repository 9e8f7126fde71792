"""Claims of the paper, checked with the rows of a result."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.special import stdtrit

from fwnet.experiments.experiment import MissingRowError, Result, Row

Check = Callable[[Result], tuple[bool | None, str]]
PLAIN_SETTINGS = ("images", "law", "training", "choice")  # their values speak for themselves
MARKS = {True: "", False: " (worse)", None: " (indistinguishable)"}
SINGLE_SEED = 0.1  # dB: about as much as networks ever differed by their seed


@dataclass(frozen=True)
class Verdict:
    """What a result says about a claim.

    Attributes:
        claim: The claim.
        held: Whether it held; None where the methods are statistically indistinguishable.
        figures: The figures that this rests on.
        measured: Whether all rows that it needs were measured.
    """

    claim: str
    held: bool | None
    figures: str = ""
    measured: bool = True

    @property
    def word(self) -> str:
        """The verdict in one word or two."""
        if not self.measured:
            return "Not measured"
        return {True: "Held", False: "Did not hold", None: "Indistinguishable"}[self.held]

    def __str__(self) -> str:
        figures = f" ({self.figures})" if self.figures else ""
        return f"{self.word}: {self.claim}{figures}."


@dataclass(frozen=True)
class Claim:
    """A statement about a result.

    Attributes:
        text: The statement.
        check: Function that returns whether it holds, and the figures that this rests on.
    """

    text: str
    check: Check

    def verdict(self, result: Result) -> Verdict:
        """Return what a result says about the claim."""
        try:
            held, figures = self.check(result)
        except MissingRowError:
            return Verdict(self.text, None, measured=False)
        return Verdict(self.text, held, figures)


def better(
    text: str,
    ours: str,
    theirs: str | Sequence[str],
    by: str = "",
    at: Sequence[Any] | None = None,
    theirs_at: dict[str, Any] | None = None,
    **setting: Any,
) -> Claim:
    """Return the claim that a method is better than others, in the quantity of its first row.

    It holds if every comparison is won, is indistinguishable if none is significant, and does not
    hold otherwise.

    Args:
        text: The statement.
        ours: Method that is better.
        theirs: Method or methods that it is compared with.
        by: Setting at whose values they are compared, such as "T".
        at: These values; by default those of the rows of `ours`.
        theirs_at: Setting of the rows of `theirs`, where it differs.
        setting: Setting of all rows.
    """
    others = [theirs] if isinstance(theirs, str) else list(theirs)

    def check(result: Result) -> tuple[bool | None, str]:
        values = at or result.values_of(by, method=ours, **setting)
        places: list[dict[str, Any]] = [{by: value} for value in values] if by else [{}]
        found: list[bool | None] = []
        parts = []
        for place in places:
            row = result.find(ours, **setting, **place)
            compared = []
            for name in others:
                at_theirs = {**setting, **(theirs_at or {}), **place}
                other = result.find(name, row.quantity, **at_theirs)
                found.append(is_better(row, other))
                label = f"{name} " if len(others) > 1 else ""
                compared.append(f"{label}{number(other.mean)}{MARKS[found[-1]]}")
            where = "".join(f"{named(key, value)}: " for key, value in place.items())
            parts.append(f"{where}{number(row.mean)} against {', '.join(compared)}")
        if not found:
            raise MissingRowError(ours)
        held = None if all(one is None for one in found) else all(found)
        return held, "; ".join(parts)

    return Claim(text, check)


def reaches(text: str, method: str, limit: float | None = None, **setting: Any) -> Claim:
    """Return the claim that a method is at least as good as a limit, with the limit's digits.

    Args:
        text: The statement.
        method: The method.
        limit: The limit; by default the figure that the paper prints.
        setting: Setting of the row.
    """

    def check(result: Result) -> tuple[bool | None, str]:
        row = result.find(method, **setting)
        wanted = row.paper if limit is None else limit
        if wanted is None:
            raise MissingRowError(f"{method} has no figure in the paper")
        digits = len(f"{wanted:g}".partition(".")[2])
        ours = round(row.mean, max(2, digits))
        held = ours >= wanted if _larger_is_better(row.quantity) else ours <= wanted
        return held, f"{number(row.mean)} against {wanted:g}"

    return Claim(text, check)


def alike(text: str, first: str, second: str, quantity: str, **setting: Any) -> Claim:
    """Return the claim that two methods are statistically indistinguishable."""

    def check(result: Result) -> tuple[bool | None, str]:
        pair = [result.find(name, quantity, **setting) for name in (first, second)]
        return is_better(*pair) is None, " against ".join(number(row.mean) for row in pair)

    return Claim(text, check)


def is_better(ours: Row, theirs: Row) -> bool | None:
    """Return whether one row is better than another; None if statistically indistinguishable.

    Rows of several seeds are compared by Student's test on the paired differences, at 5 %. Where
    one has a single seed, PSNR that differs by less than 0.1 dB is indistinguishable.
    """
    if ours.quantity != theirs.quantity:
        raise ValueError(f"cannot compare {ours.quantity} with {theirs.quantity}")
    sign = 1 if _larger_is_better(ours.quantity) else -1
    if len(ours.values) == len(theirs.values) > 1:
        pairs = zip(ours.values, theirs.values, strict=True)
        differences = [sign * (a - b) for a, b in pairs]
        mean = statistics.fmean(differences)
        error = statistics.stdev(differences) / math.sqrt(len(differences))
        if abs(mean) < float(stdtrit(len(differences) - 1, 0.975)) * error:
            return None
        return mean > 0
    difference = sign * (ours.mean - theirs.mean)
    if "PSNR" in ours.quantity and abs(difference) < SINGLE_SEED:
        return None
    return difference > 0


def number(value: float) -> str:
    """Format a figure for a verdict."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.2f}"
    return f"{value:.3f}" if abs(value) >= 1 else f"{value:.4f}"


def _larger_is_better(quantity: str) -> bool:
    return "PSNR" in quantity or "SSIM" in quantity or "accuracy" in quantity


def named(key: str, value: Any) -> str:
    """Return a setting in words: "T = 4", or "Set5" where the value says what it is."""
    word = f"{value:g}" if isinstance(value, float) else str(value)
    return word if key in PLAIN_SETTINGS else f"{key} = {word}"
