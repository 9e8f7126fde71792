"""The inverse of a Gram matrix of some atoms, when one of them goes out or another comes in.

Atoms have places; rows and columns of empty places are 0. Adding a row and a column to G, and
removing them, changes G⁻¹ by a matrix of rank one.
"""

import torch
from torch import Tensor

from fwnet.solvers.whitened import dot


def exchanged(
    inverse: Tensor,
    gram: Tensor,
    index: Tensor,
    used: Tensor,
    place: Tensor,
    entering: Tensor,
    goes_out: Tensor,
    comes_in: Tensor,
) -> Tensor:
    """Return G⁻¹ after an exchange in every row; rows without one stay as they are.

    The given G⁻¹ is changed: a copy would take longer than the arithmetic.

    Args:
        inverse: G⁻¹, (rows, places, places).
        gram: AᵀA of all atoms, (m, m).
        index: Which atom is in a place, (rows, places).
        used: Whether there is one, (rows, places).
        place: Where the exchange is, (rows, 1).
        entering: The atom that comes in, (rows, 1).
        goes_out: Whether the atom in that place goes out, (rows, 1).
        comes_in: Whether the atom `entering` comes into that place, (rows, 1).
    """
    products = gram[entering, index] * used
    solved = torch.bmm(inverse, products.unsqueeze(-1)).squeeze(-1)
    rest = gram.diagonal()[entering] - dot(products, solved)
    rows = torch.arange(len(place), device=place.device)
    own = inverse[rows, place.squeeze(-1)]
    vector = torch.where(goes_out, own, solved)
    factor = torch.where(goes_out, -1 / own.gather(-1, place), 1 / rest)
    changes = goes_out | comes_in
    factor = torch.where(changes, factor, 0.0)
    inverse.addcmul_((factor * vector).unsqueeze(-1), vector.unsqueeze(-2))
    here = torch.arange(index.shape[-1], device=place.device) == place
    edge = torch.where(here, factor, -factor * vector) * comes_in
    edge = torch.where(changes, edge, own)
    inverse[rows, place.squeeze(-1)] = edge
    inverse[rows, :, place.squeeze(-1)] = edge
    return inverse
