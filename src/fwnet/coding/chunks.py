"""Large arrays in pieces: how many rows at a time, and how they become tensors somewhere."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

__all__ = ["chunk_slices", "default_chunk_rows", "named_device", "to_tensor"]

# Entries of signals and codes together: 64 MiB in float32, of which a solver holds a few copies.
CHUNK_ENTRIES = 1 << 24

TORCH_DTYPES = {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}


def default_chunk_rows(num_features: int, num_components: int) -> int:
    """How many rows bound the memory: fewer of wide ones, the same on every machine."""
    return max(1, CHUNK_ENTRIES // max(1, num_features + num_components))


def named_device(name: str | torch.device) -> torch.device:
    """The device of a name, where "auto" is a CUDA device if there is one; raise for others."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"device must be auto, cpu or another that torch has here, got {str(name)!r}"
        ) from error
    return device


def chunk_slices(num_rows: int, chunk_rows: int) -> list[slice]:
    """Cut num_rows into slices of chunk_rows; the last one may be shorter."""
    starts = range(0, num_rows, chunk_rows)
    return [slice(start, min(start + chunk_rows, num_rows)) for start in starts]


def to_tensor(values: np.ndarray, dtype: np.dtype, device: torch.device) -> Tensor:
    """Copy an array of any layout into a tensor.

    The copy lies in memory of torch's own: matrix products round differently on another
    alignment, and equal rows are to give equal codes in every run.
    """
    tensor = torch.empty(values.shape, dtype=TORCH_DTYPES[dtype])
    tensor.numpy()[...] = values
    return tensor.to(device)
