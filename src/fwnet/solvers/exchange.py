"""The inverse of a Gram matrix of some atoms, when one of them goes out or another comes in.

Atoms have places; rows and columns of empty places are 0 up to rounding. Adding a row and a column
to G, and removing them, changes G⁻¹ by a matrix of rank one.
"""

import torch
from torch import Tensor

from fwnet.solvers.whitened import dot

NATIVE = 400  # torch's own products of matrices with fewer entries are fast for columns


def times(inverse: Tensor, vector: Tensor) -> Tensor:
    """Return G⁻¹v for every row, with v as a column or as a row, whatever is faster."""
    if inverse.shape[-1] ** 2 < NATIVE:
        return torch.bmm(inverse, vector.unsqueeze(-1)).squeeze(-1)
    return torch.bmm(vector.unsqueeze(-2), inverse).squeeze(-2)


def exchanged(
    inverse: Tensor,
    gram: Tensor,
    index: Tensor,
    used: Tensor,
    place: Tensor,
    entering: Tensor,
    goes_out: Tensor,
    comes_in: Tensor,
    dependent: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Return G⁻¹ after an exchange in every row, and where an atom came in.

    Rows without an exchange stay as they are. The given G⁻¹ is changed: a copy would take longer
    than the arithmetic.

    Args:
        inverse: G⁻¹, (rows, places, places).
        gram: AᵀA of all atoms, (m, m).
        index: Which atom is in a place, (rows, places).
        used: Whether there is one, (rows, places).
        place: Where the exchange is, (rows, 1).
        entering: The atom that comes in, (rows, 1).
        goes_out: Whether the atom in that place goes out, (rows, 1).
        comes_in: Whether the atom `entering` comes into that place, (rows, 1).
        dependent: An atom stays out if this share of its square, or less, is outside the span of
            the others.
    """
    flat = (entering * len(gram) + index).flatten()
    products = gram.flatten().index_select(0, flat).view_as(index) * used
    solved = times(inverse, products)
    square = gram.diagonal()[entering]
    rest = square - dot(products, solved)
    comes_in = comes_in & ~(rest <= dependent * square)
    places = index.shape[-1]
    first = torch.arange(0, inverse.shape[0] * places, places, device=place.device)
    own = inverse.view(-1, places).index_select(0, first + place.squeeze(-1))
    # With −1 in the place of the new atom, v·vᵀ/rest is all that changes.
    solved.scatter_(-1, place, -1.0)
    vector = torch.where(goes_out, own, solved)
    grows = comes_in / torch.where(comes_in, rest, 1.0)
    factor = torch.where(goes_out, -1 / own.gather(-1, place), grows)
    inverse.addcmul_((factor * vector).unsqueeze(-1), vector.unsqueeze(-2))
    return inverse, comes_in
