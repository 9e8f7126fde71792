"""The result of a solver: codes with their certificates and status."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from torch import Tensor


class Status(IntEnum):
    """How the search for one code ended; `words` describes it.

    >>> from fwnet.solvers import Status
    >>> Status.STEP_LIMIT.words
    'step limit reached'
    """

    CERTIFIED = 0
    OPTIMAL = 1
    STEP_LIMIT = 2
    TIME_LIMIT = 3
    STALLED = 4
    NOT_FINITE = 5
    STOPPED = 6

    @property
    def words(self) -> str:
        """The status in words."""
        return _WORDS[self]


_WORDS = {
    Status.CERTIFIED: "certified",
    Status.OPTIMAL: "optimal, but its norm is not certified as the least",
    Status.STEP_LIMIT: "step limit reached",
    Status.TIME_LIMIT: "time limit reached",
    Status.STALLED: "no further progress in this precision",
    Status.NOT_FINITE: "x is not finite",
    Status.STOPPED: "stopped by the callback",
}

ADVICE = {
    Status.OPTIMAL: "pass a larger tol, or a dictionary whose columns have similar lengths",
    Status.STEP_LIMIT: "pass a larger max_steps or tol",
    Status.STALLED: "pass a larger tol, float64 data instead of float32, or a dictionary whose "
    "columns have similar lengths",
}


class UncertifiedWarning(UserWarning):
    """Some codes of a batch are not certified.

    >>> import fwnet, torch, warnings
    >>> _ = torch.manual_seed(0)
    >>> x, D = torch.randn(3, 20), torch.randn(20, 40)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = fwnet.solve(x, D, fwnet.LpBall(1.3, 5.0), tol=1e-30)
    >>> caught[0].category.__name__
    'UncertifiedWarning'
    """


def uncertified(counts: Mapping[int, int], total: int) -> str:
    """Return a sentence on how many codes are not certified, why, and what to do about it.

    `counts` holds the number of codes for each status that is not CERTIFIED.
    """
    left = {Status(code): count for code, count in sorted(counts.items())}
    reasons = "; ".join(f"{count} {status.words}" for status, count in left.items())
    advice = [ADVICE[status] for status in left if status in ADVICE]
    hint = f". What may help: {'; '.join(advice)}" if advice else ""
    return f"{sum(left.values())} of {total} codes are not certified: {reasons}{hint}"


@dataclass(frozen=True)
class Solution:
    """The codes of a batch. Every other field has one entry per sample.

    Attributes:
        code: z, of shape (…, m), differentiable in those of x, dictionary, radius and p that
            require gradients.
        gap: An upper bound on how far the objective at z is above its minimum.
        norm_gap: An upper bound on how far ‖z‖_p is above the least norm of an optimal code; NaN
            for sets other than Lp balls, and for the penalized problem, whose optimal codes all
            have the same norm.
        binds: Whether the constraint is proven to bind: no exact code is in the set.
        status_code: The `Status` of each sample as a small integer.
        num_steps: The number of steps each sample took.

    >>> import fwnet, torch
    >>> x = torch.tensor([[3.0, 4.0], [float("nan"), 1.0]])
    >>> solution = fwnet.solve(x, None, fwnet.LpBall(p=2.0, radius=1.0))
    >>> solution.status
    array(['certified', 'x is not finite'], dtype=...)
    >>> solution.certified, solution.code[0]
    (tensor([ True, False]), tensor([0.6000, 0.8000]))
    """

    code: Tensor
    gap: Tensor
    norm_gap: Tensor
    binds: Tensor
    status_code: Tensor
    num_steps: Tensor

    @property
    def status(self) -> np.ndarray:
        """The status in words: an array of strings with the shape of the batch."""
        words = np.array([status.words for status in Status])
        chosen: np.ndarray = words[self.status_code.cpu().numpy()]
        return chosen

    @property
    def certified(self) -> Tensor:
        """Which codes are certified: gap and norm_gap within the tolerance."""
        return self.status_code == Status.CERTIFIED

    def reshape(self, shape: tuple[int, ...]) -> Solution:
        """Return the same codes with another batch shape."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        code = fields.pop("code").reshape(*shape, self.code.shape[-1])
        return Solution(code=code, **{name: t.reshape(shape) for name, t in fields.items()})

    def summary(self) -> dict[str, int]:
        """Return the number of samples for each status, in words."""
        counts = Counter(self.status_code.flatten().tolist())
        return {Status(code).words: count for code, count in sorted(counts.items())}

    def __repr__(self) -> str:
        known = self.gap[~self.gap.isnan()]
        gap = known.max().item() if known.numel() else 0.0
        counts = ", ".join(f"{count} {words}" for words, count in self.summary().items())
        return (
            f"Solution(code: {tuple(self.code.shape)}, largest gap {gap:.1e}, {counts or 'empty'})"
        )
