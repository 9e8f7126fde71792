"""Rows as tensors, some at a time."""

import numpy as np
import torch
from torch import Tensor

TORCH_DTYPES = {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}

# Entries of signals and codes together: 64 MiB in float32, of which a solver holds a few copies.
CHUNK_ENTRIES = 1 << 24


def default_chunk_rows(num_features: int, num_components: int) -> int:
    """Return a number of rows that bounds the memory, the same on every machine."""
    return max(1, CHUNK_ENTRIES // max(1, num_features + num_components))


def to_tensor(values: np.ndarray, dtype: np.dtype, device: torch.device) -> Tensor:
    """Copy an array of any layout into a tensor.

    The copy lies in memory allocated by torch: matrix products round differently with another
    alignment, and equal rows must give equal codes in every run.
    """
    tensor = torch.empty(values.shape, dtype=TORCH_DTYPES[dtype])
    tensor.numpy()[...] = values
    return tensor.to(device)
