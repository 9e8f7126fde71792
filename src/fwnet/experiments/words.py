"""Plain sentences from figures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from scipy.stats import t

from fwnet.experiments.experiment import Result

__all__ = [
    "comma_list",
    "compare_by_depth",
    "is_below",
    "is_better_everywhere",
    "number",
    "verdict",
]


def is_below(ours: Sequence[float], theirs: Sequence[float]) -> bool | None:
    """Whether one is below the other on the same data; None where seeds do not tell.

    Student's test on the paired differences, at 5%.
    """
    if len(theirs) == 1 < len(ours):
        theirs = [theirs[0]] * len(ours)
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    mean = statistics.fmean(differences)
    if len(differences) > 1:
        error = statistics.stdev(differences) / math.sqrt(len(differences))
        if abs(mean) < float(t.ppf(0.975, len(differences) - 1)) * error:
            return None
    return mean < 0


def compare_by_depth(result: Result, ours: str, theirs: str, depths: Sequence[int]) -> str:
    """Say at which T one method has a smaller error than another."""
    below = {
        T: is_below(result.find(ours, T=T).values, result.find(theirs, T=T).values) for T in depths
    }
    if all(below.values()):
        return f"{ours} is better than {theirs} at every T."
    parts = []
    for verdict, word in ((True, "better"), (None, "not told apart"), (False, "worse")):
        chosen = [str(T) for T, value in below.items() if value is verdict]
        if chosen:
            parts.append(f"{word} at T = {comma_list(chosen)}")
    return f"{ours} compared with {theirs}: {', '.join(parts)}."


def is_better_everywhere(result: Result, ours: str, theirs: str, depths: Sequence[int]) -> bool:
    """Whether one method has a smaller error than another at every T."""
    return all(
        is_below(result.find(ours, T=T).values, result.find(theirs, T=T).values) for T in depths
    )


def verdict(claims: Mapping[str, bool]) -> str:
    """Say which claims of the paper held and which did not."""
    parts = []
    for word, wanted in (("Held", True), ("Did not hold", False)):
        chosen = [claim for claim, held in claims.items() if held is wanted]
        if chosen:
            parts.append(f"{word}: {'; '.join(chosen)}.")
    return " ".join(parts)


def comma_list(words: Sequence[str]) -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def number(value: float) -> str:
    """Four digits, three of them after the point for figures around 1."""
    return f"{value:.4f}" if abs(value) < 1 else f"{value:.3f}"
