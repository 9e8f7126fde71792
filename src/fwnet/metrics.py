"""One definition of every figure that is reported."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["as_displayed", "code_error", "error_rate", "psnr", "shave", "ssim"]


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


def psnr(image: Tensor, clean: Tensor) -> Tensor:
    """−10·log₁₀ mean (y − x)² in dB, for every image of a batch (batch, …) in [0, 1].

    Values of `image` outside [0, 1] are cut off first, as a display would.
    """
    _check_same_shape(image, clean)
    errors = (image.double().clamp(0, 1) - clean.double()).square().flatten(1).mean(1)
    return -10 * errors.log10()


def ssim(image: Tensor, clean: Tensor) -> Tensor:
    """The structural similarity of Wang et al. (2004), for every image of (batch, channel, h, w).

    With their Gaussian window of standard deviation 1.5, the mean over places and channels.
    Values of `image` outside [0, 1] are cut off first.
    """
    from skimage.metrics import structural_similarity

    _check_same_shape(image, clean)
    if image.ndim != 4:
        raise ValueError(
            f"images must have shape (batch, channel, height, width), got {tuple(image.shape)}"
        )
    pairs = zip(image.double().clamp(0, 1).cpu().numpy(), clean.double().cpu().numpy(), strict=True)
    values = [
        structural_similarity(
            ours,
            theirs,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
            data_range=1.0,
            channel_axis=0,
        )
        for ours, theirs in pairs
    ]
    return torch.tensor(values, dtype=torch.float64)


def as_displayed(image: Tensor) -> Tensor:
    """round(255·y)/255, cut off to [0, 1]: what a file of 8 bits a channel holds."""
    return (255 * image).round().clamp(0, 255) / 255


def shave(image: Tensor, border: int) -> Tensor:
    """Leave out the pixels of (…, h, w) next to the border, where there is less to enlarge from."""
    height, width = image.shape[-2:]
    if not 0 <= border < min(height, width) / 2:
        raise ValueError(
            f"border must be >= 0 and leave pixels of {height} × {width}, got {border}"
        )
    return image[..., border : height - border, border : width - border]


def _check_same_shape(image: Tensor, clean: Tensor) -> None:
    if image.shape != clean.shape:
        raise ValueError(
            f"images must have the shape of the clean ones, {tuple(clean.shape)}, "
            f"got {tuple(image.shape)}"
        )
