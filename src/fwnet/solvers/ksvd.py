"""K-SVD: dictionaries for codes with at most k nonzeros.

    min_{D, Z} ½‖X − ZDᵀ‖²   s.t.  ‖z_i‖₀ ≤ k for every code,  ‖d_j‖ = 1 for every atom

The codes come from orthogonal matching pursuit. Then every atom and its coefficients become the
best rank-1 approximation of the residual, without that atom, of the samples that use it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fwnet.checks import check_integer, check_size, check_tensor
from fwnet.solvers.arguments import checked_problem
from fwnet.solvers.atoms import initial_atoms, worst_rows
from fwnet.solvers.omp import omp

TOO_SIMILAR = 0.99  # one of two atoms with a larger |cosine| is replaced


@dataclass(frozen=True)
class KSVD:
    """The result of `ksvd`.

    Attributes:
        dictionary: D, (n, m), columns of norm 1: the paper's convention, as `solve` takes it.
        errors: The mean of ½‖x − Dz‖² over the samples of a round, after each round.

    >>> import fwnet, torch
    >>> result = fwnet.solvers.ksvd(torch.randn(50, 4), num_atoms=8, num_nonzeros=1, num_rounds=3)
    >>> len(result.errors), result.dictionary.norm(dim=0).allclose(torch.ones(8))
    (3, True)
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

    Atoms that no code uses, and one of two nearly equal atoms, are replaced by the samples with the
    largest errors.

    Args:
        x: Signals, (count, n), float32 or float64.
        num_atoms: m, the number of atoms.
        num_nonzeros: The largest number of nonzeros of a code.
        noise: Used instead of num_nonzeros: stop a code when ‖x − Dz‖² ≤ noise²·n, where noise is
            the standard deviation of one entry.
        num_rounds: The number of rounds (default 20).
        batch_size: The number of random samples per round (default: all).
        dictionary: The initial D, (n, m). Default: random samples.
        exact: Whether to compute the leading singular pair for each atom; otherwise take one power
            iteration towards it, which is cheaper.
        seed: The seed of the random samples.
        callback: Called with the number of finished rounds and the last error. Return True to stop.

    >>> import fwnet, torch
    >>> result = fwnet.solvers.ksvd(torch.randn(200, 8), num_atoms=16, num_nonzeros=2, num_rounds=5)
    >>> result.dictionary.shape, result.errors[-1] < result.errors[0]
    (torch.Size([8, 16]), True)
    """
    check_tensor("x", x)
    if x.ndim != 2:
        raise ValueError(f"x must have shape (count, n), got {tuple(x.shape)}")
    check_size("num_atoms", num_atoms)
    check_integer("num_rounds", num_rounds)
    if batch_size is not None:
        check_integer("batch_size", batch_size)
    generator = torch.Generator().manual_seed(check_integer("seed", seed, least=0))
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
    """Return for every atom the samples that use it."""
    atom, sample = code.T.contiguous().nonzero(as_tuple=True)
    return list(sample.split(torch.bincount(atom, minlength=code.shape[1]).tolist()))


def _improve(
    atoms: Tensor, code: Tensor, residual: Tensor, j: int, users: Tensor, exact: bool
) -> None:
    """min ‖E − z dᵀ‖² over the atom d and its nonzero coefficients z, in place.

    E is the residual, without this atom, of the samples that use it.
    """
    if not len(users):
        return
    left = residual[users] + code[users, j, None] * atoms[j]
    if exact:
        # The eigenvectors of EᵀE: n × n, however many samples there are.
        atom = torch.linalg.eigh(left.T @ left).eigenvectors[:, -1]
        atom = -atom if atom @ atoms[j] < 0 else atom
    else:
        atom = normalize(code[users, j] @ left, dim=0)
    if not atom.any():
        return
    coefficients = left @ atom
    atoms[j], code[users, j] = atom, coefficients
    residual[users] = left - coefficients[:, None] * atom


def _mend(atoms: Tensor, code: Tensor, residual: Tensor) -> None:
    """Replace unused and duplicate atoms by the samples with the largest errors, in place.

    Coefficients of a replaced atom become 0 for this round.
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
