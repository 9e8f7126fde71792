"""Dictionary learning by updating codes and atoms in turn, on all rows or on batches.

    min_{D, Z} ½‖X − ZD‖²   s.t.  ‖z_i‖_p ≤ c for every code,  ‖d_j‖ = 1 for every atom

and z_i ≥ 0, d_j ≥ 0 as well if the ball is a `NonnegativeLpBall`.

Atoms are rows here, (m, n). Without the bound on the atoms the bound on the codes would have no
effect, since Z/t and tD rebuild the same signals. Given D the codes come from `solve`; given Z each
atom has a closed form (`atoms.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fwnet.functional import value_of
from fwnet.sets import LpBall, NonnegativeLpBall
from fwnet.solvers.atoms import improve_atoms, replace_atoms
from fwnet.solvers.certified import solve
from fwnet.solvers.splitting import ADMM

SPLITTING_STEPS = 3  # of ten iterations each; the next round continues from the result
SWEEPS = 5  # over the atoms per round of codes, which costs more
FORGETTING = 4.0  # batch s has weight (s/t)^4 at time t: codes of early, poor atoms fade
UNUSED = 1e-6  # an atom used less than this share of the most used one is replaced

Ball = LpBall | NonnegativeLpBall


@dataclass(frozen=True)
class Alternation:
    """A dictionary and the statistics of the codes it was fitted to.

    Attributes:
        atoms: D, (m, n), rows of norm 1.
        codes_gram: A = ZᵀZ, (m, m); older batches may have smaller weights.
        codes_signals: B = ZᵀX, (m, n), with the same weights.
        num_steps: The number of rounds or batches so far.
        error: The mean of ½‖x − zD‖² over rows. For a batch, before the dictionary was updated.
    """

    atoms: Tensor
    codes_gram: Tensor
    codes_signals: Tensor
    num_steps: int = 0
    error: float = math.inf

    @classmethod
    def begin(cls, atoms: Tensor) -> Alternation:
        """Return the state of a dictionary that has no codes yet."""
        return cls(atoms, atoms.new_zeros(len(atoms), len(atoms)), torch.zeros_like(atoms))


def loose_codes(
    x: Tensor, atoms: Tensor, ball: Ball, tol: float, start: Tensor | None = None
) -> Tensor:
    """Return feasible codes with gaps of about tol·½‖x‖². They may not have the least norm."""
    options: dict[str, Any] = {}
    if isinstance(ball, LpBall) and value_of(ball.p) in (1, math.inf):
        options = {"method": ADMM(iterations_per_step=10), "max_steps": SPLITTING_STEPS}
    return solve(x, atoms.T.contiguous(), ball, tol=tol, start=start, warn=False, **options).code


def alternate(x: Tensor, atoms: Tensor, ball: Ball, code_tol: float) -> Iterator[Alternation]:
    """Yield the dictionary after each round over all rows. The error never increases.

    A new code is used only if it is no worse than the old one, and an atom is replaced only if no
    code uses it.
    """
    codes = None
    state = Alternation.begin(atoms)
    while True:
        codes = _no_worse(x, state.atoms, codes, loose_codes(x, state.atoms, ball, code_tol, codes))
        codes_gram, codes_signals = codes.T @ codes, codes.T @ x
        nonnegative = isinstance(ball, NonnegativeLpBall)
        atoms = improve_atoms(state.atoms, codes_gram, codes_signals, SWEEPS, nonnegative)
        residual = x - codes @ atoms
        wanted = residual.clamp(min=0) if nonnegative else residual
        atoms, _ = replace_atoms(atoms, codes_gram.diagonal() == 0, wanted)
        state = Alternation(
            atoms, codes_gram, codes_signals, state.num_steps + 1, _mean_error(residual)
        )
        yield state


def online_step(state: Alternation, x: Tensor, ball: Ball, code_tol: float) -> Alternation:
    """Update the dictionary with one batch; earlier batches lose weight."""
    codes = loose_codes(x, state.atoms, ball, code_tol)
    residual = x - codes @ state.atoms
    step = state.num_steps + 1
    kept = (1 - 1 / step) ** FORGETTING
    codes_gram = kept * state.codes_gram + codes.T @ codes
    codes_signals = kept * state.codes_signals + codes.T @ x
    nonnegative = isinstance(ball, NonnegativeLpBall)
    atoms = improve_atoms(state.atoms, codes_gram, codes_signals, nonnegative=nonnegative)
    use = codes_gram.diagonal()
    atoms, replaced = replace_atoms(
        atoms, use <= UNUSED * use.max(), residual.clamp(min=0) if nonnegative else residual
    )
    codes_gram[replaced] = codes_gram[:, replaced] = codes_signals[replaced] = 0.0
    return Alternation(atoms, codes_gram, codes_signals, step, _mean_error(residual))


def _no_worse(x: Tensor, atoms: Tensor, before: Tensor | None, after: Tensor) -> Tensor:
    if before is None:
        return after
    errors = [(x - codes @ atoms).square().sum(-1, keepdim=True) for codes in (before, after)]
    return torch.where(errors[1] <= errors[0], after, before)


def _mean_error(residual: Tensor) -> float:
    return 0.5 * float(residual.square().sum(-1).mean())
