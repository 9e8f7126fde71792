"""Create, improve and repair dictionaries of unit-norm atoms. Atoms are rows here, (m, n)."""

import torch
from torch import Tensor
from torch.nn.functional import normalize


def initial_atoms(x: Tensor, num_atoms: int, generator: torch.Generator) -> Tensor:
    """Return random rows of x, scaled to norm 1, and random directions if there are too few."""
    order = torch.randperm(len(x), generator=generator).to(x.device)
    lengths = x.square().sum(-1)
    nonzero = order[lengths[order] > 0][:num_atoms]
    random = torch.randn(num_atoms - len(nonzero), x.shape[1], generator=generator)
    return normalize(torch.cat([x[nonzero], random.to(x)]), dim=-1)


def improve_atoms(
    atoms: Tensor,
    codes_gram: Tensor,
    codes_signals: Tensor,
    num_sweeps: int = 1,
    nonnegative: bool = False,
) -> Tensor:
    """min_D ½‖X − ZD‖²  s.t.  ‖d_j‖ = 1, one atom after the other, given A = ZᵀZ and B = ZᵀX.

    d_j ← g/‖g‖, g = B_j − Σ_{k≠j} A_jk d_k, is the exact minimizer on the sphere, so the objective
    never increases. An atom that no code uses is not changed. With `nonnegative` the minimizer with
    d_j ≥ 0 has max(g, 0) in place of g.
    """
    atoms = atoms.clone()
    own = codes_gram.diagonal()
    for _ in range(num_sweeps):
        for j in range(len(atoms)):
            wanted = codes_signals[j] - codes_gram[j] @ atoms + own[j] * atoms[j]
            wanted = wanted.clamp(min=0) if nonnegative else wanted
            length = wanted.norm()
            atoms[j] = torch.where(length > 0, wanted / length, atoms[j])
    return atoms


def worst_rows(residual: Tensor, count: int) -> Tensor:
    """Return the indices of the `count` rows with the largest residuals, largest first.

    Rows with a residual of 0 are left out.
    """
    energy = residual.square().sum(-1)
    chosen = energy.topk(min(count, len(energy)))
    return chosen.indices[chosen.values > 0]


def replace_atoms(atoms: Tensor, unused: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    """Replace unused atoms by the largest residuals; return the atoms and the replaced indices."""
    index = unused.nonzero().squeeze(-1)
    worst = worst_rows(residual, len(index))
    index = index[: len(worst)]
    atoms = atoms.clone()
    atoms[index] = normalize(residual[worst], dim=-1)
    return atoms, index
