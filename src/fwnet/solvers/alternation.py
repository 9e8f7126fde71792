"""Dictionary and codes in turn: all rows at once, or batch by batch. Atoms are rows here, (m, n).

    min_{D, Z} ½‖X − ZD‖²   s.t.  ‖z_i‖_p ≤ c for every code,  ‖d_j‖ = 1 for every atom

Without the bound on the atoms the one on the codes would mean nothing: Z/t and tD rebuild the same.
Given D the codes are `solve`'s; given Z the atoms have closed forms, one at a time (`atoms.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fwnet.functional import value_of
from fwnet.sets import LpBall
from fwnet.solvers.atoms import improve_atoms, replace_atoms
from fwnet.solvers.certified import solve
from fwnet.solvers.splitting import ADMM

__all__ = ["Alternation", "alternate", "loose_codes", "online_step"]

SPLITTING_STEPS = 3  # of ten iterations each; later rounds go on where they ended
SWEEPS = 5  # over the atoms between two rounds of codes, which cost more
FORGETTING = 4.0  # batch s weighs (s/t)^4 at time t, so that codes of poor atoms soon count little
UNUSED = 1e-6  # an atom with less than this part of the largest use is replaced


@dataclass(frozen=True)
class Alternation:
    """A dictionary, and what is remembered of the codes it was fitted to.

    Attributes:
        atoms: D, (m, n), rows of norm 1.
        codes_gram: A = ZᵀZ, (m, m), a sum in which older batches may count less.
        codes_signals: B = ZᵀX, (m, n), likewise.
        num_steps: How many rounds or batches it took.
        error: ½‖x − zD‖², the mean over rows; of a batch, before the dictionary had seen it.
    """

    atoms: Tensor
    codes_gram: Tensor
    codes_signals: Tensor
    num_steps: int = 0
    error: float = math.inf

    @classmethod
    def begin(cls, atoms: Tensor) -> Alternation:
        """Know a dictionary, and no codes yet."""
        return cls(atoms, atoms.new_zeros(len(atoms), len(atoms)), torch.zeros_like(atoms))


def loose_codes(
    x: Tensor, atoms: Tensor, ball: LpBall, tol: float, start: Tensor | None = None
) -> Tensor:
    """Codes in the ball with gaps of about tol·½‖x‖², quickly; they need not be the shortest."""
    options: dict[str, Any] = {}
    if value_of(ball.p) in (1, math.inf):
        options = {"method": ADMM(iterations_a_step=10), "max_steps": SPLITTING_STEPS}
    return solve(x, atoms.T.contiguous(), ball, tol=tol, start=start, **options).code


def alternate(x: Tensor, atoms: Tensor, ball: LpBall, code_tol: float) -> Iterator[Alternation]:
    """Yield the dictionary after every round over all rows; its error never rises.

    A code that is worse than the one before is not taken, and an atom that is replaced has no code.
    """
    codes = None
    state = Alternation.begin(atoms)
    while True:
        codes = _no_worse(x, state.atoms, codes, loose_codes(x, state.atoms, ball, code_tol, codes))
        codes_gram, codes_signals = codes.T @ codes, codes.T @ x
        atoms = improve_atoms(state.atoms, codes_gram, codes_signals, SWEEPS)
        residual = x - codes @ atoms
        atoms, _ = replace_atoms(atoms, codes_gram.diagonal() == 0, residual)
        state = Alternation(
            atoms, codes_gram, codes_signals, state.num_steps + 1, _mean_error(residual)
        )
        yield state


def online_step(state: Alternation, x: Tensor, ball: LpBall, code_tol: float) -> Alternation:
    """Move the dictionary by one batch; what it learned before fades."""
    codes = loose_codes(x, state.atoms, ball, code_tol)
    residual = x - codes @ state.atoms
    step = state.num_steps + 1
    kept = (1 - 1 / step) ** FORGETTING
    codes_gram = kept * state.codes_gram + codes.T @ codes
    codes_signals = kept * state.codes_signals + codes.T @ x
    atoms = improve_atoms(state.atoms, codes_gram, codes_signals)
    use = codes_gram.diagonal()
    atoms, replaced = replace_atoms(atoms, use <= UNUSED * use.max(), residual)
    codes_gram[replaced] = codes_gram[:, replaced] = codes_signals[replaced] = 0.0
    return Alternation(atoms, codes_gram, codes_signals, step, _mean_error(residual))


def _no_worse(x: Tensor, atoms: Tensor, before: Tensor | None, after: Tensor) -> Tensor:
    if before is None:
        return after
    errors = [(x - codes @ atoms).square().sum(-1, keepdim=True) for codes in (before, after)]
    return torch.where(errors[1] <= errors[0], after, before)


def _mean_error(residual: Tensor) -> float:
    return 0.5 * float(residual.square().sum(-1).mean())
