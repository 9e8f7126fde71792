"""K-SVD and OMP: dictionaries and codes with at most k nonzeros.

    min_{D, Z} ½‖X − ZDᵀ‖²   s.t.  ‖z_i‖₀ ≤ k for every code,  ‖d_j‖ = 1 for every atom

Codes by orthogonal matching pursuit; then every atom, together with its coefficients, becomes the
best rank-1 approximation of what the others leave of the samples that use it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from fwnet.solvers.arguments import checked_problem
from fwnet.solvers.atoms import initial_atoms, worst_rows

__all__ = ["KSVD", "ksvd", "omp"]

TOO_SIMILAR = 0.99  # of two atoms with a larger |cosine| one is replaced


@dataclass(frozen=True)
class KSVD:
    """What `ksvd` found.

    Attributes:
        dictionary: D, (n, m), columns of norm 1: the paper's convention, as `solve` takes it.
        errors: ½‖x − Dz‖², the mean over samples, after every round; with batches, over those of
            the round.
    """

    dictionary: Tensor
    errors: list[float]


def omp(
    x: Tensor,
    dictionary: Tensor,
    num_nonzeros: int | None = None,
    *,
    noise: float | None = None,
) -> Tensor:
    """argmin_z ‖x − Dz‖²  s.t.  ‖z‖₀ ≤ k, greedily: orthogonal matching pursuit for every row of x.

    Args:
        x: Signals, (…, n), float32 or float64.
        dictionary: D of shape (n, m), columns of norm 1.
        num_nonzeros: k, at most this many nonzeros a code; at most min(n, m).
        noise: Instead of k: stop once ‖x − Dz‖² ≤ noise²·n, noise being that of one entry.
    """
    x, dictionary, _ = checked_problem(x, dictionary, None)
    if (num_nonzeros is None) == (noise is None):
        raise ValueError(
            f"expected num_nonzeros or noise, got num_nonzeros={num_nonzeros!r}, noise={noise!r}"
        )
    n, m = dictionary.shape
    if num_nonzeros is not None and not 1 <= num_nonzeros <= min(n, m):
        raise ValueError(f"num_nonzeros must be in [1, {min(n, m)}], got {num_nonzeros!r}")
    if noise is not None and not noise >= 0:
        raise ValueError(f"noise must be >= 0, got {noise!r}")
    rows = x.detach().reshape(-1, n)
    if not rows.isfinite().all():
        raise ValueError("x must be finite, got NaN or infinite entries")
    code = rows.new_zeros(len(rows), m)
    squares = rows.square().sum(-1)
    # What is within the noise already needs no code, and scikit-learn none of these rows.
    searched = (squares > (0.0 if noise is None else noise**2 * n)).nonzero().squeeze(-1)
    if len(searched):
        found = _pursuit(rows[searched], dictionary.detach(), num_nonzeros, noise)
        code[searched] = torch.from_numpy(found).to(code)
    return code.reshape(*x.shape[:-1], m)


def _pursuit(
    rows: Tensor, dictionary: Tensor, num_nonzeros: int | None, noise: float | None
) -> np.ndarray:
    from sklearn.linear_model import orthogonal_mp_gram

    # In float64: the squares of what is left come from differences that float32 would lose.
    atoms, signals = dictionary.double().cpu(), rows.double().cpu()
    limits: dict[str, Any] = {"n_nonzero_coefs": num_nonzeros}
    if noise is not None:
        squares = signals.square().sum(-1).numpy()
        limits = {"tol": noise**2 * rows.shape[1], "norms_squared": squares}
    with warnings.catch_warnings():
        # A pursuit that nothing is left for, or only doubles of chosen atoms, ends early: rightly.
        warnings.simplefilter("ignore", RuntimeWarning)
        code = orthogonal_mp_gram(
            (atoms.T @ atoms).numpy(), (atoms.T @ signals.T).numpy(), copy_Xy=False, **limits
        )
    return np.asarray(code).reshape(atoms.shape[1], len(rows)).T


def ksvd(
    x: Tensor,
    num_atoms: int,
    num_nonzeros: int,
    *,
    num_rounds: int = 20,
    batch_size: int | None = None,
    dictionary: Tensor | None = None,
    exact: bool = True,
    seed: int = 0,
    callback: Callable[[int, float], bool | None] | None = None,
) -> KSVD:
    """min ½‖x − Dz‖²  s.t.  ‖z‖₀ ≤ num_nonzeros, ‖d_j‖ = 1, over D and all z: the K-SVD algorithm.

    Atoms that no code uses, and one of two that are nearly the same, become the samples that are
    represented worst.

    Args:
        x: Signals, (count, n), float32 or float64.
        num_atoms: m, the number of atoms.
        num_nonzeros: The largest number of nonzeros of a code.
        num_rounds: How often codes and atoms take turns.
        batch_size: How many samples, drawn anew, a round looks at; None for all.
        dictionary: D to begin with, (n, m); by default samples drawn at random.
        exact: Whether an atom and its coefficients are the leading singular pair; else one power
            iteration towards it, which is cheaper.
        seed: What draws samples.
        callback: Called with the number of rounds done and their last error; True stops.
    """
    if x.ndim != 2:
        raise ValueError(f"x must have shape (count, n), got {tuple(x.shape)}")
    for name, value in {"num_atoms": num_atoms, "num_rounds": num_rounds}.items():
        if not value >= 1:
            raise ValueError(f"{name} must be >= 1, got {value!r}")
    if batch_size is not None and not batch_size >= 1:
        raise ValueError(f"batch_size must be >= 1, got {batch_size!r}")
    generator = torch.Generator().manual_seed(seed)
    x = x.detach()
    if dictionary is None:
        if x.numel() == 0:
            raise ValueError(f"x must not be empty, got shape {tuple(x.shape)}")
        dictionary = initial_atoms(x, num_atoms, generator).T
    x, dictionary, _ = checked_problem(x, dictionary, None)
    if dictionary.shape[1] != num_atoms:
        raise ValueError(
            f"dictionary must have num_atoms = {num_atoms} columns, got {dictionary.shape[1]}"
        )
    atoms = normalize(dictionary.detach().T, dim=-1)
    errors: list[float] = []
    for done in range(1, num_rounds + 1):
        batch = x
        if batch_size is not None and batch_size < len(x):
            batch = x[torch.randperm(len(x), generator=generator)[:batch_size].to(x.device)]
        code = omp(batch, atoms.T, num_nonzeros)
        residual = batch - code @ atoms
        _mend(atoms, code, residual)
        for j in range(num_atoms):
            _improve(atoms, code, residual, j, exact)
        errors.append(0.5 * float(residual.square().sum(-1).mean()))
        if callback is not None and callback(done, errors[-1]):
            break
    return KSVD(atoms.T.contiguous(), errors)


def _improve(atoms: Tensor, code: Tensor, residual: Tensor, j: int, exact: bool) -> None:
    """min ‖E − z dᵀ‖² over the atom d and its nonzero coefficients z, in place.

    E is what all other atoms leave of the samples that use this one.
    """
    users = code[:, j].nonzero().squeeze(-1)
    if not len(users):
        return
    left = residual[users] + code[users, j, None] * atoms[j]
    if exact:
        # The eigenvectors of EᵀE: n × n, however many samples there are.
        atom = torch.linalg.eigh(left.T @ left).eigenvectors[:, -1]
        atom = atom * torch.where(atom @ atoms[j] < 0, -1.0, 1.0)
    else:
        atom = normalize(code[users, j] @ left, dim=0)
    if not atom.any():
        return
    coefficients = left @ atom
    atoms[j], code[users, j] = atom, coefficients
    residual[users] = left - coefficients[:, None] * atom


def _mend(atoms: Tensor, code: Tensor, residual: Tensor) -> None:
    """Put the worst represented samples in the place of unused atoms and doubles, in place.

    The samples of a double lose that part of their code for one round.
    """
    similar = (atoms @ atoms.T).abs().triu(diagonal=1) > TOO_SIMILAR
    idle = similar.any(0) | ~code.any(0)
    index = idle.nonzero().squeeze(-1)
    worst = worst_rows(residual, len(index))
    index = index[: len(worst)]
    fresh = normalize(residual[worst] + code[worst] @ atoms, dim=-1)
    residual += code[:, index] @ atoms[index]
    code[:, index] = 0.0
    atoms[index] = fresh
