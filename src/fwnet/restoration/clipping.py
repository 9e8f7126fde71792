"""Noise that was cut off at black and at white."""

import math
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import pad

REACH = 7  # pixels: noise is measured over squares of 15 × 15, whose sides are 8 + 8 − 1
LARGEST = 8.0  # brightness in units of the noise, above which nothing is cut off
NUM_POINTS = 2001


def unclipped(denoised: Tensor, noisy: Tensor) -> Tensor:
    """Solve m(y/s) = f/s for y: the brightness y whose cut-off noise has the mean f.

    Pixels cannot be darker than black. Where the noise n ~ N(0, s²) would go below 0 it is cut off,
    so the mean of max(y + n, 0) is s·m(y/s) with m(t) = t·Φ(t) + φ(t), larger than y: networks that
    learned from noise that nothing cuts off make dark places gray. The same holds at white.

    The unknown s is not needed. The noise around a pixel, as far as the network removed it, has a
    standard deviation d, and d/f depends on y/s alone: 1.46 at y = 0, less where it is brighter.

    Args:
        denoised: What a network made of the image, (batch, channel, h, w).
        noisy: The image, with values in [0, 1].
    """
    denoised = denoised.clamp(0, 1)
    noise = _mean_around((noisy - denoised).square()).sqrt()
    dark = denoised * _share_of_mean(noise / denoised.clamp(min=1e-6))
    bright = _share_of_mean(noise / (1 - denoised).clamp(min=1e-6))
    return dark + (1 - dark) * (1 - bright)  # exactly the image where there is no noise


def _share_of_mean(ratio: Tensor) -> Tensor:
    """t/m(t) where the deviation of max(t + n, 0), n ~ N(0, 1), is `ratio` times its mean m(t)."""
    shares, least, step = _even_table()
    shares = shares.to(ratio)
    pixels = ratio.movedim(1, -1)  # the order in memory: images are channels-last
    place = pixels.flatten().sub(least).div_(step).clamp_(0, NUM_POINTS - 1)
    left = place.int().clamp_(max=NUM_POINTS - 2)
    lower, upper = (points.index_select(0, left) for points in (shares, shares[1:]))
    return torch.lerp(lower, upper, place.sub_(left)).view(pixels.shape).movedim(-1, 1)


@cache
def _even_table() -> tuple[Tensor, float, float]:
    """Return t/mean at equal distances of deviation/mean, the least of these and the distance.

    In such a table a place is computed: to search it for every pixel takes as long as a network.
    """
    ratios, shares = _table()
    least, most = ratios[0].item(), ratios[-1].item()
    even = torch.linspace(least, most, NUM_POINTS, dtype=torch.float64)
    right = torch.searchsorted(ratios, even).clamp(1, NUM_POINTS - 1)
    left = right - 1
    weight = (even - ratios[left]) / (ratios[right] - ratios[left])
    step = (most - least) / (NUM_POINTS - 1)
    return torch.lerp(shares[left], shares[right], weight), least, step


@cache
def _table() -> tuple[Tensor, Tensor]:
    """Return deviation/mean of cut-off noise in rising order, and t/mean."""
    t = torch.linspace(LARGEST, 0, NUM_POINTS, dtype=torch.float64)
    density = torch.exp(-0.5 * t.square()) / math.sqrt(2 * math.pi)
    below = torch.special.ndtr(t)
    mean = t * below + density
    variance = (1 + t.square()) * below + t * density - mean.square()
    return variance.sqrt() / mean, t / mean


def _mean_around(x: Tensor) -> Tensor:
    """Mean over squares; at the border over the part that is inside."""
    for axis in (2, 3):
        inside = x.new_ones([length if at == axis else 1 for at, length in enumerate(x.shape)])
        x = _sum_along(x, axis).div_(_sum_along(inside, axis))
    return x


def _sum_along(x: Tensor, axis: int) -> Tensor:
    """Sum over the REACH entries before, the entry itself and the REACH after it.

    Sums of 2, 4 and 8 are made of one another, and two sums of 8 share the entry in the middle:
    five operations instead of fifteen, which take a tenth of the time of a pooling.
    """

    def pairs(x: Tensor, distance: int) -> Tensor:
        length = x.shape[axis] - distance
        return x.narrow(axis, 0, length) + x.narrow(axis, distance, length)

    sums = pad(x, (0, 0) * (3 - axis) + (REACH, REACH))
    for distance in (1, 2, 4):
        sums = pairs(sums, distance)
    return pairs(sums, REACH).sub_(x)
