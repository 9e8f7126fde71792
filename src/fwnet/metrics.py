"""One definition of every figure that is reported."""

from __future__ import annotations

from torch import Tensor

__all__ = ["code_error", "error_rate"]


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


def error_rate(scores: Tensor, labels: Tensor) -> Tensor:
    """The part of the samples whose largest score is not that of their class, in [0, 1]."""
    if scores.shape[:-1] != labels.shape:
        raise ValueError(
            f"expected one label for each of the scores {tuple(scores.shape[:-1])}, "
            f"got {tuple(labels.shape)}"
        )
    return (scores.argmax(-1) != labels).double().mean()
