"""The figures that are reported: errors, PSNR and SSIM."""

import torch
from torch import Tensor

from fwnet.checks import check_tensor
from fwnet.hardware import widest_dtype

__all__ = ["as_displayed", "code_error", "error_rate", "psnr", "shave", "ssim"]

SSIM_WINDOW = 11  # pixels: 3.5 standard deviations to each side
SAME_SHAPE = "images must have the shape of the clean ones"


def code_error(code: Tensor, target: Tensor) -> Tensor:
    """Σ_i (z_i − z*_i)², averaged over samples: the paper's error per sample.

    It is a sum over the entries of a code, not a mean. Networks are trained with half of it, which
    is Caffe's Euclidean loss.

    >>> import fwnet, torch
    >>> fwnet.metrics.code_error(torch.ones(10, 3), torch.zeros(10, 3))
    tensor(3.)
    """
    _check_shape("codes must have the shape of their targets", code, target)
    return (code - target).square().sum(-1).mean()


def error_rate(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the fraction of samples whose largest score is not that of their label.

    >>> import fwnet, torch
    >>> scores = torch.tensor([[0.1, 0.9], [0.8, 0.2]])
    >>> fwnet.metrics.error_rate(scores, torch.tensor([1, 1])).item()
    0.5
    """
    check_tensor("scores", scores)
    check_tensor("labels", labels, floating_point=False)
    if not scores.numel():
        raise ValueError(f"expected at least one score, got shape {tuple(scores.shape)}")
    _check_same("labels must have the shape of scores[..., 0]", labels.shape, scores.shape[:-1])
    return (scores.argmax(-1) != labels).to(widest_dtype(scores.device)).mean()


def psnr(image: Tensor, clean: Tensor) -> Tensor:
    """−10·log₁₀ mean (y − x)² in dB, for every image of a batch (batch, …) in [0, 1].

    Values of `image` are first clipped to [0, 1], as on a display.

    >>> import fwnet, torch
    >>> clean = torch.full((2, 1, 8, 8), 0.5)
    >>> fwnet.metrics.psnr(clean + 0.1, clean)
    tensor([20.0000, 20.0000], dtype=torch.float64)
    """
    _check_shape(SAME_SHAPE, image, clean)
    if image.ndim < 2:
        raise ValueError(f"expected a batch of images, got shape {tuple(image.shape)}")
    image, clean = (one.to(widest_dtype(one.device)) for one in (image, clean))
    errors = (image.clamp(0, 1) - clean).square().flatten(1).mean(1)
    return -10 * errors.log10()


def ssim(image: Tensor, clean: Tensor) -> Tensor:
    """Return the SSIM of Wang et al. (2004) for every image of (batch, channel, h, w).

    It uses their Gaussian window of standard deviation 1.5 and averages over pixels and channels.
    Values of `image` are first clipped to [0, 1].

    >>> import fwnet, torch
    >>> clean = torch.rand(1, 1, 32, 32)
    >>> fwnet.metrics.ssim(clean, clean).item()
    1.0
    """
    from skimage.metrics import structural_similarity

    _check_shape(SAME_SHAPE, image, clean)
    if image.ndim != 4:
        raise ValueError(
            f"images must have shape (batch, channel, height, width), got {tuple(image.shape)}"
        )
    if min(image.shape[2:]) < SSIM_WINDOW:
        raise ValueError(
            f"images must have {SSIM_WINDOW} pixels along each side, got {tuple(image.shape)}"
        )
    image, clean = (one.detach().cpu().double() for one in (image, clean))
    pairs = zip(image.clamp(0, 1).numpy(), clean.numpy(), strict=True)
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
    """round(255·y)/255, clipped to [0, 1]: what a file with 8 bits per channel holds.

    >>> import fwnet, torch
    >>> 255 * fwnet.metrics.as_displayed(torch.tensor([-0.2, 0.5, 1.3]))
    tensor([  0., 128., 255.])
    """
    check_tensor("image", image)
    return (255 * image).round().clamp(0, 255) / 255


def shave(image: Tensor, border: int) -> Tensor:
    """Return (…, h, w) without `border` pixels on each side.

    >>> import fwnet, torch
    >>> fwnet.metrics.shave(torch.zeros(1, 3, 20, 30), 4).shape
    torch.Size([1, 3, 12, 22])
    """
    check_tensor("image", image, floating_point=False)
    if image.ndim < 2:
        raise ValueError(f"image must have shape (..., h, w), got {tuple(image.shape)}")
    height, width = image.shape[-2:]
    if not isinstance(border, int):
        raise TypeError(f"border must be an integer, got {type(border).__name__}")
    if not 0 <= border < min(height, width) / 2:
        raise ValueError(
            f"border must be >= 0 and leave pixels of {height} × {width}, got {border}"
        )
    return image[..., border : height - border, border : width - border]


def _check_shape(rule: str, found: Tensor, expected: Tensor) -> None:
    """Raise unless two tensors have the same shape, which the rule words."""
    check_tensor("the first argument", found)
    check_tensor("the second argument", expected)
    if not expected.numel():
        raise ValueError(f"expected at least one value, got shape {tuple(expected.shape)}")
    _check_same(rule, found.shape, expected.shape)


def _check_same(rule: str, shape: torch.Size, expected: torch.Size) -> None:
    if shape != expected:
        raise ValueError(f"{rule}, {tuple(expected)}, got {tuple(shape)}")
