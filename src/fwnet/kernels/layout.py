"""The memory layout of the rows of a tensor, without copies where possible."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Layout(NamedTuple):
    """Memory as (outer, length, inner): the entries of a row are `inner` apart.

    Rows along the last axis and channels-last images have inner = 1; the channels of an ordinary
    (b, c, h, w) image have inner = h·w.
    """

    dim: int
    along_last: bool  # the row's axis is innermost in memory
    length: int
    inner: int
    num_rows: int

    @classmethod
    def of(cls, u: Tensor, dim: int) -> Layout:
        """Return the layout of u; a tensor in neither dense form is treated as an ordinary one."""
        dim = dim % u.ndim
        length = u.shape[dim]
        if dim == u.ndim - 1 or u.movedim(dim, -1).is_contiguous():
            return cls(dim, True, length, 1, u.numel() // length)
        return cls(dim, False, length, math.prod(u.shape[dim + 1 :]), u.numel() // length)

    def dense(self, t: Tensor) -> Tensor:
        """Return t in this layout; copy only if needed."""
        return t.movedim(self.dim, -1).contiguous() if self.along_last else t.contiguous()

    def empty(self, like: Tensor) -> Tensor:
        """Return an empty tensor of the shape of `like` in this layout."""
        if not self.along_last:
            return torch.empty_like(like, memory_format=torch.contiguous_format)
        moved = like.movedim(self.dim, -1)
        dense = torch.empty_like(moved, memory_format=torch.contiguous_format)
        return dense.movedim(-1, self.dim)
