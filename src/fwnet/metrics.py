"""One definition of every figure that is reported."""

from __future__ import annotations

from torch import Tensor

__all__ = ["code_error"]


def code_error(code: Tensor, target: Tensor) -> Tensor:
    """Σ_i (z_i − z*_i)², the mean over samples: the paper's error per sample.

    A sum over the entries of a code, not a mean. Half of it is Caffe's Euclidean loss, which is
    what networks are trained with.
    """
    if code.shape != target.shape:
        raise ValueError(
            f"codes must have the shape of their targets, {tuple(target.shape)}, "
            f"got {tuple(code.shape)}"
        )
    return (code - target).square().sum(-1).mean()
