"""Bicubic resizing by integer factors, equal to MATLAB's `imresize`."""

import torch
from torch import Tensor

from fwnet.checks import check_size
from fwnet.hardware import widest_dtype

__all__ = ["REACH", "enlarge", "shrink"]

REACH = 2  # an output pixel depends on input this far away, in pixels of the small image


def enlarge(x: Tensor, scale: int) -> Tensor:
    """y(s·i + r) = Σ_k x(i + k)·κ(k − (r + ½)/s + ½),   r < s, along both axes; κ: Keys' cubic.

    The image is mirrored at its border. Values may leave the range of x slightly.

    Args:
        x: Images, (…, h, w), floating-point.
        scale: s >= 1. The result is (…, s·h, s·w).

    >>> import fwnet, torch
    >>> fwnet.resize.enlarge(torch.rand(3, 8, 10), scale=3).shape
    torch.Size([3, 24, 30])
    """
    _check(x, scale)
    # Everything stays on the device of x, so that a CUDA graph can record it.
    places = torch.arange(scale, dtype=widest_dtype(x.device), device=x.device)
    phases = (places + 0.5) / scale - 0.5
    taps = torch.arange(-REACH, REACH + 1, device=x.device)
    weights = _cubic(taps - phases[:, None])
    return _resample(_resample(x, weights, taps, 1, -2), weights, taps, 1, -1)


def shrink(x: Tensor, scale: int) -> Tensor:
    """y(i) = Σ_k x(s·i + k)·κ((k − (s − 1)/2)/s)/s, along both axes: κ is widened to smooth.

    Args:
        x: Images, (…, h, w), floating-point; h and w are multiples of s.
        scale: s >= 1. The result is (…, h/s, w/s).

    >>> import fwnet, torch
    >>> fwnet.resize.shrink(torch.rand(3, 24, 30), scale=3).shape
    torch.Size([3, 8, 10])
    """
    _check(x, scale)
    height, width = x.shape[-2:]
    if height % scale or width % scale:
        raise ValueError(f"height and width must be multiples of {scale}, got {height} and {width}")
    middle = (scale - 1) / 2
    taps = torch.arange(-2 * scale, 3 * scale, device=x.device)
    weights = _cubic((taps.to(widest_dtype(x.device)) - middle) / scale) / scale
    weights = (weights / weights.sum())[None]
    return _resample(_resample(x, weights, taps, scale, -2), weights, taps, scale, -1)


def _cubic(x: Tensor) -> Tensor:
    """Keys' kernel with a = −½: piecewise cubic, 1 at 0, 0 at all other integers."""
    x = x.abs()
    near = 1.5 * x**3 - 2.5 * x**2 + 1
    far = -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
    return torch.where(x <= 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


def _resample(x: Tensor, weights: Tensor, taps: Tensor, stride: int, dim: int) -> Tensor:
    """y(p·i + r) = Σ_k weights(r, k)·x(stride·i + taps(k)) along an axis, p = len(weights).

    Only products and sums: a convolution would lose digits under autocast and in TF32.
    """
    length = x.shape[dim]
    weights = weights.to(x.dtype).reshape(*weights.shape, *(1,) * x.ndim)
    places = stride * torch.arange(length // stride, device=x.device)[:, None] + taps
    period = torch.full_like(places, 2 * length)  # of a mirrored image; a tensor for ONNX
    places = places % period
    places = torch.where(places < length, places, 2 * length - 1 - places)
    # Phases are the first axis: products of whole rows are fast.
    y = sum(weights[:, k] * x.index_select(dim, places[:, k]) for k in range(len(taps)))
    assert isinstance(y, Tensor)
    return y.movedim(0, dim).flatten(dim - 1, dim)


def _check(x: Tensor, scale: int) -> None:
    check_size("scale", scale)
    if not isinstance(x, Tensor) or x.layout != torch.strided:
        raise TypeError(f"x must be a dense tensor, got {type(x).__name__}")
    if x.ndim < 2 or not x.is_floating_point():
        raise ValueError(
            f"x must be floating-point of shape (…, height, width), got {x.dtype} of shape "
            f"{tuple(x.shape)}"
        )
