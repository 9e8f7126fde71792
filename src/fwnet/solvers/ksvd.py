"""K-SVD: dictionaries for codes with at most k nonzeros.

    min_{D, Z} ½‖X − ZDᵀ‖²   s.t.  ‖z_i‖₀ ≤ k for every code,  ‖d_j‖ = 1 for every atom

Codes by orthogonal matching pursuit; then every atom, together with its coefficients, becomes the
best rank-1 approximation of what the others leave of the samples that use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fwnet.solvers.arguments import checked_problem
from fwnet.solvers.atoms import initial_atoms, worst_rows
from fwnet.solvers.omp import omp

__all__ = ["KSVD", "ksvd"]

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


def ksvd(
    x: Tensor,
    num_atoms: int,
    num_nonzeros: int | None = None,
    *,
    noise: float | None = None,
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
        noise: Instead: as few nonzeros as leave ‖x − Dz‖² ≤ noise²·n, noise being that of one
            entry.
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
        code = omp(batch, atoms.T, num_nonzeros, noise=noise)
        residual = batch - code @ atoms
        _mend(atoms, code, residual)
        for j, users in enumerate(_users(code)):
            _improve(atoms, code, residual, j, users, exact)
        errors.append(0.5 * float(residual.square().sum(-1).mean()))
        if callback is not None and callback(done, errors[-1]):
            break
    return KSVD(atoms.T.contiguous(), errors)


def _users(code: Tensor) -> list[Tensor]:
    """The samples that use an atom, for every atom."""
    atom, sample = code.T.contiguous().nonzero(as_tuple=True)
    return list(sample.split(torch.bincount(atom, minlength=code.shape[1]).tolist()))


def _improve(
    atoms: Tensor, code: Tensor, residual: Tensor, j: int, users: Tensor, exact: bool
) -> None:
    """min ‖E − z dᵀ‖² over the atom d and its nonzero coefficients z, in place.

    E is what all other atoms leave of the samples that use this one.
    """
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
