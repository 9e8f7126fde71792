"""Codes that tell classes apart: every class has atoms of its own."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

__all__ = ["leading_directions", "structured_codes"]


def leading_directions(rows: Tensor, count: int) -> Tensor:
    """The right singular vectors v_j of the largest singular values of X, (count, n), as rows.

    Their signs are definite: the entry of largest magnitude is positive. X is not centered. There
    are at most n of them.
    """
    _, vectors = torch.linalg.eigh(rows.T @ rows)
    leading = vectors.flip(-1)[:, :count].T
    largest = leading.gather(1, leading.abs().argmax(1, keepdim=True))
    signed: Tensor = leading * torch.where(largest < 0, -1.0, 1.0)
    return signed


def structured_codes(
    x: Tensor, labels: Tensor, widths: list[int], generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """z = (0, …, D_kᵀx, …, 0) for x of class k:  D = (D_0, D_1, …), D_k the leading directions.

    The sparse codes of the paper's handwritten digits, and the dictionary that they belong to.

    Args:
        x: Signals, (count, n).
        labels: Their classes, (count,), 0 … K − 1.
        widths: How many atoms each of the K classes has, or 0. A class that spans fewer directions
            has random ones in their place.
        generator: Where those come from.

    Returns the dictionary, (n, m), and the codes, (count, m), with m the sum of the widths.
    """
    n = x.shape[1]
    atoms, start = [], 0
    codes = x.new_zeros(len(x), sum(widths))
    for label, width in enumerate(widths):
        rows = labels == label
        directions = leading_directions(x[rows], min(width, n, int(rows.sum())))
        found = len(directions)
        codes[rows, start : start + found] = x[rows] @ directions.T
        more = torch.randn(width - found, n, generator=generator, dtype=torch.float64).to(x)
        atoms.append(torch.cat([directions, normalize(more, dim=1)]))
        start += width
    return torch.cat(atoms).T.contiguous(), codes
