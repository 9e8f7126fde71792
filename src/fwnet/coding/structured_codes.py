"""Codes that separate classes: every class has atoms of its own."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fwnet.checks import check_list, check_size, check_tensor


@dataclass(frozen=True)
class StructuredCodes:
    """z_j = d_jᵀx if atom j belongs to the class of x, and 0 if not.

    Attributes:
        dictionary: D, (n, m).
        owners: The class of each atom, (m,); −1 for an atom that no class uses.
    """

    dictionary: Tensor
    owners: Tensor

    def codes(self, x: Tensor, labels: Tensor) -> Tensor:
        """Return the codes, (count, m), of signals x, (count, n), with their classes, (count,)."""
        own = labels.unsqueeze(-1) == self.owners
        return torch.where(own, x @ self.dictionary.to(x), 0.0)


def structured_codes(
    x: Tensor, labels: Tensor, widths: list[int], generator: torch.Generator | None = None
) -> StructuredCodes:
    """D = (D_0, D_1, …), D_k the leading singular vectors of the signals of class k.

    The paper uses this dictionary and these codes for handwritten digits.

    Args:
        x: Signals, (count, n).
        labels: Their classes, (count,), 0 … K − 1.
        widths: Number of atoms of each of the K classes. Atoms beyond the rank of the signals of a
            class are random, and no code uses them.
        generator: Source of the random atoms.

    >>> import fwnet, torch
    >>> x, labels = torch.randn(60, 8), torch.arange(60) % 3
    >>> found = fwnet.coding.structured_codes(x, labels, widths=[2, 2, 2])
    >>> found.dictionary.shape, found.owners
    (torch.Size([8, 6]), tensor([0, 0, 1, 1, 2, 2]))
    >>> found.codes(x, labels)[0, 2:]
    tensor([0., 0., 0., 0.])
    """
    check_tensor("x", x)
    check_tensor("labels", labels, floating_point=False)
    check_list("widths", widths)
    if x.ndim != 2 or labels.shape != x.shape[:1]:
        raise ValueError(
            "x and labels must have shapes (count, n) and (count,), "
            f"got {tuple(x.shape)} and {tuple(labels.shape)}"
        )
    if not x.shape[1] or not len(widths):
        raise ValueError(f"expected features and classes, got {x.shape[1]} and {len(widths)}")
    if not x.isfinite().all():
        raise ValueError("x must be finite, got NaN or infinite entries")
    for width in widths:
        check_size("a width", width, least=0)
    n = x.shape[1]
    atoms, owners = [], []
    for label, width in enumerate(widths):
        rows = x[labels == label]
        directions = leading_directions(rows, min(width, n, len(rows)))
        missing = width - len(directions)
        random = torch.randn(missing, n, generator=generator, dtype=torch.float64).to(x)
        atoms += [directions, normalize(random, dim=1)]
        owners += [label] * len(directions) + [-1] * missing
    return StructuredCodes(torch.cat(atoms).T.contiguous(), torch.tensor(owners).to(labels))


def leading_directions(rows: Tensor, count: int) -> Tensor:
    """Return the right singular vectors v_j of the largest singular values of X, (count, n).

    The sign is fixed: the entry of largest magnitude is positive. X is not centered. There are at
    most n vectors, and at most as many as rows of X.
    """
    wide = rows.to(torch.promote_types(rows.dtype, torch.float32))
    if len(wide):
        wide = wide / wide.abs().max().clamp(min=torch.finfo(wide.dtype).tiny)  # finite squares
    _, vectors = torch.linalg.eigh(wide.T @ wide)
    leading = vectors.to(rows).flip(-1)[:, :count].T
    largest = leading.gather(1, leading.abs().argmax(1, keepdim=True))
    signed: Tensor = leading * torch.where(largest < 0, -1.0, 1.0)
    return signed
