"""Orthogonal matching pursuit for many signals at once.

    support ← support ∪ {argmax_j |d_jᵀr|},   z ← argmin ‖x − Dz‖² on the support,   r ← x − Dz

The least squares of a growing support follow from the Gram matrix by a progressive Cholesky
factorization, as in the Batch-OMP of Rubinstein, Zibulevsky and Elad (2008); correlations come
from the residuals of all rows in one matrix product. Finished rows leave the batch.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, pad

from fwnet.checks import check_integer, check_number
from fwnet.solvers.arguments import checked_problem
from fwnet.solvers.rows import RowState

CHUNK_ENTRIES = 1 << 18  # correlations per chunk of rows: 2 MiB fit a CPU's cache
CHUNK_ENTRIES_GPU = 1 << 25  # 256 MiB keep a GPU busy
DEPENDENT = 1e-13  # a smaller share of ‖d‖² outside the span of the chosen atoms is rounding


def omp(
    x: Tensor,
    dictionary: Tensor,
    num_nonzeros: int | None = None,
    *,
    noise: float | None = None,
) -> Tensor:
    """argmin_z ‖x − Dz‖²  s.t.  ‖z‖₀ ≤ k, greedily: orthogonal matching pursuit for every row of x.

    Computed in float64, on the device of x. A row ends with fewer nonzeros if its residual is 0 or
    orthogonal to all atoms.

    Args:
        x: Signals, (…, n), float32 or float64.
        dictionary: D of shape (n, m), columns of norm 1.
        num_nonzeros: k, the largest number of nonzeros per code, at most min(n, m).
        noise: Used instead of k: stop when ‖x − Dz‖² ≤ noise²·n, where noise is the standard
            deviation of one entry.

    >>> import fwnet, torch
    >>> D = torch.eye(4)
    >>> fwnet.solvers.omp(torch.tensor([[3.0, 0.1, -2.0, 0.0]]), D, num_nonzeros=2)
    tensor([[ 3.,  0., -2.,  0.]])
    """
    x, dictionary, _ = checked_problem(x, dictionary, None)
    if (num_nonzeros is None) == (noise is None):
        raise ValueError(
            f"expected num_nonzeros or noise, got num_nonzeros={num_nonzeros!r}, noise={noise!r}"
        )
    n, m = dictionary.shape
    if num_nonzeros is not None:
        num_nonzeros = check_integer("num_nonzeros", num_nonzeros, most=min(n, m))
    if noise is not None:
        check_number("noise", noise)
        if not noise >= 0:
            raise ValueError(f"noise must be >= 0, got {noise!r}")
    rows = x.detach().reshape(-1, n)
    if not rows.isfinite().all():
        raise ValueError("x must be finite, got NaN or infinite entries")
    atoms = dictionary.detach().double().T.contiguous()
    gram = atoms @ atoms.T
    most = min(n, m) if num_nonzeros is None else num_nonzeros
    enough = 0.0 if noise is None else noise**2 * n
    code = rows.new_zeros(len(rows), m)
    size = max(1, (CHUNK_ENTRIES if x.device.type == "cpu" else CHUNK_ENTRIES_GPU) // m)
    for part, found in zip(rows.split(size), code.split(size), strict=True):
        _pursue(part.double(), atoms, gram, most, enough, found)
    return code.reshape(*x.shape[:-1], m)


@dataclass(frozen=True)
class _Pursuit(RowState):
    """The unfinished rows, all with the same number of atoms."""

    row: Tensor  # the index in x
    smallest: Tensor  # a smaller squared correlation is rounding
    residual: Tensor  # (rows, n)
    support: Tensor  # (rows, size)
    values: Tensor  # (rows, size), the code there
    inverse: Tensor  # (rows, size, size), L⁻¹ of the Cholesky factor of D_SᵀD_S = LLᵀ


def _pursue(x: Tensor, atoms: Tensor, gram: Tensor, most: int, enough: float, code: Tensor) -> None:
    """Add the codes of the rows of x to `code`, which is 0. Atoms are rows here."""
    squares, count = x.square().sum(-1), len(x)
    state = _Pursuit(
        row=torch.arange(count, device=x.device),
        smallest=torch.finfo(x.dtype).eps * gram.diagonal().max() * squares,
        residual=x,
        support=torch.empty(count, 0, dtype=torch.long, device=x.device),
        values=x.new_empty(count, 0),
        inverse=x.new_empty(count, 0, 0),
    ).select(squares > enough)
    for size in range(1, most + 1):
        if not len(state.row):
            break
        state, useful = _step(state, atoms, gram)
        done = ~useful | (state.residual.square().sum(-1) <= enough)
        if size == most:
            done[:] = True
        if done.any():
            left = state.select(done.nonzero().squeeze(-1))
            # A rejected atom may already be in the support; it adds 0.
            places = (left.row.unsqueeze(-1), left.support)
            code.index_put_(places, left.values.to(code.dtype), accumulate=True)
            state = state.select((~done).nonzero().squeeze(-1))


def _step(state: _Pursuit, atoms: Tensor, gram: Tensor) -> tuple[_Pursuit, Tensor]:
    """Add one more atom d to every row; return the state and where the atom was useful.

    w = L⁻¹ D_Sᵀd,   ℓ² = ‖d‖² − ‖w‖²,   a = (−L⁻ᵀw, 1)/ℓ   is the next row of L⁻¹,
    q = [D_S, d] a,   z ← (z, 0) + (qᵀr) a,   r ← r − (qᵀr) q,   where qᵀr = dᵀr/ℓ
    """
    correlation = state.residual @ atoms.T
    chosen = correlation.abs().argmax(-1, keepdim=True)
    largest = correlation.gather(-1, chosen)
    inner = torch.bmm(state.inverse, gram[state.support, chosen].unsqueeze(-1))
    norm = gram.diagonal()[chosen]
    outside = norm - inner.square().sum(1)
    useful = (largest.square() > state.smallest.unsqueeze(-1)) & (outside > DEPENDENT * norm)
    length = torch.where(useful, outside, 1.0).sqrt()
    new_row = pad(-torch.bmm(inner.mT, state.inverse).squeeze(1), (0, 1), value=1.0) / length
    support = torch.cat([state.support, chosen], dim=-1)
    direction = embedding_bag(support, atoms, mode="sum", per_sample_weights=new_row)
    along = torch.where(useful, largest / length, 0.0)
    grown = replace(
        state,
        residual=state.residual - along * direction,
        support=support,
        values=pad(state.values, (0, 1)) + along * new_row,
        inverse=torch.cat([pad(state.inverse, (0, 1)), new_row.unsqueeze(1)], dim=1),
    )
    return grown, useful.squeeze(-1)
